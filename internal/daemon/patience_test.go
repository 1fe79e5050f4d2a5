package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/op"
	"gated/internal/store"
)

const anyKey = "SHA256:2jUYTvy505+HgrPDXUhD9V1Su+dQnwrwVBl26t/Mrxc\n"

// file is a revocation file in a directory of its own, at a time that stands.
type file struct {
	*revocations
	t  *testing.T
	at time.Time
}

// newFile is one in force, with a text.
func newFile(t *testing.T, text string) *file {
	path := filepath.Join(t.TempDir(), "revoked")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f := &file{revocations: newRevocations(path, false), t: t, at: time.Unix(1_000_000, 0)}
	f.revocations.now = func() time.Time { return f.at }
	t.Cleanup(func() { require.NoError(t, f.close()) })
	f.take(insist)
	require.Equal(t, leave, f.due(false))
	return f
}

// take does what reload does with a verdict, and returns why every signature is
// refused, "" if that is not so.
func (f *file) take(v verdict) string {
	f.t.Helper()
	list, at, ok := f.load(v)
	require.True(f.t, ok)
	f.took(list, at, v)
	if err := (*authz.Trust)(nil).WithRevoked(list).Blocked(); err != nil {
		return op.AsRefusal(err).Detail
	}
	return ""
}

// second passes, and says what is due then.
func (f *file) second() verdict {
	f.at = f.at.Add(time.Second)
	return f.due(true)
}

// quiet passes n seconds in which nothing is due.
func (f *file) quiet(n int) {
	f.t.Helper()
	for i := range n {
		require.Equal(f.t, leave, f.second(), "second %d", i+1)
	}
}

func (f *file) open(flags int) *os.File {
	w, err := os.OpenFile(f.path, os.O_WRONLY|flags, 0o600)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = w.Close() }) // it may be closed
	return w
}

func (f *file) write(w *os.File, text string) {
	f.t.Helper()
	_, err := w.WriteString(text)
	require.NoError(f.t, err)
}

// TestAFileThatStaysOpen is read when nobody has written to it for long enough.
func TestAFileThatStaysOpen(t *testing.T) {
	f := newFile(t, "")
	w := f.open(os.O_APPEND)
	f.write(w, anyKey)
	f.quiet(5)
	require.Equal(t, insist, f.second())
	require.Empty(t, f.take(insist))
	require.Equal(t, 1, f.list.Count())
	f.quiet(20)
	f.write(w, "# more\n")
	f.quiet(5)
	require.Equal(t, insist, f.second())
	require.Empty(t, f.take(insist))
	require.NoError(t, w.Close())
	require.Equal(t, reread, f.due(false))
}

// TestAFileThatIsWrittenToForLong refuses every signature until it is closed, or
// stays as it is.
func TestAFileThatIsWrittenToForLong(t *testing.T) {
	for name, closes := range map[string]bool{"closed": true, "left": false} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, "")
			w := f.open(os.O_APPEND)
			for range 5 {
				f.write(w, "# slow\n")
				f.quiet(1)
			}
			f.write(w, "# slow\n")
			require.Equal(t, refuse, f.second())
			require.Contains(t, f.take(refuse), "was not closed within 5s")
			for range 10 {
				f.write(w, "# slow\n")
				f.quiet(1)
			}
			f.write(w, anyKey)
			if closes {
				require.NoError(t, w.Close())
				require.Equal(t, reread, f.due(false))
				require.Empty(t, f.take(reread))
			} else {
				f.quiet(5)
				require.Equal(t, insist, f.second())
				require.Empty(t, f.take(insist))
			}
			require.Equal(t, 1, f.list.Count())
		})
	}
}

// TestAFileThatWasEmptied and not closed is no list that revokes nothing, by no
// signal and however long it lasts.
func TestAFileThatWasEmptied(t *testing.T) {
	f := newFile(t, anyKey)
	w := f.open(os.O_TRUNC)
	_, _, ok := f.load(reread)
	require.False(t, ok, "what is in force stays")
	require.Contains(t, f.take(insist), "was emptied")
	f.quiet(20)
	require.NoError(t, w.Close())
	require.Equal(t, reread, f.due(false))
	require.Empty(t, f.take(reread))
	require.Zero(t, f.list.Count())

	f = newFile(t, anyKey)
	f.open(os.O_TRUNC)
	f.quiet(5)
	require.Equal(t, insist, f.second())
	require.Contains(t, f.take(insist), "was emptied")
	f.quiet(20)
}

// TestAFileThatIsMadeAnew where another one went away is none before it is
// closed.
func TestAFileThatIsMadeAnew(t *testing.T) {
	f := newFile(t, anyKey)
	require.NoError(t, os.Rename(f.path, f.path+"~"))
	w := f.open(os.O_CREATE)
	require.Equal(t, reread, f.due(false))
	require.Contains(t, f.take(reread), "put it back, or an empty file to revoke nothing")
	require.Equal(t, leave, f.due(false))
	f.write(w, "# first lines\n")
	require.Equal(t, leave, f.due(false))
	f.quiet(1)
	require.NoError(t, w.Close())
	require.Equal(t, reread, f.due(false))
	require.Empty(t, f.take(reread))

	// What is linked there is closed by nobody, and read when it stays.
	f = newFile(t, anyKey)
	require.NoError(t, os.Rename(f.path, f.path+"~"))
	require.NoError(t, os.Link(f.path+"~", f.path))
	require.Equal(t, reread, f.due(false))
	require.NotEmpty(t, f.take(reread))
	f.quiet(5)
	require.Equal(t, insist, f.second())
	require.Empty(t, f.take(insist))
	require.Equal(t, 1, f.list.Count())
}

// TestWithoutInotify a file counts when it looks the same twice; an empty one
// has to for longer, where keys are revoked.
func TestWithoutInotify(t *testing.T) {
	f := newFile(t, anyKey)
	require.NoError(t, f.close())
	f.watch = nil
	require.NoError(t, os.WriteFile(f.path, []byte("# nobody is\n"+anyKey), 0o600))
	f.quiet(1)
	require.Equal(t, reread, f.second())
	require.Empty(t, f.take(reread))
	f.open(os.O_TRUNC)
	f.quiet(5)
	require.Equal(t, reread, f.second())
	require.Empty(t, f.take(reread))
	require.Zero(t, f.list.Count())
	require.NoError(t, os.WriteFile(f.path, []byte(anyKey), 0o600))
	f.quiet(1)
	require.Empty(t, f.take(f.second()))
	require.NoError(t, os.Remove(f.path))
	f.quiet(1)
	require.Equal(t, reread, f.second())
	require.Contains(t, f.take(reread), "put it back")
	f.quiet(20)
}

// TestWhatTheLogSaysOfRevokedKeys is the newest word on them, whatever else is in
// the log.
func TestWhatTheLogSaysOfRevokedKeys(t *testing.T) {
	for body, want := range map[string][2]bool{
		`{"seq":1,"kind":"started","detail":"gated 1; revoked keys: none, there is no /x"}`:                    {true, false},
		`{"seq":1,"kind":"started","detail":"gated 1; revoked keys: 0 in /x"}`:                                 {true, false},
		`{"seq":1,"kind":"started","detail":"gated 1; revoked keys: 10 in /x"}`:                                {true, true},
		`{"seq":1,"kind":"started","detail":"gated 1; revoked keys: the revocation file cannot be read"}`:      {true, true},
		`{"seq":1,"kind":"started","detail":"gated 1; revoked keys: ` + saysUnread + saysNever + `/x, which"}`: {true, false},
		`{"seq":1,"kind":"trusted","detail":"` + saysUnread + saysNever + `/x, which"}`:                        {true, false},
		`{"seq":1,"kind":"started","detail":"gated 0"}`:                                                        {true, false},
		`{"seq":1,"kind":"trusted","detail":"0 keys revoked, sha256:"}`:                                        {true, false},
		`{"seq":1,"kind":"trusted","detail":"10 keys revoked, sha256:00"}`:                                     {true, true},
		`{"seq":1,"kind":"trusted","detail":"the revocation file cannot be read, so no signature counts"}`:     {true, true},
		`{"seq":1,"kind":"trusted","detail":"the file of signers was that of epoch 1"}`:                        {false, false},
		`{"seq":1,"kind":"trusted","detail":`:                                                                  {true, true},
		`{"seq":1,"kind":"planned","params":{"labels":{"kind":"trusted"}}}`:                                    {false, false},
		`{"seq":1,"kind":"stopped"}`: {false, false},
	} {
		known, revoked := tellsRevoked([]byte(body))
		require.Equal(t, want, [2]bool{known, known && revoked}, body)
	}
}

// TestRevokedKeysFarBackInTheLog are found across pages, and an empty log says
// nothing of any.
func TestRevokedKeysFarBackInTheLog(t *testing.T) {
	//fsck:none entries by hand, for what they say alone
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: Migrations()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.OnGroup(audit.Seal)
	say := func(entries ...audit.Entry) {
		require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error { _, err := audit.Append(tx, entries...); return err }))
	}
	tells := func() (before bool) {
		require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) { before, err = revokedBefore(tx); return err }))
		return before
	}
	require.False(t, tells())
	say(audit.Entry{Kind: audit.Started, Detail: startedDetail("none, there is no /x")})
	require.False(t, tells())
	say(audit.Entry{Kind: audit.Trusted, Detail: "1 keys revoked, sha256:00"})
	require.True(t, tells())
	for _, n := range []int{998, 1, 1, 1000, 2500} {
		say(make([]audit.Entry, n)...)
		require.True(t, tells())
	}
	say(audit.Entry{Kind: audit.Started, Detail: startedDetail("0 in /x")})
	require.False(t, tells())
}
