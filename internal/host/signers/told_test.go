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

// Each start, and each change of the file, says whether keys are revoked. Entries
// of older programs have the digest of the file alone.
func TestWhatAnEntrySaysOfRevokedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		e         audit.Entry
		is, tells bool
	}{
		"a start without keys":          {audit.Entry{Kind: audit.Started, Revokes: ptr(false), Revoked: "unreadable"}, false, true},
		"a start with keys":             {audit.Entry{Kind: audit.Started, Revokes: ptr(true)}, true, true},
		"a change of the file":          {audit.Entry{Kind: audit.Trusted, Revokes: ptr(true)}, true, true},
		"an older start without a file": {audit.Entry{Kind: audit.Started, Policy: "p"}, false, true},
		"an older start with a file":    {audit.Entry{Kind: audit.Started, Policy: "p", Revoked: "00"}, true, true},
		"an older unreadable file":      {audit.Entry{Kind: audit.Trusted, Policy: "p", Revoked: "unreadable"}, true, true},
		"an older file of comments":     {audit.Entry{Kind: audit.Trusted, Policy: "p", Revoked: "00", Detail: "0 keys revoked, sha256:00"}, false, true},
		"an older start with comments":  {audit.Entry{Kind: audit.Started, Policy: "p", Revoked: "00", Detail: "gated 1; revoked keys: 0 in /x"}, false, true},
		"an older file that never was": {audit.Entry{Kind: audit.Started, Policy: "p", Revoked: "unreadable",
			Detail: "gated 1; revoked keys: the revocation file cannot be read, so no signature counts: no key was revoked, and there is no /x, which"}, false, true},
		"an older change that never was": {audit.Entry{Kind: audit.Trusted, Policy: "p", Revoked: "unreadable",
			Detail: "the revocation file cannot be read, so no signature counts: no key was revoked, and there is no /x, which"}, false, true},
		"an older restore":            {audit.Entry{Kind: audit.Trusted, Epoch: 1, Detail: "keys were revoked before the restore"}, true, true},
		"the oldest start":            {audit.Entry{Kind: audit.Started, Detail: "gated 0"}, false, true},
		"an old start without a file": {audit.Entry{Kind: audit.Started, Detail: "gated 1; revoked keys: none, there is no /x"}, false, true},
		"an old start with comments":  {audit.Entry{Kind: audit.Started, Detail: "gated 1; revoked keys: 0 in /x"}, false, true},
		"an old start with keys":      {audit.Entry{Kind: audit.Started, Detail: "gated 1; revoked keys: 10 in /x"}, true, true},
		"an old unreadable file":      {audit.Entry{Kind: audit.Started, Detail: "gated 1; revoked keys: the revocation file cannot be read, so no signature counts: x"}, true, true},
		"an old change to none":       {audit.Entry{Kind: audit.Trusted, Detail: "0 keys revoked, sha256:00"}, false, true},
		"an old change to ten":        {audit.Entry{Kind: audit.Trusted, Detail: "10 keys revoked, sha256:00"}, true, true},
		"an edit of the list":         {audit.Entry{Kind: audit.Trusted, Target: "trust/signers"}, false, false},
		"a rotation":                  {audit.Entry{Kind: audit.Rotated, Revokes: ptr(true)}, false, false},
		"anything else":               {audit.Entry{Kind: audit.Stopped}, false, false},
	} {
		is, tells := revokes(c.e)
		require.Equal(t, [2]bool{c.is, c.tells}, [2]bool{is, tells}, name)
	}
}

// The newest word counts, also if many entries follow it. An empty log says
// nothing of revoked keys.
func TestRevokedKeysFarBackInTheLog(t *testing.T) {
	//fsck:none entries by hand, for what they say alone
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
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
