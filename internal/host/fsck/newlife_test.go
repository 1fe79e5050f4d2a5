package fsck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// TestTimesThatARestoreEnded: a new gate id ends the times of waiting requests only.
func TestTimesThatARestoreEnded(t *testing.T) {
	const next op.GateID = "f123456789abcdef0123456789abcdef"
	w := newWorld(t)
	w.do(ask("guest.create", "web"), ask("guest.create", "db"), ask("guest.create", "tmp"), ask("guest.create", "old"))
	w.approve(w.destroy("web")) // j2.1 ran
	w.run()
	w.destroy("db")             // j3.1 waits, and is cancelled before the gate issues it anew
	w.destroy("tmp")            // j4.1 waits, and is issued anew
	w.approve(w.destroy("old")) // j5.1 is authorized
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, nonce.SetMark(tx, nonce.Reading{Wall: w.wall}))
		require.NoError(t, journal.ExpireRequests(tx))
		_, err := audit.Append(tx, audit.Entry{Kind: audit.Restored, Gate: next, Time: w.wall})
		return err
	}))
	require.NoError(t, w.store.Close())
	sound(t, w.path)
	for name, job := range map[string]string{"ran": "2", "authorized": "5"} {
		r := check(t, byHand(t, w.path, `UPDATE requests SET expires_at = 0 WHERE job = `+job))
		require.Len(t, r.Problems, 1, name)
		require.EqualValues(t, "payload-times", r.Problems[0].Code, name)
		require.Equal(t, "j"+job+".1", r.Problems[0].Where)
	}
	w.id = next
	w.open()
	must.Get(w.gate.Cancel(t.Context(), hub, 3))(t)
	require.NoError(t, w.gate.Tick(t.Context()))
	require.Equal(t, op.StatePending, w.job(4).Steps[0].State)
	require.NoError(t, w.store.Close())
	sound(t, w.path)
	for change, why := range map[string]string{
		`UPDATE requests SET expires_at = 0 WHERE job = 4`: "the new gate issued it",
		`UPDATE requests SET expires_at = 1 WHERE job = 3`: "a restore writes no other time than 0",
	} {
		r := check(t, byHand(t, w.path, change))
		require.NotEmpty(t, r.Problems, why)
		require.EqualValues(t, "payload-times", r.Problems[0].Code, why)
	}
}
