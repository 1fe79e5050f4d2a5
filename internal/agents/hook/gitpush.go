package hook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

const (
	// maxRefs is how many refs of one push are checked one by one.
	maxRefs = 1000
	// maxBoundary is how many of the remote's commits a push may build on; with more, they are not compared one by one.
	maxBoundary = 16
	// maxRefLine bounds a line of git's input to pre-push, in bytes.
	maxRefLine = 16 << 10
)

// refUpdate is one line of pre-push's standard input (githooks(5)): the object that a ref of the remote's will name,
// and the one that it names now. remote is "" for none.
type refUpdate struct{ local, remote string }

// updates reads git's input to pre-push. It leaves out deleted refs, because they change no path. Any other line is
// Malformed.
func updates(in io.Reader) ([]refUpdate, error) {
	var list []refUpdate
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxRefLine)
	for s.Scan() {
		f := strings.Split(s.Text(), " ")
		if len(f) != 4 || !isObjectID(f[1]) || !isObjectID(f[3]) {
			return nil, refusal.New(refusal.Malformed, "pre-push was given a line that git does not write: %.80q", s.Text()).
				WithHint("git writes: LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID")
		}
		if isZero(f[1]) {
			continue
		}
		if len(list) == maxRefs {
			return nil, errTooMany
		}
		u := refUpdate{local: f[1]}
		if !isZero(f[3]) {
			u.remote = f[3]
		}
		list = append(list, u)
	}
	if err := s.Err(); err != nil {
		return nil, refusal.New(refusal.Malformed, "what git writes to pre-push cannot be read: %v", err)
	}
	return list, nil
}

// commits returns the same updates with the commits that the objects lead to. It leaves out tags of trees and blobs,
// which have no path. unseen reports that the remote has a commit that is missing here.
func (r Repository) commits(ctx context.Context, list []refUpdate) (out []refUpdate, unseen bool, err error) {
	for _, u := range list {
		var c refUpdate
		if c.local, err = r.commit(ctx, u.local); err == nil && c.local == "" {
			// Only an object that is here can be found not to be a commit.
			_, err = r.output(ctx, "cat-file", "-e", u.local)
		}
		if err != nil {
			return nil, false, err
		}
		if u.remote != "" {
			if c.remote, err = r.commit(ctx, u.remote); err != nil {
				return nil, false, err
			}
			unseen = unseen || c.remote == ""
		}
		if c.local != "" {
			out = append(out, c)
		}
	}
	return out, unseen, nil
}

// isObjectID reports whether s is an object's name, of SHA-1 or SHA-256.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

func isZero(id string) bool { return strings.Trim(id, "0") == "" }

// pushed adds what a push changes: what its new commits change, what a forced push takes away, and what its merges
// leave out of the remote's content. unseen reports that the remote has a commit that is missing here. Then it is
// unknown what the push takes away by replacing it.
func (r Repository) pushed(ctx context.Context, c changes, remote string, refs io.Reader) (unseen bool, err error) {
	list, err := updates(refs)
	if err == nil {
		list, unseen, err = r.commits(ctx, list)
	}
	if err != nil || len(list) == 0 {
		return unseen, err
	}
	fresh := []string{}
	there := tracked(remote)
	for _, u := range list {
		fresh = append(fresh, u.local)
		if u.remote != "" {
			there = append(there, u.remote)
		}
	}
	fresh = append(append(fresh, "--not"), there...)
	if err := r.made(ctx, c, fresh...); err != nil {
		return unseen, err
	}
	for _, u := range list {
		if u.remote == "" {
			continue // a new ref takes away nothing
		}
		if err := r.made(ctx, c, u.remote, "^"+u.local); err != nil {
			return unseen, err
		}
		if err := r.leftOut(ctx, c, u, append([]string{u.local, "--not"}, there...)); err != nil {
			return unseen, err
		}
	}
	return unseen, nil
}

// tracked selects the commits that this repository knows on a remote. A remote without a name, which is pushed to by
// its address, has no such refs (git-check-ref-format(1)).
func tracked(remote string) []string {
	if remote == "" || strings.ContainsAny(remote, `*?[\: `) {
		return nil
	}
	return []string{"--remotes=" + remote}
}

// leftOut adds what a ref loses because a merge among the fresh commits kept only one side (as "merge -s ours" does).
// These are the paths that differ from all of the remote's newest commits that the ref builds on.
func (r Repository) leftOut(ctx context.Context, c changes, u refUpdate, fresh []string) error {
	merge, err := r.line(ctx, append([]string{"rev-list", "--merges", "--max-count=1"}, fresh...)...)
	if err != nil || merge == "" {
		return err
	}
	bases, err := r.boundary(ctx, fresh)
	if err != nil {
		return err
	}
	if len(bases) == 0 || len(bases) > maxBoundary {
		bases = []string{u.remote} // adds too much rather than too little
	}
	differs, submodule := map[string]int{}, map[string]bool{}
	for _, base := range bases {
		one := newChanges()
		if err := r.between(ctx, one, base, u.local); err != nil {
			return err
		}
		for path, is := range one.byPath {
			differs[path]++
			submodule[path] = submodule[path] || is
		}
	}
	for path, n := range differs {
		if n < len(bases) {
			continue // one of them has the same content
		}
		if err := c.add(path, submodule[path]); err != nil {
			return err
		}
	}
	return nil
}

// boundary returns the newest commits of the remote that the fresh ones build on: none of them is an ancestor of
// another.
func (r Repository) boundary(ctx context.Context, fresh []string) ([]string, error) {
	out, err := r.output(ctx, append([]string{"rev-list", "--boundary"}, fresh...)...)
	if err != nil {
		return nil, err
	}
	var bases []string
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-"); ok {
			bases = append(bases, id)
		}
	}
	if len(bases) < 2 || len(bases) > maxBoundary {
		return bases, nil
	}
	out, err = r.output(ctx, append([]string{"merge-base", "--independent"}, bases...)...)
	return strings.Fields(out), err
}

// gitTime bounds all of git's work for one hook.
const gitTime = 20 * time.Second

// maxGitWords is how many bytes of git's error messages are kept.
const maxGitWords = 512

// Repository is a directory and an environment in which git runs. It only reads. The environment is the hook's own, so
// that git uses the index of the next commit (GIT_INDEX_FILE).
type Repository struct {
	Dir string   // "" is the working directory
	Env []string // os.Environ() if nil
}

// gitVariables stop git from writing the index, asking questions, fetching, and replacing objects. An older git does
// not know GIT_NO_LAZY_FETCH, so it is allowed no protocol: for a fetch it would run programs that the repository's
// configuration names.
var gitVariables = []string{
	"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
	"GIT_ALLOW_PROTOCOL=none", "LC_ALL=C",
}

func (r Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager", "-c", "core.fsmonitor=false"}, args...)...)
	env := r.Env
	if env == nil {
		env = os.Environ()
	}
	cmd.Dir, cmd.Env = r.Dir, append(env[:len(env):len(env)], gitVariables...)
	cmd.WaitDelay = time.Second // git's children may keep its pipes open
	return cmd
}

// output runs git and returns its output. A failure of git is Unavailable.
func (r Repository) output(ctx context.Context, args ...string) (string, error) {
	cmd := r.command(ctx, args...)
	var out bytes.Buffer
	words := &gitWords{}
	cmd.Stdout, cmd.Stderr = &out, words
	if err := cmd.Run(); err != nil {
		return "", gitFailed(ctx, args[0], words.String(), err)
	}
	return out.String(), nil
}

// line is output without the last newline; a path may have others.
func (r Repository) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.output(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// commit returns the commit that a name leads to; "" if it leads to none that is here.
func (r Repository) commit(ctx context.Context, name string) (string, error) {
	out, err := r.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	return out, err
}

// gitFailed words how git ended.
func gitFailed(ctx context.Context, verb, words string, err error) error {
	why := err
	if ctx.Err() != nil {
		why = ctx.Err()
	}
	detail := "git " + verb + " failed: " + why.Error()
	if words = strings.TrimSpace(words); words != "" {
		detail += ": " + op.Shown(words)
	}
	return &gitError{err: err, Refusal: refusal.New(refusal.Unavailable, "%s", detail)}
}

// gitError is a refusal that keeps the exit code.
type gitError struct {
	*refusal.Refusal
	err error
}

// Unwrap returns both.
func (e *gitError) Unwrap() []error { return []error{e.Refusal, e.err} }

// gitWords keeps the beginning of the text that is written to it.
type gitWords struct{ bytes.Buffer }

// Write accepts all bytes and keeps those that fit.
func (h *gitWords) Write(b []byte) (int, error) {
	keep := min(len(b), maxGitWords-h.Len())
	_, _ = h.Buffer.Write(b[:max(keep, 0)]) // never fails
	return len(b), nil
}

// stream runs git commands as a pipeline, and read reads the last one's output. If read ends early, the commands are
// stopped.
func (r Repository) stream(ctx context.Context, read func(io.Reader) error, pipeline ...[]string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var cmds []*exec.Cmd
	var words []*gitWords
	var in io.ReadCloser
	for _, args := range pipeline {
		cmd, w := r.command(ctx, args...), &gitWords{}
		if in != nil {
			cmd.Stdin = in
		}
		cmd.Stderr = w
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			cancel()
			return errors.Join(gitFailed(ctx, args[0], "", err), waitAll(cmds))
		}
		if in != nil {
			_ = in.Close() // the child has its copy
		}
		cmds, words, in = append(cmds, cmd), append(words, w), out
	}
	if err := read(in); err != nil {
		cancel()
		_ = waitAll(cmds) // they were stopped on purpose
		return err
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			cancel()
			_ = waitAll(cmds[i+1:])
			return gitFailed(ctx, pipeline[i][0], words[i].String(), err)
		}
	}
	return nil
}

func waitAll(cmds []*exec.Cmd) error {
	var errs []error
	for _, cmd := range cmds {
		errs = append(errs, cmd.Wait())
	}
	return errors.Join(errs...)
}

// The messages of git's hooks.
const (
	wordsPushDenied  = "gated: nothing was pushed: the push changes what another agent has reserved.\n"
	wordsChangedMore = "  and there are more\n"
	wordsPushNext    = "What to do: push again when they are free. gated reservations shows who has what.\n"
)

// maxPaths is how many changed paths are listed.
const maxPaths = 10

// exitRefused makes git stop, as does every code but 0.
const exitRefused = 1

// GitHook judges commits and pushes before they are made.
type GitHook struct {
	Guard
	Repository
}

// Commit judges the commit that git is about to make.
func (h GitHook) Commit(ctx context.Context) Outcome {
	a, err := h.PreCommit(ctx, h.Repository)
	return h.outcome(a, err, "gated: nothing was committed: the commit changes what another agent has reserved.\n",
		"What to do: leave these paths out of the commit, or wait until they are free (gated reserve --wait). Do not commit them by other means.\n")
}

// Push judges a push to a remote; refs is git's input to the hook.
func (h GitHook) Push(ctx context.Context, remote string, refs io.Reader) Outcome {
	a, err := h.PrePush(ctx, h.Repository, remote, refs)
	return h.outcome(a, err, wordsPushDenied, wordsPushNext)
}

func (h GitHook) outcome(a GitAnswer, err error, denied, next string) Outcome {
	held := len(a.Held) > 0 || a.More
	switch {
	case err != nil:
		text := fmt.Sprintf("gated: whether another agent has reserved what this changes could not be checked: %s.\n",
			bounded(shownOr(whatFailed(err)), maxField))
		if held {
			text += "These reservations may be in the way:\n" + holders(a.found())
		}
		if because, refused := h.refuses(err); refused {
			return Outcome{Stderr: text + because, Code: exitRefused}
		}
		return Outcome{Stderr: text + "git goes on (--on-failure warn). gated hook status lists such failures.\n"}
	case held:
		return Outcome{Stderr: denied + a.changed() + holders(a.found()) + next, Code: exitRefused}
	default:
		return Outcome{}
	}
}

// whatFailed returns an error's text and its hint.
func whatFailed(err error) string {
	var r *refusal.Refusal
	if errors.As(err, &r) && r.Hint != "" {
		return err.Error() + "; " + r.Hint
	}
	return err.Error()
}

// shownOr returns a text of the daemon or the system in printable form, because another user may have chosen a name in
// it.
func shownOr(text string) string {
	if n := neutral(text, maxField); n != `"`+text+`"` {
		return n
	}
	return text
}

// changed lists the changed paths that are reserved.
func (a GitAnswer) changed() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, h := range a.Held {
		if seen[h.Path] {
			continue
		}
		if len(seen) == maxPaths {
			b.WriteString(wordsChangedMore)
			break
		}
		seen[h.Path] = true
		fmt.Fprintf(&b, "  changed: %s\n", neutral(h.Path, maxField))
	}
	return b.String()
}

// found has each reservation once.
func (a GitAnswer) found() api.Checked {
	out := api.Checked{More: a.More}
	seen := map[string]bool{}
	for _, h := range a.Held {
		if !seen[h.Reservation.ID] {
			seen[h.Reservation.ID] = true
			out.Conflicts = append(out.Conflicts, h.Conflict)
		}
	}
	return out
}
