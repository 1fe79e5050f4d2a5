package checkout

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/glob"
)

func TestFilesOfAScope(t *testing.T) {
	root := tree(t, "repo/.git/HEAD", "repo/.git/objects/x", "repo/a", "repo/sub/.git", "repo/sub/b", "repo/out -> ../outside", "outside/c",
		"repo/dir/.git/HEAD")
	r, err := os.OpenRoot(root + "/repo")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for pattern, want := range map[string]int{"**": 5, "*": 2, "sub/*": 2, ".git/HEAD": 1, "out/**": 1, "out/c": 0, "**/.git/**": 2, "none/**": 0} {
		p, err := glob.Parse(pattern, glob.Options{})
		require.NoError(t, err)
		n, more, err := glob.Count(Files(r), p, glob.MaxVisited)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, want, n, pattern)
	}
}
