package hook

import (
	"bufio"
	"context"
	"io"
	"strings"

	"gated/internal/base/refusal"
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
