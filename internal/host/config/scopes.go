package config

import (
	"maps"
	"slices"
	"strings"

	"gated/internal/base/strictyaml"
)

// scopes reads directories that several members share, by name: the path on each member.
func scopes(v strictyaml.Value) map[string]map[string]string {
	out := map[string]map[string]string{}
	for name, s := range v.Each() {
		checkName(s, name)
		out[name] = map[string]string{}
		for member, p := range s.Each() {
			out[name][member] = path(p)
		}
	}
	return out
}

// shared refuses scopes by which a path would have two names.
func (s *Store) shared(v strictyaml.Value) {
	names := map[string]string{} // in lower case
	for name := range s.Members {
		names[strings.ToLower(name)] = name
	}
	type at struct{ scope, path string }
	dirs := map[string][]at{} // by member
	for _, name := range slices.Sorted(maps.Keys(s.Scopes)) {
		one := v.Get(name)
		if other, twice := names[strings.ToLower(name)]; twice {
			one.Fail("a scope cannot have the name %s, because %s is one already", name, other)
		}
		names[strings.ToLower(name)] = name
		if len(s.Scopes[name]) < 2 {
			one.Fail("the scope %s is of %d members, and a shared one is of two or more", name, len(s.Scopes[name]))
		}
		for _, member := range slices.Sorted(maps.Keys(s.Scopes[name])) {
			if _, known := s.Members[member]; !known {
				one.Get(member).Fail("%s is no member under store.members", member)
			}
			p := s.Scopes[name][member]
			for _, o := range dirs[member] {
				if within(p, o.path) || within(o.path, p) {
					one.Get(member).Fail("%s and %s of the scope %s are one in the other, so a path would lie in both", p, o.path, o.scope)
				}
			}
			dirs[member] = append(dirs[member], at{name, p})
		}
	}
}

// within reports whether a path is a directory or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
