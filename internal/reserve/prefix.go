package reserve

import (
	"path"
	"strings"

	"gated/internal/glob"
)

// prefixOf returns the path that everything a pattern matches is or is below,
// with case folded. If two patterns of whichever scopes match one path, both
// their prefixes are that path, folded, or above it: so one of them is the other
// or above it.
func prefixOf(scope string, p glob.Pattern) string {
	return glob.Folded(path.Join(scope, p.Literal()))
}

// isPath reports whether a pattern is nothing but one path. Then nothing that
// lies below can overlap it.
func (p pattern) isPath() bool {
	path := glob.Quote(p.Literal())
	return p.String() == path || glob.Folded(p.String()) == path // the Literal of one that ignores case is folded
}

// ancestors returns an absolute path and all that are above it.
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

// below returns what the paths below one lie between: "0" is the byte after "/".
// Neither is a path, so no path is either of them, but for "/" itself.
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

// meet reports whether two patterns match one path, each read where it belongs;
// known is false if that takes more work than is left.
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

// isAt reports whether two regions are relative to one directory. Where both say
// that names there are equal when only case differs, it is one for them too that
// was spelled in two ways.
func (r region) isAt(o region) bool {
	return r.path == o.path || r.fold && o.fold && glob.Folded(r.path) == glob.Folded(o.path)
}

// holds returns the other's directory relative to this one's, if it is below.
func (r region) holds(o region) (dir string, ok bool) {
	own := strings.TrimSuffix(r.path, "/")
	at := 0 // of the "/" in the other's path that ends as many names
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
