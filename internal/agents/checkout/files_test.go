package checkout

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/glob"
	"gated/internal/test/must"
)

func TestFilesOfAScope(t *testing.T) {
	root := tree(t, "repo/.git/HEAD", "repo/.git/objects/x", "repo/a", "repo/sub/.git", "repo/sub/b", "repo/out -> ../outside", "outside/c",
		"repo/dir/.git/HEAD")
	r := must.Get(os.OpenRoot(root + "/repo"))(t)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for pattern, want := range map[string]int{"**": 5, "*": 2, "sub/*": 2, ".git/HEAD": 1, "out/**": 1, "out/c": 0, "**/.git/**": 2, "none/**": 0} {
		p := must.Get(glob.Parse(pattern, glob.Options{}))(t)
		n, more := must.Two(glob.Count(Files(r), p, glob.MaxVisited))(t)
		require.False(t, more)
		require.Equal(t, want, n, pattern)
	}
}
