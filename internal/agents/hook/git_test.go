package hook

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/snapshot"
)

// repo is a real git repository.
type repo struct {
	t   *testing.T
	dir string
	env []string
}

// newRepo makes one without a commit. No configuration of the machine's counts.
func newRepo(t *testing.T) *repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	r := repoAt(t, dir)
	r.git("init", "-q", "-b", "main")
	return r
}

func repoAt(t *testing.T, dir string) *repo {
	return &repo{t: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@example.com", "GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@example.com",
		"GIT_ALLOW_PROTOCOL=file",
	}}
}

// git runs git, which has to succeed, and returns what it prints.
func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	require.NoError(r.t, err, "git %s\n%s", strings.Join(args, " "), out)
	return strings.TrimSuffix(out, "\n")
}

func (r *repo) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *repo) write(name, content string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(r.t, os.WriteFile(path, []byte(content), 0o644))
}

// commit writes files and commits everything.
func (r *repo) commit(message string, files ...string) string {
	r.t.Helper()
	for _, f := range files {
		r.write(f, message+" "+f+"\n")
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

func (r *repo) seen() Repository { return Repository{Dir: r.dir, Env: r.env} }

// snapshot is the whole of the work tree and the repository.
func (r *repo) snapshot() string {
	r.t.Helper()
	return snapshot.Of(r.t, r.dir)
}

// holder is a daemon in which somebody has reserved some patterns.
type holder struct {
	mu    sync.Mutex
	held  []string
	asked []api.Check
	err   error

	agent, reason string // "builder" and "mine" if empty
}

func (h *holder) Check(_ context.Context, c api.Check) (api.Checked, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, c)
	if h.err != nil {
		return api.Checked{}, h.err
	}
	var out api.Checked
	for _, text := range c.Patterns {
		p, err := glob.Parse(text, glob.Options{Scope: c.Scope.Path, FoldCase: c.Scope.Fold})
		if err != nil {
			return api.Checked{}, err
		}
		for i, other := range h.held {
			q, err := glob.Parse(other, glob.Options{Scope: c.Scope.Path, FoldCase: c.Scope.Fold})
			if err != nil {
				return api.Checked{}, err
			}
			if glob.Overlap(p, q) {
				out.Conflicts = append(out.Conflicts, api.Conflict{Pattern: text, Overlaps: other,
					Reservation: api.Reservation{ID: fmt.Sprintf("r%d", i+1), Agent: cmp.Or(h.agent, "builder"), HolderAlive: true, Reason: cmp.Or(h.reason, "mine"), Patterns: h.held}})
			}
		}
	}
	return out, nil
}

// refusing is a check that refuses every question with a path that begins so.
func (*holder) refusing(check checks, prefix string) checks {
	return func(ctx context.Context, c api.Check) (api.Checked, error) {
		for _, p := range c.Patterns {
			if strings.HasPrefix(p, prefix) {
				return api.Checked{}, refusal.New(refusal.BadParams, "no")
			}
		}
		return check(ctx, c)
	}
}

// checks is what asks a daemon.
type checks = func(context.Context, api.Check) (api.Checked, error)

// patterns returns everything that was asked about.
func (h *holder) patterns() []string {
	var out []string
	for _, c := range h.asked {
		out = append(out, c.Patterns...)
	}
	return out
}

// guard returns a hook's guard that asks h and remembers nothing.
func (h *holder) guard(name string) Guard {
	return Guard{Hook: name, Check: h.Check, OnFailure: Warn, Deadline: time.Minute, Now: func() time.Time { return time.Unix(1, 0) }}
}

// asksAbout makes the pre-commit question of a repository and returns what was
// asked about.
func (r *repo) asksAbout() []string {
	r.t.Helper()
	h := &holder{}
	a := must.Get(h.guard("pre-commit").PreCommit(r.t.Context(), r.seen()))(r.t)
	require.Empty(r.t, a.Held)
	require.Equal(r.t, r.dir, a.Scope.Path)
	return h.patterns()
}
