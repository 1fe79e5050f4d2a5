package hook

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

const (
	// batch is how many patterns one question has, and batchBytes how many bytes they may have as JSON. The daemon
	// accepts that many, and can compare them with all that one uid may have reserved.
	batch      = 100
	batchBytes = 900 << 10
	// maxHeld is how many conflicts are collected.
	maxHeld = 20
)

// GitAnswer has the changed paths of a commit or push that others have reserved.
type GitAnswer struct {
	Scope api.Place
	Paths int    // how many paths it changes
	Held  []Held // empty if the commit or push may go on
	More  bool   // there are more of them
}

// Held is a changed path and the reservation of it.
type Held struct {
	Path string // as git has it: any bytes but NUL
	api.Conflict
}

// PreCommit asks about the paths that git's next commit changes. The error is a *Failure, as of Ask. If there are too
// many paths to check, the error comes with the reservations that may be in the way.
func (g Guard) PreCommit(ctx context.Context, r Repository) (GitAnswer, error) {
	return g.gitHook(ctx, r, func(ctx context.Context, c changes) (bool, error) { return false, r.staged(ctx, c) })
}

// PrePush is PreCommit for the paths that a push to a remote changes. refs is git's input to the hook.
func (g Guard) PrePush(ctx context.Context, r Repository, remote string, refs io.Reader) (GitAnswer, error) {
	return g.gitHook(ctx, r, func(ctx context.Context, c changes) (bool, error) { return r.pushed(ctx, c, remote, refs) })
}

// found is git's list of the changes.
type found struct {
	place  api.Place
	list   []change
	unseen bool
}

// reader asks git which paths change.
type reader func(context.Context, changes) (unseen bool, err error)

func (g Guard) gitHook(ctx context.Context, r Repository, read reader) (GitAnswer, error) {
	places, err := within(ctx, gitTime, r.places)
	if err != nil {
		return GitAnswer{}, g.Failed(KindPath, err)
	}
	f, failed := within(ctx, gitTime, func(ctx context.Context) (found, error) { return find(ctx, read) })
	out := GitAnswer{Scope: places[0], Paths: len(f.list)}
	for _, f.place = range places {
		if err := g.about(ctx, f, failed, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// about asks about the changes in one place. If git could not list them, it asks whether there is any reservation in
// that place.
func (g Guard) about(ctx context.Context, f found, err error, out *GitAnswer) error {
	var vague error
	switch {
	case errors.Is(err, errTooMany), errors.Is(err, context.DeadlineExceeded):
		vague = refusal.New(refusal.OverLimit,
			"it changes more than %d paths or %d refs, or git needed longer than %s to list them, and others have reservations here",
			maxChanged, maxRefs, gitTime).WithHint("do it in smaller parts")
	case err != nil:
		return g.Failed(KindPath, err)
	case f.unseen:
		vague = refusal.New(refusal.UnknownTarget,
			"the remote has a commit that is not here: nobody can say what is taken away, and others have reservations here").
			WithHint("fetch first")
	default:
		return g.each(ctx, f, out)
	}
	// Without any reservation, nothing can be in the way.
	answer, err := g.Ask(ctx, api.Check{Scope: f.place, Patterns: []string{everything}})
	if err != nil || len(answer.Conflicts) == 0 && !answer.More {
		return err
	}
	out.add(answer, map[string]string{})
	return g.Failed(KindPath, vague)
}

// each asks about every path, in batches.
func (g Guard) each(ctx context.Context, f found, out *GitAnswer) error {
	if len(f.list) > batch {
		// If there is no reservation, this one question suffices.
		answer, err := g.Ask(ctx, api.Check{Scope: f.place, Patterns: []string{everything}})
		if err != nil && !errors.Is(err, refusal.TooComplex) || err == nil && len(answer.Conflicts) == 0 && !answer.More {
			return err
		}
	}
	patterns, paths := f.patterns()
	for len(patterns) > 0 {
		n := fitting(patterns)
		answer, err := g.Ask(ctx, api.Check{Scope: f.place, Patterns: patterns[:n]})
		if err != nil {
			return err
		}
		out.add(answer, paths)
		if patterns = patterns[n:]; len(out.Held) >= maxHeld && len(patterns) > 0 {
			out.More = true
			return nil
		}
	}
	return nil
}

// fitting returns how many of the patterns fit into one question. A pattern has no control characters, so JSON writes
// at most two bytes for each of its bytes, and three around it.
func fitting(patterns []string) int {
	size := 0
	for i, p := range patterns {
		if size += 2*len(p) + 3; i == batch || i > 0 && size > batchBytes {
			return i
		}
	}
	return len(patterns)
}

// add takes over the daemon's answer about some patterns.
func (a *GitAnswer) add(answer api.Checked, paths map[string]string) {
	for _, c := range answer.Conflicts {
		path, ok := paths[c.Pattern]
		if !ok {
			path = c.Pattern
		}
		a.Held = append(a.Held, Held{Path: path, Conflict: c})
	}
	a.More = a.More || answer.More
}

// patterns returns the patterns of the changed paths, each once, and the path for each pattern.
func (f found) patterns() ([]string, map[string]string) {
	o := glob.Options{Scope: f.place.Path, FoldCase: f.place.Fold}
	var list []string
	paths := map[string]string{}
	for _, c := range f.list {
		p := c.pattern(o)
		if _, twice := paths[p]; !twice {
			paths[p] = c.path
			list = append(list, p)
		}
	}
	return list, paths
}

// find lists the changed paths, by path, as git reports them.
func find(ctx context.Context, read reader) (found, error) {
	var f found
	var err error
	c := newChanges()
	if f.unseen, err = read(ctx, c); err != nil {
		return f, err
	}
	for path, submodule := range c.byPath {
		f.list = append(f.list, change{path, submodule})
	}
	slices.SortFunc(f.list, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return f, nil
}

// places returns the work tree of git, and the one around the repository's own .git if that is another. With GIT_DIR
// alone, git takes any working directory for its work tree. But the commits belong to the checkout with that .git, and
// agents reserve there.
func (r Repository) places(ctx context.Context) ([]api.Place, error) {
	top, topErr := r.top(ctx)
	var out []api.Place
	if topErr == nil {
		out = append(out, top)
	}
	lines, err := r.line(ctx, "rev-parse", "--absolute-git-dir", "--is-bare-repository")
	if err != nil {
		return nil, err
	}
	at := strings.LastIndexByte(lines, '\n')
	if dir := lines[:max(at, 0)]; filepath.Base(dir) == ".git" && lines[at+1:] == "false" {
		around, err := checkout.At(filepath.Dir(dir))
		if err != nil {
			return nil, err
		}
		if topErr != nil || around.Path != top.Path {
			out = append(out, around)
		}
	}
	if len(out) == 0 {
		return nil, topErr
	}
	return out, nil
}

// top returns git's work tree, which may be a linked one. A bare repository has none: then no path can be reserved, and
// there is no question.
func (r Repository) top(ctx context.Context) (api.Place, error) {
	dir, err := r.line(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return api.Place{}, err
	}
	place, err := checkout.At(dir)
	if err == nil && !utf8.ValidString(place.Path) {
		err = refusal.New(refusal.Malformed, "the work tree's path is not valid UTF-8: %s", op.Shown(place.Path))
	}
	return place, err
}
