// Package arch checks the shape of this module: which package imports which,
// and the rules of CONTRIBUTING.md that a parser can see.
//
// It parses the files itself. An answer of "go list" would be served from the
// test cache after the tree had changed.
package arch

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// Problem is one breach of a rule.
type Problem struct {
	Path string // of the file, from the module's root, with slashes
	Line int    // from 1, or 0 where the whole file is meant
	What string
}

// String returns "path:line: what".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Path + ": " + p.What
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.What)
}

// Check looks at a module's tree and returns every breach, sorted by place. It
// fails where it could not look: at a tree without Go files, at a file that
// does not parse, at a table that is missing or malformed.
func Check(tree fs.FS) ([]Problem, error) {
	doc, err := fs.ReadFile(tree, TablePath)
	if err != nil {
		return nil, err
	}
	table, err := ParseTable(doc)
	if err != nil {
		return nil, err
	}
	files, err := goFiles(tree)
	if err != nil {
		return nil, err
	}
	problems := append(table.compare(files), waits(files)...)
	for _, f := range files {
		problems = append(problems, table.imports(f)...)
		problems = append(problems, f.rules(table)...)
		problems = append(problems, f.named()...)
		problems = append(problems, f.checked()...)
	}
	sortByPlace(problems)
	return problems, nil
}

func sortByPlace(problems []Problem) {
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i], problems[j]
		if a.Path != b.Path {
			return a.Path < b.Path
		}
		return a.Line < b.Line
	})
}

// walk calls fn with every regular file that ends in suffix, but for test data,
// built programs, hidden directories and other modules.
func walk(tree fs.FS, suffix string, fn func(name string) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			hidden := base != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
			if hidden || base == "testdata" || name == "bin" || name == "dist" || name != "." && isModule(tree, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(base, suffix) {
			return nil
		}
		return fn(name)
	})
}

// isModule reports whether a directory has a go.mod of its own, as tools has: the
// product is built without it.
func isModule(tree fs.FS, dir string) bool {
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}
