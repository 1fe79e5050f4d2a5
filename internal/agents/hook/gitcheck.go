package hook

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
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

// maxChanged is how many paths of one commit or push are checked one by one.
const maxChanged = 50_000

// errTooMany ends the reading of more than maxChanged paths.
var errTooMany = errors.New("too many paths")

// gitlink is the mode of a submodule.
const gitlink = "160000"

// changes is a set of changed paths.
type changes struct {
	byPath map[string]bool // whether it is a submodule
	max    int
}

func newChanges() changes { return changes{byPath: map[string]bool{}, max: maxChanged} }

func (c changes) add(path string, submodule bool) error {
	if _, known := c.byPath[path]; !known && len(c.byPath) >= c.max {
		return errTooMany
	}
	c.byPath[path] = c.byPath[path] || submodule
	return nil
}

// rawOptions are the options of each diff. Without a search for renames, a rename is a deletion and an addition, so
// both paths are listed, however git judges similarity. They overrule a configuration about submodules.
var rawOptions = []string{"--raw", "-z", "--no-renames", "--ignore-submodules=none", "--no-ext-diff"}

// read adds what git prints in its raw format with -z (git-diff-index(1), "Raw
// output format"): ":100644 160000 OLD NEW T", NUL, the path, NUL; of a merge as
// many colons as parents, and one mode and one id more than that.
func (c changes) read(in io.Reader) error {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		meta, err := untilNUL(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		parents := len(meta) - len(strings.TrimLeft(meta, ":"))
		columns := strings.Split(meta[parents:], " ")
		if parents == 0 || len(columns) != 2*(parents+1)+1 {
			return notRaw(meta)
		}
		path, err := untilNUL(r)
		if err != nil || path == "" {
			return notRaw(meta)
		}
		submodule := false
		for _, mode := range columns[:parents+1] {
			submodule = submodule || mode == gitlink
		}
		if err := c.add(path, submodule); err != nil {
			return err
		}
	}
}

func notRaw(meta string) error {
	return refusal.New(refusal.Unavailable, "git printed a change that is not understood: %.80q", meta)
}

// untilNUL reads up to the next NUL. A last text without NUL is an error.
func untilNUL(r *bufio.Reader) (string, error) {
	s, err := r.ReadString(0)
	if errors.Is(err, io.EOF) && s != "" {
		return "", notRaw(s)
	}
	return strings.TrimSuffix(s, "\x00"), err
}

// staged adds the changes of git's next commit: the index against HEAD, or against the empty tree before the first
// commit.
func (r Repository) staged(ctx context.Context, c changes) error {
	base, err := r.commit(ctx, "HEAD")
	if err == nil && base == "" {
		base, err = r.line(ctx, "hash-object", "-t", "tree", "--stdin")
	}
	if err != nil {
		return err
	}
	args := append([]string{"diff-index", "--cached"}, rawOptions...)
	return r.stream(ctx, c.read, append(args, base, "--"))
}

// between adds the differences between the trees of two commits.
func (r Repository) between(ctx context.Context, c changes, from, to string) error {
	args := append([]string{"diff-tree", "-r"}, rawOptions...)
	return r.stream(ctx, c.read, append(args, from, to, "--"))
}

// made adds the changes of the commits that rev-list selects, each against its parent. For a merge, these are the paths
// that differ from all its parents.
func (r Repository) made(ctx context.Context, c changes, selection ...string) error {
	list := append([]string{"rev-list"}, selection...)
	tree := append([]string{"diff-tree", "--stdin", "-r", "-c", "--root", "--no-commit-id"}, rawOptions...)
	return r.stream(ctx, c.read, list, tree)
}

// notPrintable is the class for a character that a pattern cannot spell: a byte that is not UTF-8, or a newline. It
// also matches every character that is not ASCII, so it matches too much rather than too little.
const notPrintable = "[! -~]"

// change is a path that differs between two trees.
type change struct {
	path      string // as git has it: any bytes but NUL
	submodule bool   // on at least one side
}

// pattern returns the narrowest pattern that surely matches the path, relative to the top level. For a submodule it
// also matches everything below, because all its files change with its commit. A class replaces a name that a pattern
// cannot spell. If that is too long for a pattern, it matches all below the parent.
func (c change) pattern(o glob.Options) string {
	below := ""
	if c.submodule {
		below = "/**"
	}
	for _, p := range []string{glob.Quote(c.path), spell(c.path)} {
		if matches(p+below, c.path, o) {
			return p + below
		}
	}
	for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
		for _, p := range []string{glob.Quote(dir), spell(dir)} {
			if matches(p+"/**", c.path, o) {
				return p + "/**"
			}
		}
	}
	return everything
}

// everything is the pattern of a whole scope.
const everything = "**"

func matches(pattern, path string, o glob.Options) bool {
	p, err := glob.Parse(pattern, o)
	return err == nil && p.Match(path)
}

// spell quotes what a pattern can spell, and writes a class for the rest.
func spell(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && n == 1, op.CheckText("", string(r)) != nil:
			b.WriteString(notPrintable)
		default:
			b.WriteString(glob.Quote(name[i : i+n]))
		}
		i += n
	}
	return b.String()
}
