package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// folder returns the first folder of a package below internal/: "base" for
// internal/base/op, "gate" for internal/gate, and the directory itself for cmd/.
func folder(dir string) string {
	name, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return dir
	}
	name, _, _ = strings.Cut(name, "/")
	return name
}

// circles reports arrows between folders that lead in a circle: then no folder of
// them can be read first. Packages for tests alone do not count.
func (t Table) circles() []Problem {
	arrows := map[string]map[string]string{} // folder to folder, and one arrow between packages that makes it
	for dir, r := range t.packages {
		from := folder(dir)
		if arrows[from] == nil {
			arrows[from] = map[string]string{}
		}
		for _, other := range r.imports {
			if to := folder(other); to != from && !r.forTests {
				arrows[from][to] = max(arrows[from][to], dir+" imports "+other)
			}
		}
	}
	for removed := true; removed; {
		removed = false
		for from, to := range arrows {
			maps.DeleteFunc(to, func(name, _ string) bool { _, left := arrows[name]; return !left })
			if len(to) == 0 {
				delete(arrows, from)
				removed = true
			}
		}
	}
	var out []Problem
	for _, from := range slices.Sorted(maps.Keys(arrows)) {
		for _, to := range slices.Sorted(maps.Keys(arrows[from])) {
			out = append(out, Problem{Path: TablePath, What: fmt.Sprintf("a circle of folders: %s to %s (%s)", from, to, arrows[from][to])})
		}
	}
	return out
}
