package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// waits is a store with so many requests that ended, and so many that wait. Every tenth of those needs a role of the
// policy's own, too.
func waits(t testing.TB, ended, waiting int, noon time.Time) *store.Store {
	s := newStore(t)
	need := op.Requirement{Ways: []op.Way{{Demands: []op.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1}}}}}
	more := op.Requirement{Ways: []op.Way{{Demands: []op.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1}, {Roles: []op.Role{"manager"}, Threshold: 1}}}}}
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for i := 1; i <= ended+waiting; i++ {
			state, asks := "pending_signature", need
			if i <= ended {
				state = "succeeded"
			} else if i%10 == 0 {
				asks = more
			}
			for _, q := range []struct {
				sql  string
				args []any
			}{
				{`INSERT INTO jobs(id, reason, created_at, finished_at) VALUES(?, '', 1, 1)`, []any{i}},
				{`INSERT INTO steps(job, idx, op, kind, name, incarnation, params, fingerprint, class, rule, why, state, birth, undoes, wish, updated_at)
					VALUES(?, 1, 'guest.destroy', 'guest', ?, '', '{}', '', 'destructive', '', '', ?, '', 0, '', 0)`, []any{i, fmt.Sprint("g", i), state}},
				{`INSERT INTO requests(job, idx, payload, nonce, facts, need, labels, offline, created_at, issued_at, expires_at)
					VALUES(?, 1, x'7b7d', ?, '[]', ?, '{}', 0, ?, 0, 0)`,
					[]any{i, fmt.Sprint("n", i), journal.EncodeNeed(asks), noon.Add(time.Duration(i) * time.Second).UnixNano()}},
			} {
				if _, err := tx.Exec(q.sql, q.args...); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	return s
}

func readWaiting(t testing.TB, s *store.Store) (w journal.Waiting) {
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) { w, err = journal.ReadWaiting(tx); return err }))
	return w
}

// BenchmarkReadWaiting: a scrape costs what waits, and nothing for what was decided.
func BenchmarkReadWaiting(b *testing.B) {
	for _, c := range [][2]int{{0, 100}, {50_000, 100}, {0, 5000}} {
		b.Run(fmt.Sprintf("ended=%d waiting=%d", c[0], c[1]), func(b *testing.B) {
			s := waits(b, c[0], c[1], time.Unix(1, 0))
			for b.Loop() {
				readWaiting(b, s)
			}
		})
	}
}

func TestWhatWaits(t *testing.T) {
	require.Equal(t, journal.Waiting{ByRole: map[op.Role]int{}}, readWaiting(t, newStore(t)))
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	s := waits(t, 30, 25, noon)
	w := readWaiting(t, s)
	require.Equal(t, 25, w.Count)
	require.Equal(t, map[op.Role]int{op.Operational: 25, "manager": 2}, w.ByRole, "40 and 50 ask for both")
	require.True(t, w.Oldest.Equal(noon.Add(31*time.Second)))
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		at, err := journal.RequestedAt(tx, op.StepID{Job: 7, Index: 1})
		require.True(t, at.Equal(noon.Add(7*time.Second)))
		none, missing := journal.RequestedAt(tx, op.StepID{Job: 99, Index: 1})
		require.NoError(t, missing)
		require.True(t, none.IsZero())
		return err
	}))
}
