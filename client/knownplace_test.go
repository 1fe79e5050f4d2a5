package client

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// refuses asserts that nothing is read, pinned or forgotten.
func refuses(t *testing.T, f KnownGates, says string) {
	t.Helper()
	_, err := f.List()
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, says)
	must.Fail(f.Check("unix:/a", api.Status{Host: "h", Gate: idA}))(t, refusal.NotAllowed)
	must.Fail(f.Forget("unix:/a"))(t, refusal.NotAllowed)
}

func TestADirectoryThatOthersMayWrite(t *testing.T) {
	f := knownIn(t)
	must.Get(f.Check("unix:/a", api.Status{Host: "h", Gate: idA}))(t)
	dir := filepath.Dir(f.Path)
	for _, mode := range []os.FileMode{0o777, 0o720, 0o777 | os.ModeSticky} {
		require.NoError(t, os.Chmod(dir, mode))
		refuses(t, f, dir+" may be written by others")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	must.Get(f.List())(t)

	// Also where there is no file yet.
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Chmod(dir, 0o777))
	refuses(t, f, dir)
	require.NoFileExists(t, f.Path)
}

func TestWhatIsNoFile(t *testing.T) {
	f := knownIn(t)
	dir := filepath.Dir(f.Path)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	elsewhere := filepath.Join(dir, "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("unix:/a h "+string(idA)+"\n"), 0o600))

	require.NoError(t, syscall.Mkfifo(f.Path, 0o600))
	refuses(t, f, "is not an ordinary file") // and does not wait for a writer
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Symlink(elsewhere, f.Path))
	refuses(t, f, "is a symbolic link")
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nothing"), f.Path))
	refuses(t, f, "is a symbolic link")
	require.NoFileExists(t, filepath.Join(dir, "nothing"))

	// Nor is a lock made elsewhere.
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.RemoveAll(f.Path+".lock"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nothing"), f.Path+".lock"))
	_, err := f.Check("unix:/a", api.Status{Host: "h", Gate: idA})
	var not *NotPinned
	require.ErrorAs(t, err, &not)
	require.NoFileExists(t, filepath.Join(dir, "nothing"))
}

func TestWhereElseAGateIsKnown(t *testing.T) {
	f := knownIn(t)
	status := api.Status{Host: "h", Gate: idA}
	known := must.Get(f.Known("unix:/a", status))(t)
	require.False(t, known)
	require.NoFileExists(t, f.Path, "it only looks")
	for _, at := range []Address{"unix:/a", "ssh://b"} {
		must.Get(f.Check(at, status))(t)
	}
	must.Get(f.Check("ssh://c", api.Status{Host: "h", Gate: idB}))(t)
	known = must.Get(f.Known("unix:/a", status))(t)
	require.True(t, known)
	must.Fail(f.Known("ssh://c", status))(t, refusal.TargetMismatch)

	others := must.Get(f.Elsewhere("ssh://b", idA))(t)
	require.Equal(t, []KnownGate{{"unix:/a", "h", idA, 2}}, others)
	others = must.Get(f.Elsewhere("ssh://c", idB))(t)
	require.Empty(t, others)
}
