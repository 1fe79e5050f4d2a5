package arch

import (
	"fmt"
	"slices"
	"strings"
)

// TablePath is where the module says what its packages are. It is the single
// source: this package knows no package by name.
const TablePath = "docs/design/packages.md"

// Table is what docs/design/packages.md says.
type Table struct {
	packages map[string]row      // by directory, "internal/base/op"
	modules  map[string][]string // import path prefix to the directories that may import it
	clocks   map[string]bool     // directories that may call time.Now
}

type row struct {
	forTests bool     // its job begins with "tests"; no program has it
	forEvery bool     // its job begins with "tests everywhere"; all tests may import it
	imports  []string // directories that any file of the package may import
	tests    []string // and these only its tests
}

// ParseTable reads the tables under the headings Packages, Modules and Clocks.
// Names of packages are directories; those below internal/ may leave that out.
func ParseTable(doc []byte) (Table, error) {
	t := Table{packages: map[string]row{}, modules: map[string][]string{}, clocks: map[string]bool{}}
	heading := ""
	for n, line := range strings.Split(string(doc), "\n") {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = h
		}
		cells, ok := tableCells(line)
		if !ok {
			continue
		}
		if err := t.add(heading, cells); err != nil {
			return Table{}, fmt.Errorf("%s:%d: %w", TablePath, n+1, err)
		}
	}
	if len(t.packages) == 0 {
		return Table{}, fmt.Errorf("%s: no table of packages", TablePath)
	}
	return t, nil
}

func (t Table) add(heading string, cells []string) error {
	first := strings.Trim(cells[0], "`")
	switch heading {
	case "Packages":
		if len(cells) != 4 {
			return fmt.Errorf("a package has 4 columns, not %d", len(cells))
		}
		dir := directory(first)
		if _, twice := t.packages[dir]; twice {
			return fmt.Errorf("%s is listed twice", dir)
		}
		if cells[1] == "" {
			return fmt.Errorf("%s has no job", dir)
		}
		t.packages[dir] = row{forTests: strings.HasPrefix(cells[1], "tests "), forEvery: strings.HasPrefix(cells[1], "tests everywhere"),
			imports: directories(cells[2]), tests: directories(cells[3])}
	case "Modules":
		if len(cells) != 3 {
			return fmt.Errorf("a module has 3 columns, not %d", len(cells))
		}
		t.modules[first] = directories(cells[1])
	case "Clocks":
		if len(cells) != 2 {
			return fmt.Errorf("a clock has 2 columns, not %d", len(cells))
		}
		t.clocks[directory(first)] = true
	}
	return nil
}

// tableCells returns the cells of a table's row; false for other lines, for the
// header and for the rule below it.
func tableCells(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	inner, opened := strings.CutPrefix(line, "|")
	inner, closed := strings.CutSuffix(inner, "|")
	if !opened || !closed || strings.Trim(inner, "|-: ") == "" {
		return nil, false
	}
	cells := strings.Split(inner, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells, strings.HasPrefix(cells[0], "`")
}

func directories(cell string) []string {
	var out []string
	for _, word := range strings.Fields(cell) {
		if word != "-" {
			out = append(out, directory(strings.Trim(word, "`")))
		}
	}
	return out
}

// atRoot are the directories of packages at the root of the module.
var atRoot = []string{"internal", "cmd", "client", "docs"}

func directory(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(atRoot, first) {
		return name
	}
	return "internal/" + name
}

// compare reports packages that are not in the table, and rows of the table that
// nothing stands behind.
func (t Table) compare(files []file) []Problem {
	var out []Problem
	there := map[string]bool{}
	for _, f := range files {
		if _, listed := t.packages[f.dir()]; !listed && !there[f.dir()] {
			out = append(out, Problem{Path: f.path, What: "the package " + f.dir() + " is not in " + TablePath})
		}
		there[f.dir()] = true
	}
	missing := func(dir, where string) {
		if !there[dir] {
			out = append(out, Problem{Path: TablePath, What: where + " names " + dir + ", which does not exist"})
		}
	}
	for dir, r := range t.packages {
		missing(dir, "the table of packages")
		for _, other := range slices.Concat(r.imports, r.tests) {
			missing(other, "the row of "+dir)
		}
	}
	for module, dirs := range t.modules {
		for _, dir := range dirs {
			missing(dir, "the row of "+module)
		}
	}
	for dir := range t.clocks {
		missing(dir, "the table of clocks")
	}
	return append(out, t.circles()...)
}
