package life

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/op"
)

// fingerprint is the nth of many that differ.
func fingerprint(n int) string { return fmt.Sprintf("SHA256:%042dA", n) }

// stateOf is a state directory with a configuration, and its revocation file.
func stateOf(t *testing.T, settings string) (dir, file string) {
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gated.yaml"), []byte("host: pve1\nsingle_user: true\n"+settings), 0o600))
	return dir, filepath.Join(dir, "revoked")
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// Each key is added once, and no line of before is lost.
func TestRevokeAddsKeys(t *testing.T) {
	dir, file := stateOf(t, "")
	r, err := Revoke(dir, []string{fingerprint(1), fingerprint(1)})
	require.NoError(t, err)
	require.Equal(t, Revocation{File: file, Added: []string{fingerprint(1)}, Count: 1}, r)
	require.NoError(t, os.WriteFile(file, []byte("# kept\n"+fingerprint(2)), 0o600)) // without an end of line
	r, err = Revoke(dir, []string{fingerprint(2), fingerprint(3)})
	require.NoError(t, err)
	require.Equal(t, Revocation{File: file, Added: []string{fingerprint(3)}, Count: 2}, r)
	require.Equal(t, "# kept\n"+fingerprint(2)+"\n"+fingerprint(3)+"\n", text(t, file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// The file that the configuration names is the file, and a link stays a link.
func TestRevokeInAnotherPlace(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	dir, file := stateOf(t, "")
	require.NoError(t, os.Symlink(there, file))
	_, err := Revoke(dir, []string{fingerprint(1)})
	require.NoError(t, err)
	require.Equal(t, fingerprint(1)+"\n", text(t, there))
	target, err := os.Readlink(file)
	require.NoError(t, err)
	require.Equal(t, there, target)

	dir, file = stateOf(t, "revocation_file: "+there+"\n")
	_, err = Revoke(dir, []string{fingerprint(2)})
	require.NoError(t, err)
	require.Contains(t, text(t, there), fingerprint(2))
	require.NoFileExists(t, file)
}

// Several at once lose no key.
func TestRevokesSideBySide(t *testing.T) {
	dir, file := stateOf(t, "")
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			_, err := Revoke(dir, []string{fingerprint(n)})
			require.NoError(t, err)
		})
	}
	all.Wait()
	list, err := authz.LoadRevoked([]byte(text(t, file)))
	require.NoError(t, err)
	require.Equal(t, 20, list.Count())
}

// A file that does not load is not made to look like one that does.
func TestRevokeRefuses(t *testing.T) {
	dir, file := stateOf(t, "")
	require.NoError(t, os.WriteFile(file, []byte("nonsense\n"), 0o600))
	for key, code := range map[string]op.Code{fingerprint(1): op.Malformed, "SHA256:x": op.BadParams, fingerprint(1) + "\n" + fingerprint(2): op.BadParams,
		filepath.Join(dir, "no.pub"): op.BadParams} {
		_, err := Revoke(dir, []string{key})
		require.ErrorIs(t, err, code, key)
	}
	require.Equal(t, "nonsense\n", text(t, file))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("#", authz.MaxRevoked)), 0o600))
	_, err := Revoke(dir, []string{fingerprint(1)})
	require.ErrorIs(t, err, op.Malformed)
	_, err = Revoke(filepath.Join(dir, "none"), []string{fingerprint(1)})
	require.ErrorIs(t, err, op.UnknownTarget)
	require.NoError(t, os.Chmod(file, 0o666))
	_, err = Revoke(dir, []string{fingerprint(1)})
	require.ErrorIs(t, err, op.NotAllowed, "others could have taken a key out")
}
