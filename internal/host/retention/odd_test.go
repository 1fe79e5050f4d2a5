package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/host/fsck/fscktest"
)

// TestAJobThatCannotBeArchived: it stays whole and is named, and all others go.
func TestAJobThatCannotBeArchived(t *testing.T) {
	big := `replace(printf('%6291456s', ''), ' ', char(1))` // 6 MiB of what is six bytes each in a segment
	for name, c := range map[string]struct {
		sql  []string
		says string
		fsck []fsck.Rule // what fsck says of it
	}{
		"too large":         {[]string{`UPDATE outputs SET text = ` + big + ` WHERE job = 3`}, "its rows have 36 MiB", []fsck.Rule{fsck.Outputs}},
		"text that is none": {[]string{`UPDATE steps SET detail = CAST(x'ff00fe' AS TEXT) WHERE job = 3`}, "its rows cannot be written", nil},
		"its rows are gone": {[]string{`DELETE FROM outputs WHERE job = 3`, `DELETE FROM steps WHERE job = 3`, `DELETE FROM requesters WHERE job = 3`,
			`DELETE FROM jobs WHERE id = 3`}, "its rows cannot be read", []fsck.Rule{fsck.Outputs, fsck.Decided}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.busy(110)
			w.pass(25 * time.Hour)
			if c.fsck != nil {
				fscktest.Breaks(t, w.store, c.fsck...)
			}
			w.update(func(tx *store.Tx) error {
				for _, query := range c.sql {
					if _, err := tx.Exec(query); err != nil {
						return err
					}
				}
				return nil
			})
			w.archive()
			require.Positive(t, w.bound(), w.keeper.State())
			if name == "too large" { // nobody can do anything about it
				require.Contains(t, w.keeper.State().Large, "j3: "+c.says)
				require.Empty(t, w.keeper.State().Odd)
			} else {
				require.Contains(t, w.keeper.State().Odd, "job j3 cannot be archived and stays: "+c.says)
			}
			require.Empty(t, w.keeper.State().Held)
		})
	}
}

// TestAnEntryThatCannotBeArchived: a segment has no gaps, so archiving is held before its tile, and the state names it.
func TestAnEntryThatCannotBeArchived(t *testing.T) {
	for name, c := range map[string]struct {
		sql, says string
		fsck      []fsck.Rule // what fsck says of it
	}{
		"does not decode": {`UPDATE audit SET body = x'7b' WHERE seq = 300`, "entry 300 does not decode", []fsck.Rule{fsck.AuditLog, fsck.Decided}},
		"too long": {`UPDATE audit SET body = CAST(replace(body, '"kind"', '"detail":"' || replace(printf('%65536s', ''), ' ', 'x') || '","kind"') AS BLOB)
			WHERE seq = 300`, "entry 300 ", []fsck.Rule{fsck.AuditLog}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.busy(220)
			w.pass(25 * time.Hour)
			fscktest.Breaks(t, w.store, c.fsck...)
			w.update(func(tx *store.Tx) error { _, err := tx.Exec(c.sql); return err })
			w.archive()
			require.EqualValues(t, 256, w.bound(), "the tile before it")
			require.Contains(t, w.keeper.State().Held, c.says)
			require.Contains(t, w.keeper.State().Held, "nothing from it on is archived")
		})
	}
}
