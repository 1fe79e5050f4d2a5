package hook

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"gated/internal/base/refusal"
)

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
