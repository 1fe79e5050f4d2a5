package signers

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
)

func ptr(b bool) *bool { return &b }

// The newest word counts, also if many entries follow it. An empty log says
// nothing of revoked keys.
func TestRevokedKeysFarBackInTheLog(t *testing.T) {
	//fsck:none entries by hand, for what they say alone
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations(), Rehearse: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.OnGroup(audit.Seal)
	say := func(entries ...audit.Entry) {
		require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error { _, err := audit.Append(tx, entries...); return err }))
	}
	tells := func() (before bool) {
		require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) { before, err = RevokedBefore(tx); return err }))
		return before
	}
	require.False(t, tells())
	say(audit.Entry{Kind: audit.Started, Revokes: ptr(false)})
	require.False(t, tells())
	say(audit.Entry{Kind: audit.Trusted, Revokes: ptr(true)})
	require.True(t, tells())
	for _, n := range []int{998, 1, 1, 1000, 2500} {
		say(make([]audit.Entry, n)...)
		require.True(t, tells())
	}
	say(audit.Entry{Kind: audit.Started, Revokes: ptr(false)})
	require.False(t, tells())

	// Neither an edit of the list nor a rotation tells of revoked keys.
	say(audit.Entry{Kind: audit.Trusted, Target: "trust/signers", Parts: audit.Parts{Edited: true}},
		audit.Entry{Kind: audit.Rotated, Revokes: ptr(true)}, audit.Entry{Kind: audit.Stopped, Revokes: ptr(true)})
	require.False(t, tells())

	// An entry that does not decode may have revoked a key.
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		if err == nil {
			_, err = tx.Exec(`UPDATE audit SET body = ? WHERE seq = ?`, []byte(`{"kind":"trusted","detail":`), head.Seq)
		}
		return err
	}))
	require.True(t, tells())
}
