package hook

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// TestWhereThereIsNoWorkTree: hooks are installed where somebody works, and it
// is said where that is not so.
func TestWhereThereIsNoWorkTree(t *testing.T) {
	plain := repoAt(t, t.TempDir())
	bare := repoAt(t, t.TempDir())
	bare.git("init", "-q", "--bare")
	inside := newRepo(t)
	for name, r := range map[string]*repo{"nothing": plain, "a bare repository": bare, "git's own directory": repoAt(t, filepath.Join(inside.dir, ".git"))} {
		var none *NoWorkTree
		_, err := InstallGit(t.Context(), r.dir, r.options("/usr/bin/gated"))
		require.ErrorAs(t, err, &none, name)
		require.Equal(t, r.dir, none.Dir, name)
		require.ErrorContains(t, err, "is not in a work tree of git", name)
		_, err = UninstallGit(t.Context(), r.dir, r.options(""))
		require.ErrorAs(t, err, &none, name)
	}
	require.NoFileExists(t, filepath.Join(bare.dir, "hooks/pre-commit"))

	// A repository that git does not want is another thing, and git's words say which.
	require.NoError(t, os.WriteFile(filepath.Join(inside.dir, ".git/config"), []byte("[broken"), 0o600))
	var none *NoWorkTree
	_, err := InstallGit(t.Context(), inside.dir, inside.options("/usr/bin/gated"))
	require.NotErrorAs(t, err, &none)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "bad config")
	var r *refusal.Refusal
	require.ErrorAs(t, err, &r)
	require.Contains(t, r.Hint, "git")
}
