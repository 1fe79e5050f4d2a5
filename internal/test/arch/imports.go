package arch

import (
	"slices"
	"strings"
)

// module is this module's path; every import of ours begins with it.
const module = "gated/"

// imports reports what a file imports against the table.
func (t Table) imports(f file) []Problem {
	r, listed := t.packages[f.dir()]
	if !listed {
		return nil // said once for the whole package, by compare
	}
	var out []Problem
	for _, spec := range f.syntax.Imports {
		imported := strings.Trim(spec.Path.Value, "`\"")
		if why := t.forbids(f, r, imported); why != "" {
			out = append(out, f.problem(spec.Pos(), why))
		}
		if spec.Name != nil && spec.Name.Name == "." {
			out = append(out, f.problem(spec.Pos(), "a dot import hides where names come from"))
		}
	}
	return out
}

// forbids says why a file may not import a path, or "".
func (t Table) forbids(f file, r row, imported string) string {
	dir, ours := strings.CutPrefix(imported, module)
	switch {
	case imported == "C":
		return "cgo: the programs are static"
	case imported == "encoding/json":
		return "encoding/json takes duplicate and case-variant members; use go-json-experiment/json"
	case ours:
		allowed := dir == f.dir() && f.isTest() || slices.Contains(r.imports, dir) || f.isTest() && slices.Contains(r.tests, dir) ||
			(f.isTest() || r.forTests) && t.packages[dir].forEvery
		if !allowed {
			return f.dir() + " may not import " + dir + " (" + TablePath + ")"
		}
	case strings.Contains(strings.Split(imported, "/")[0], "."):
		return t.forbidsModule(f, imported)
	}
	return ""
}

// forbidsModule looks for the longest prefix in the table of modules. Tests may
// import every listed module.
func (t Table) forbidsModule(f file, imported string) string {
	best := ""
	for prefix := range t.modules {
		if (imported == prefix || strings.HasPrefix(imported, prefix+"/")) && len(prefix) > len(best) {
			best = prefix
		}
	}
	switch {
	case best == "":
		return imported + " is of no module in " + TablePath
	case !f.isTest() && !slices.Contains(t.modules[best], f.dir()):
		return f.dir() + " may not import " + imported + " (" + TablePath + ")"
	}
	return ""
}
