package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
)

// gitTrial runs this program as a git hook, with git's input for a commit or push that changes one path. It never runs
// the hook's file. git reads a repository of the doctor's own, which has only that change. So neither the configuration
// nor the hooks of the checkout can make git run anything.
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
		g, err := newStaging(dir, worktree, d.environment())
		if err != nil {
			return v, err
		}
		if err := g.stage(ctx, rel); err != nil {
			return v, err
		}
		args, in := s.Setup.Args(s.Name), ""
		if s.Name == "pre-push" {
			args = append(args, "gated-doctor", "gated-doctor")
			if in, err = g.commit(ctx); err != nil {
				return v, err
			}
		}
		cmd := exec.CommandContext(ctx, d.Program, args...)
		cmd.Stdin, cmd.Dir, cmd.Env = strings.NewReader(in), worktree, g.env
		out, err := start(ctx, cmd)
		return verdict{denied: out.code != 0, said: out.stdout + out.stderr}, err
	}
}

// staging is a repository of the doctor's own, with the caller's work tree.
type staging struct {
	worktree string
	env      []string
}

// newStaging makes the repository in an empty directory.
func newStaging(dir, worktree string, env []string) (*staging, error) {
	repo := filepath.Join(dir, "repository")
	for _, sub := range []string{"", "objects", "refs"} {
		if err := os.Mkdir(filepath.Join(repo, sub), 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/gated-doctor\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return &staging{worktree: worktree, env: append(env[:len(env):len(env)],
		"GIT_DIR="+repo, "GIT_WORK_TREE="+worktree, "GIT_INDEX_FILE="+filepath.Join(dir, "index"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_AUTHOR_NAME=gated doctor", "GIT_AUTHOR_EMAIL=gated-doctor", "GIT_COMMITTER_NAME=gated doctor",
		"GIT_COMMITTER_EMAIL=gated-doctor")}, nil
}

func (g *staging) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager"}, args...)...)
	cmd.Dir, cmd.Env = g.worktree, g.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// stage makes an index that has one empty file.
func (g *staging) stage(ctx context.Context, path string) error {
	empty, err := g.git(ctx, "hash-object", "-w", "-t", "blob", "--stdin")
	if err == nil {
		_, err = g.git(ctx, "update-index", "--add", "--cacheinfo", "100644,"+empty+","+path)
	}
	return err
}

// commit makes a commit of the index and returns what git would write to pre-push
// about it.
func (g *staging) commit(ctx context.Context) (string, error) {
	tree, err := g.git(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	id, err := g.git(ctx, "commit-tree", "--no-gpg-sign", "-m", "gated doctor", tree)
	if err != nil {
		return "", err
	}
	const ref = "refs/heads/gated-doctor"
	return ref + " " + id + " " + ref + " " + strings.Repeat("0", len(id)) + "\n", nil
}

// toolTrial runs this program as the hook of an agent's settings, with a call that changes a file.
func (d Doctor) toolTrial(setup hook.Setup, tool string) func(context.Context, string) (verdict, error) {
	return func(ctx context.Context, path string) (verdict, error) {
		speaks, err := hook.DialectOf(setup.For)
		if err != nil {
			return verdict{}, err
		}
		call, err := hook.SampleCall(speaks, tool, d.Place.Path, filepath.Join(d.Place.Path, path))
		if err != nil {
			return verdict{}, err
		}
		return d.asTool(ctx, setup, call)
	}
}

// toolVerdict reads a hook's answer as the product does.
func toolVerdict(d hook.Dialect, out output) verdict {
	a := hook.AnswerOf(d, hook.Outcome{Stdout: out.stdout, Stderr: out.stderr, Code: out.code})
	return verdict{denied: a.Denied, failed: a.Failed, said: a.Said}
}
