package signers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

const (
	anyKey   = "SHA256:2jUYTvy505+HgrPDXUhD9V1Su+dQnwrwVBl26t/Mrxc\n"
	otherKey = "SHA256:3jUYTvy505+HgrPDXUhD9V1Su+dQnwrwVBl26t/Mrxc\n"
)

// file is a revocation file in a directory of its own, and a clock that a test
// moves.
type file struct {
	*Revocations
	t  *testing.T
	at time.Time
}

// newFile is a file with that text, in force.
func newFile(t *testing.T, text string) *file {
	path := filepath.Join(t.TempDir(), "revoked")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f := &file{t: t, at: time.Now()}
	f.Revocations = NewRevocations(path, false, false, func() time.Time { return f.at })
	f.read()
	f.settle()
	require.False(t, f.Due())
	return f
}

// read takes the file over as the daemon does: how many keys are revoked, or why
// every signature is refused.
func (f *file) read() (keys int, blocked string) {
	f.t.Helper()
	list, _ := f.Read()
	if err := list.Blocked(); err != nil {
		blocked = refusal.As(err).Detail
	}
	return list.Count(), blocked
}

// settle lets time pass, and the file be read when it is due, until it is not.
func (f *file) settle() (keys int, blocked string) {
	f.t.Helper()
	for range 20 {
		f.at = f.at.Add(time.Second)
		if f.Due() {
			f.read()
		}
	}
	require.False(f.t, f.Due(), "it is read for ever")
	return f.read()
}

func (f *file) write(text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.Path(), []byte(text), 0o600))
	require.True(f.t, f.Due())
}

// reads asserts what the next read puts in force.
func (f *file) reads(keys int, blocked string) {
	f.t.Helper()
	n, why := f.read()
	require.Equal(f.t, keys, n)
	if blocked == "" {
		require.Empty(f.t, why)
	} else {
		require.Contains(f.t, why, blocked)
	}
}

// A key that the file lists is refused at the next look.
func TestAKeyIsRevokedAtOnce(t *testing.T) {
	f := newFile(t, anyKey)
	f.write(anyKey + otherKey)
	f.reads(2, "")
	require.NoError(t, os.Rename(f.other("# both\n"+otherKey+anyKey), f.Path()))
	f.reads(2, "")
}

// other writes a file beside the revocation file.
func (f *file) other(text string) string {
	path := f.Path() + ".new"
	require.NoError(f.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A key that was taken out of the file counts again only when the file stayed as
// it is: an editor may have emptied the file to write it.
func TestAKeyCountsAgainLater(t *testing.T) {
	for name, change := range map[string]func(f *file){
		"emptied":  func(f *file) { f.write("") },
		"replaced": func(f *file) { require.NoError(f.t, os.Rename(f.other("# none\n"), f.Path())) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t, anyKey)
			change(f)
			f.reads(1, "")
			for range 4 {
				f.at = f.at.Add(time.Second)
				f.reads(1, "")
			}
			f.at = f.at.Add(time.Second)
			require.True(t, f.Due())
			f.reads(0, "")
			n, blocked := f.settle()
			require.Zero(t, n)
			require.Empty(t, blocked)
		})
	}
}

// While a file takes a key back and lists another one, both are refused.
func TestAKeyThatReplacesAnother(t *testing.T) {
	f := newFile(t, anyKey)
	f.write(otherKey)
	f.reads(2, "")
	require.Contains(t, f.says, "does not list any more")
	n, _ := f.settle()
	require.Equal(t, 1, n)
}

// A file that changes again and again takes no key back.
func TestAFileThatIsWrittenToForLong(t *testing.T) {
	f := newFile(t, anyKey)
	text := ""
	for range 20 {
		text += "# slow\n"
		f.write(text)
		f.reads(1, "")
		f.at = f.at.Add(revokedPatience - time.Second)
		f.reads(1, "")
	}
	f.write(text + anyKey)
	f.reads(1, "")
	n, _ := f.settle()
	require.Equal(t, 1, n)
}

// A file that is gone, or that nobody can read, refuses every signature while
// keys are revoked, and the keys of before are not forgotten meanwhile.
func TestAFileThatIsGone(t *testing.T) {
	f := newFile(t, anyKey)
	require.NoError(t, os.Rename(f.Path(), f.Path()+"~"))
	require.True(t, f.Due())
	f.reads(0, "put it back, or an empty file to revoke nothing")
	_, differs := f.Read()
	require.False(t, differs, "it says the same")
	f.write("half of a li")
	f.reads(0, "line 1")
	f.write("")
	f.reads(1, "")
	n, _ := f.settle()
	require.Zero(t, n)
	require.NoError(t, os.Remove(f.Path()))
	f.reads(0, "")
}

// A file that has to be there and never was refuses every signature, and is no
// reason to refuse them when it does not have to be there any more.
func TestAFileThatWasNeverThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revoked")
	r := NewRevocations(path, true, false, time.Now)
	list, differs := r.Read()
	require.True(t, differs)
	require.ErrorIs(t, list.Blocked(), refusal.Unavailable)
	require.False(t, list.Revokes())
	list, _ = r.At(path, false).Read()
	require.NoError(t, list.Blocked())

	list, _ = NewRevocations(path, false, true, time.Now).Read()
	require.ErrorContains(t, list.Blocked(), "keys were revoked")
	require.True(t, list.Revokes())
}

// A change within the same tick of the file system's clock is seen: a file that
// changed just now is read again.
func TestAChangeThatTheStampHides(t *testing.T) {
	f := newFile(t, "# x\n")
	f.write("# x\n")
	info := must.Get(os.Stat(f.Path()))(t)
	f.at = info.ModTime()
	list, differs := f.Read()
	require.False(t, differs, "it says the same")
	require.Zero(t, list.Count())
	require.True(t, f.Due())
	f.at = f.at.Add(youth + time.Second)
	f.Read()
	require.False(t, f.Due())
}

// What could not be put in force is due again.
func TestAgain(t *testing.T) {
	f := newFile(t, anyKey)
	f.Again()
	require.True(t, f.Due())
	_, differs := f.Read()
	require.True(t, differs)
	require.False(t, f.Due())
}

// Another path begins with the keys in force: an empty file there pardons none at
// once.
func TestAnotherPathKeepsTheKeys(t *testing.T) {
	f := newFile(t, anyKey)
	next := f.other("")
	f.Revocations = f.At(next, true)
	f.reads(1, "")
	n, _ := f.settle()
	require.Zero(t, n)
}

// A file that could not be read for a reason outside it is read again.
func TestAReasonOutsideTheFile(t *testing.T) {
	f := newFile(t, anyKey)
	require.NoError(t, os.Chmod(filepath.Dir(f.Path()), 0o777))
	require.NoError(t, os.Chtimes(f.Path(), time.Time{}, f.at))
	f.reads(0, "cannot be read")
	require.NoError(t, os.Chmod(filepath.Dir(f.Path()), 0o700))
	require.True(t, f.Due())
	f.reads(1, "")

	require.NoError(t, os.Remove(f.Path()))
	require.NoError(t, os.Symlink(f.Path(), f.Path())) // a loop cannot be looked at
	f.reads(0, "cannot be read")
	f.Again()
	require.True(t, f.Due())
}

// While a key waits, each read says the same of the same file.
func TestAKeyThatWaitsIsSaidOnce(t *testing.T) {
	f := newFile(t, anyKey)
	f.write(otherKey)
	_, differs := f.Read()
	require.True(t, differs)
	list, differs := f.Read()
	require.False(t, differs)
	again, _ := f.Read()
	require.Equal(t, list.Digest(), again.Digest())
}

// A file that lists the keys of another member's file is in order, whatever its comments and its order say.
func TestAFileInOrderWithAnotherMembers(t *testing.T) {
	there := must.Get(authz.LoadRevoked([]byte(anyKey + otherKey)))(t)
	for text, ok := range map[string]bool{
		anyKey + otherKey:                       true,
		"# " + anyKey + otherKey:                false,
		anyKey:                                  false,
		"":                                      false,
		"# instead of " + there.Digest() + "\n": true,
		"# instead of " + strings.Repeat("0", 64) + "\n":      false,
		"#instead of " + there.Digest() + "\n":                false,
		anyKey + "# instead of " + there.Digest() + "\n\n#\n": true,
	} {
		path := filepath.Join(t.TempDir(), "revoked")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r := NewRevocations(path, false, true, time.Now)
		r.InOrderWith(Other{"node1", there.Digest()})
		list, _ := r.Read()
		require.Equal(t, ok, list.Blocked() == nil, "%q", text)
		if !ok {
			require.ErrorContains(t, list.Blocked(), "are not those that member node1 revoked")
		}
	}
	r := NewRevocations(filepath.Join(t.TempDir(), "none"), false, false, time.Now)
	r.InOrderWith(Other{"node1", there.Digest()})
	list, _ := r.Read()
	require.ErrorContains(t, list.Blocked(), "are not those that member node1 revoked")
}
