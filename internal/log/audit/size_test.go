package audit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// TestEntriesThatNoSegmentTakes: what a caller asks for has an entry that a segment takes, or is refused. What has happened is written.
func TestEntriesThatNoSegmentTakes(t *testing.T) {
	for kind, most := range map[audit.Kind]int{audit.Requested: audit.MaxEntry, audit.Reserved: audit.MaxEntry, audit.Planned: audit.MaxEntry - 4096} {
		l := newLog(t)
		l.append(audit.Entry{Time: when, Kind: kind, By: "uid:1000", Detail: "x"})
		short := len(l.bodies()[0])
		longer := func(bytes int) audit.Entry {
			const prev = 64 // the first entry names none before it
			return audit.Entry{Time: when, Kind: kind, By: "uid:1000", Detail: strings.Repeat("x", bytes-short-prev+1)}
		}
		l.append(longer(most))
		require.Len(t, l.bodies()[1], most)
		err := l.store.Update(t.Context(), func(tx *store.Tx) error {
			_, err := audit.Append(tx, longer(most+1))
			return err
		})
		require.ErrorIs(t, err, refusal.Oversized, kind)
		require.Len(t, l.bodies(), 2)
		happened := longer(most + 1)
		happened.Kind = audit.Succeeded
		l.append(happened)
		require.Greater(t, len(l.bodies()[2]), most)
	}
}

func (l *log) bodies() (out [][]byte) {
	l.t.Helper()
	require.NoError(l.t, l.store.View(l.t.Context(), func(tx *store.Tx) (err error) {
		out, err = audit.Bodies(tx, 0, 100)
		return err
	}))
	return out
}
