package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gated/internal/api"
	"gated/internal/checkout"
	"gated/internal/hook"
)

// environment is what a hook is run with: the caller's, without an agent's
// token, so that the hook's process and the doctor's agent are never the same.
func (d Doctor) environment() []string {
	var out []string
	for _, v := range d.Env {
		name, _, _ := strings.Cut(v, "=")
		if name != tokenFile && !gitLocal[name] {
			out = append(out, v)
		}
	}
	return out
}

// tokenFile names the file with an agent's token.
const tokenFile = "GATED_AGENT_TOKEN_FILE"

// gitLocal are the variables by which git tells its hooks where they are.
var gitLocal = map[string]bool{
	"GIT_DIR": true, "GIT_WORK_TREE": true, "GIT_INDEX_FILE": true, "GIT_PREFIX": true, "GIT_COMMON_DIR": true,
	"GIT_OBJECT_DIRECTORY": true, "GIT_ALTERNATE_OBJECT_DIRECTORIES": true, "GIT_NAMESPACE": true, "GIT_CEILING_DIRECTORIES": true,
}

// gitTrial runs a hook of git's with a commit or a push that changes one path.
// Index and objects of that are in a directory of their own: those of the
// repository stay as they are.
func (d Doctor) gitTrial(s hook.GitState, worktree string) func(context.Context, string) (verdict, error) {
	return func(ctx context.Context, path string) (v verdict, err error) {
		// From the scope, which may be below the work tree's top.
		rel, err := checkout.Rel(api.Place{Path: worktree}, filepath.Join(d.Place.Path, path))
		if err != nil {
			return v, err
		}
		dir, err := os.MkdirTemp("", "gated-doctor-")
		if err != nil {
			return v, err
		}
		defer func() {
			if e := os.RemoveAll(dir); err == nil {
				err = e
			}
		}()
		g := staging{worktree: worktree, dir: dir, env: d.environment()}
		if err := g.stage(ctx, rel); err != nil {
			return v, err
		}
		cmd := exec.CommandContext(ctx, s.Path)
		if s.Name == "pre-push" {
			line, err := g.commit(ctx)
			if err != nil {
				return v, err
			}
			cmd = exec.CommandContext(ctx, s.Path, "gated-doctor", "gated-doctor")
			cmd.Stdin = strings.NewReader(line)
		}
		cmd.Dir, cmd.Env = worktree, append(g.env, hook.TrialVariable+"=1")
		out, err := start(ctx, cmd)
		return verdict{denied: out.code != 0, said: out.stdout + out.stderr}, err
	}
}

// staging makes a commit in a directory of its own.
type staging struct {
	worktree, dir string
	env           []string
	head          string // "" before the first commit
}

func (g *staging) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "core.splitIndex=false"}, args...)...)
	cmd.Dir, cmd.Env = g.worktree, append(g.env[:len(g.env):len(g.env)], "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_AUTHOR_NAME=gated doctor", "GIT_AUTHOR_EMAIL=gated-doctor", "GIT_COMMITTER_NAME=gated doctor", "GIT_COMMITTER_EMAIL=gated-doctor")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// stage makes an index that has, beside what HEAD has, one empty file.
func (g *staging) stage(ctx context.Context, path string) error {
	g.env = append(g.env, "GIT_INDEX_FILE="+filepath.Join(g.dir, "index"))
	if head, err := g.git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil {
		g.head = head
		if _, err := g.git(ctx, "read-tree", head); err != nil {
			return err
		}
	}
	empty, err := g.git(ctx, "hash-object", "-t", "blob", "--stdin")
	if err == nil {
		_, err = g.git(ctx, "update-index", "--add", "--cacheinfo", "100644,"+empty+","+path)
	}
	return err
}

// commit makes a commit of the index, whose objects are beside it, and returns
// what git would write to pre-push about it.
func (g *staging) commit(ctx context.Context) (string, error) {
	real, err := g.git(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return "", err
	}
	objects := filepath.Join(g.dir, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return "", err
	}
	g.env = append(g.env, "GIT_OBJECT_DIRECTORY="+objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoteAlternate(real))
	tree, err := g.git(ctx, "write-tree", "--missing-ok")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-m", "gated doctor", tree}
	if g.head != "" {
		args = append(args, "-p", g.head)
	}
	id, err := g.git(ctx, args...)
	if err != nil {
		return "", err
	}
	there := g.head
	if there == "" {
		there = strings.Repeat("0", len(id))
	}
	const ref = "refs/heads/gated-doctor"
	return ref + " " + id + " " + ref + " " + there + "\n", nil
}

// quoteAlternate writes a path as GIT_ALTERNATE_OBJECT_DIRECTORIES takes one
// with a colon in it (git(1)).
func quoteAlternate(path string) string {
	if !strings.ContainsAny(path, `:"\`) {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}
