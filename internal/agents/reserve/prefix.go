package reserve

import (
	"path"
	"strings"

	"gated/internal/agents/glob"
)

// prefixOf returns the longest known path such that everything a pattern matches is it or below it, with case folded.
// If two patterns of any scopes match one path, both prefixes are that path, folded, or above it. So one prefix is the
// other or above it.
func prefixOf(scope string, p glob.Pattern) string {
	return glob.Folded(path.Join(scope, p.Literal()))
}

// isPath reports whether a pattern is exactly one path. Then nothing below that path can overlap it.
func (p pattern) isPath() bool {
	path := glob.Quote(p.Literal())
	return p.String() == path || glob.Folded(p.String()) == path // the Literal of one that ignores case is folded
}

// ancestors returns an absolute path and all paths above it.
func ancestors(p string) []string {
	out := []string{p}
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
		out = append(out, p[:i])
	}
	if p != "/" {
		out = append(out, "/")
	}
	return out
}

// below returns two bounds; all paths below p sort between them, because "0" is the byte after "/". No path equals a
// bound, except "/".
func below(p string) (after, before string) {
	p = strings.TrimSuffix(p, "/")
	return p + "/", p + "0"
}

// related reports whether one absolute path is the other or above it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

// meet reports whether two patterns match one path, each read in its own region. known is false if that takes more work
// than is left.
func meet(r region, p glob.Pattern, o region, q glob.Pattern, left *int64) (overlap, known bool) {
	*left -= workOfPair
	if r.isAt(o) {
		return glob.OverlapWithin(p, "", q, left)
	}
	if dir, ok := r.holds(o); ok {
		return glob.OverlapWithin(p, dir, q, left)
	}
	if dir, ok := o.holds(r); ok {
		return glob.OverlapWithin(q, dir, p, left)
	}
	return false, true
}

// isAt reports whether two regions are relative to one directory. If both ignore case, two spellings of its path are
// one directory.
func (r region) isAt(o region) bool {
	return r.path == o.path || r.fold && o.fold && glob.Folded(r.path) == glob.Folded(o.path)
}

// holds returns the other's directory relative to this one's, if it is below.
func (r region) holds(o region) (dir string, ok bool) {
	own := strings.TrimSuffix(r.path, "/")
	at := 0 // of the "/" after as many names in the other's path
	for range strings.Count(own, "/") {
		i := strings.IndexByte(o.path[at+1:], '/')
		if i < 0 {
			return "", false
		}
		at += 1 + i
	}
	dir, head := o.path[at+1:], o.path[:at]
	if dir == "" || head != own && !(r.fold && glob.Folded(head) == glob.Folded(own)) {
		return "", false
	}
	return dir, true
}
