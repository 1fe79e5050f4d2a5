package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
	"gated/internal/test/story"
)

// needed are the real programs, with their packages in Debian. scripts/needs.sh installs them.
var needed = map[string]string{"restic": "restic", "borg": "borgbackup", "git": "git", "jq": "jq"}

func TestStories(t *testing.T) {
	for program, pkg := range needed {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s (Debian: %s)", program, pkg)
		}
	}
	story.Run(t, "testdata/script", "gated", "opsign")
}

// TestReplaceRefCompares: the program of the recipe for git changes a ref only from the object that was signed, also if
// the probe saw another world a moment ago.
func TestReplaceRefCompares(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=alice", "-c", "user.email=alice@example.com"}, args...)...)
		return strings.TrimSpace(string(must.Get(cmd.Output())(t)))
	}
	git("init", "-q", "--bare")
	tree := git("mktree", "-z", "--missing")
	var commits []string
	for _, message := range []string{"one", "two", "three"} {
		commits = append(commits, git("commit-tree", "-m", message, tree))
	}
	const ref, zeros = "refs/heads/main", "0000000000000000000000000000000000000000"
	replace := func(old, now string) error {
		out, err := exec.Command("../../../contrib/recipes/git/replace-ref", dir, ref, old, now).CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	git("update-ref", ref, commits[0])
	git("update-ref", "refs/gated/asked/"+commits[2], commits[2])
	for _, now := range []string{commits[2], zeros} {
		require.Error(t, replace(commits[1], now), "it is not at that object")
		require.Equal(t, commits[0], git("rev-parse", ref))
		require.Equal(t, commits[2], git("rev-parse", "refs/gated/asked/"+commits[2]), "all or nothing")
	}
	require.NoError(t, replace(commits[0], commits[2]))
	require.Equal(t, commits[2]+" commit\t"+ref, git("for-each-ref"))
	require.NoError(t, replace(commits[2], zeros))
	require.Empty(t, git("for-each-ref"))
	require.Error(t, replace(commits[2], zeros), "it is gone")
}

// TestFragments: each recipe's fragment is a catalogue that the daemon takes. Nothing in it runs unsigned whatever its
// parameters are, and a failing probe asks nobody.
func TestFragments(t *testing.T) {
	files := must.Get(filepath.Glob("../../../contrib/recipes/*/gated.yaml"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		c, err := config.Parse(file, append([]byte("host: h\n"), must.Get(os.ReadFile(file))(t)...))
		require.NoError(t, err)
		require.NotEmpty(t, c.Commands, file)
		require.Empty(t, c.Policy.Benign, file)
		for name, e := range c.Commands {
			require.NotNil(t, e.Probe, "%s: %s", file, name)
			require.NotNil(t, e.ProbeOK, "%s: %s", file, name)
			require.NotEmpty(t, e.User, "%s: %s", file, name)
			for _, argv := range [][]string{e.Argv, e.Probe} {
				if filepath.Dir(argv[0]) != "/usr/local/lib/gated" {
					continue
				}
				info := must.Get(os.Stat(filepath.Join(filepath.Dir(file), filepath.Base(argv[0]))))(t)
				require.EqualValues(t, 0o111, info.Mode().Perm()&0o111, "%s is executable", argv[0])
			}
		}
	}
}
