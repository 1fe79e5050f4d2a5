package arch_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/promise"
)

const (
	threatPage = "docs/threat-model.md"
	matrixPage = "docs/matrix.md"
	modelPage  = "docs/design/model.md"
	matrixDir  = "internal/test/matrix"
)

// tables are the tests that run the rows of the matrix.
var tables = []string{"TestMatrix", "TestBackends", "TestMembers"}

var (
	bracketed   = regexp.MustCompile(`\[([^\[\]]*)\]([^(]|$)`)
	idOrRange   = regexp.MustCompile(`^([A-Z]\d\d[a-z]?)(?:–([A-Z]\d\d[a-z]?))?$`)
	itemBegins  = regexp.MustCompile(`^(\d+)\. \*\*`)
	modelCited  = regexp.MustCompile(`\(model: ([^)]*)\)`)
	storyOrTest = regexp.MustCompile(`^(Test[A-Z]\w*|cmd/\w+/testdata/script/[\w-]+\.txtar)$`)
	skips       = regexp.MustCompile(`^Skip(f|Now)?$`)
)

// item is a goal or a failure scenario of the page.
type item struct {
	name string // goal 1, scenario 12
	text string
	ids  []string // with ranges expanded
	more []string // tests and stories
}

// itemsOf returns the numbered items of one section of the page.
func itemsOf(t *testing.T, page, section, name string) (out []item) {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n## "+section+"\n")
	require.True(t, ok, section)
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if m := itemBegins.FindStringSubmatch(line); m != nil {
			require.Equal(t, strconv.Itoa(len(out)+1), m[1], "%s %s is out of order", name, m[1])
			out = append(out, item{name: name + " " + m[1]})
		}
		if len(out) > 0 {
			out[len(out)-1].text += line
		}
	}
	for i := range out {
		out[i].ids, out[i].more = citedIn(t, out[i].text)
	}
	return out
}

// citedIn returns what a text cites: ids in brackets, and tests and stories as code.
func citedIn(t *testing.T, text string) (ids, more []string) {
	t.Helper()
	text = strings.Join(strings.Fields(text), " ")
	for _, m := range bracketed.FindAllStringSubmatch(text, -1) {
		for _, cited := range strings.Split(m[1], ", ") {
			if r := idOrRange.FindStringSubmatch(cited); r != nil {
				ids = append(ids, expand(t, r[1], r[2])...)
			}
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		if storyOrTest.MatchString(m[1]) {
			more = append(more, m[1])
		}
	}
	return ids, more
}

// expand returns the ids from one to another: P02–P04 or S25a–S25k.
func expand(t *testing.T, from, to string) (out []string) {
	t.Helper()
	if to == "" {
		return []string{from}
	}
	require.Len(t, to, len(from), "%s–%s", from, to)
	if len(from) == 4 {
		require.Equal(t, from[:3], to[:3], "%s–%s", from, to)
		for c := from[3]; c <= to[3]; c++ {
			out = append(out, from[:3]+string(c))
		}
	} else {
		require.Equal(t, from[0], to[0], "%s–%s", from, to)
		for n := must.Get(strconv.Atoi(from[1:]))(t); n <= must.Get(strconv.Atoi(to[1:]))(t); n++ {
			out = append(out, from[:1]+string(rune('0'+n/10))+string(rune('0'+n%10)))
		}
	}
	require.Greater(t, len(out), 1, "%s–%s is no range", from, to)
	return out
}

// testFile is a parsed file of tests that go test compiles without a tag.
type testFile struct {
	dir    string
	syntax *ast.File
}

func testFiles(t *testing.T, tree fs.FS) (out []testFile) {
	t.Helper()
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil && builds(syntax) {
			out = append(out, testFile{path.Dir(name), syntax})
		}
		return err
	}))
	return out
}

// builds reports whether go test compiles a file on the platform of .ci/run, with the race detector and no other tag.
func builds(f *ast.File) bool {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if x, err := constraint.Parse(c.Text); err == nil {
				return x.Eval(func(tag string) bool { return slices.Contains([]string{"linux", "unix", "amd64", "race"}, tag) })
			}
		}
	}
	return true
}

// testsOf returns the directories of each test by its name, and which, as dir.name, can skip themselves.
func testsOf(files []testFile) (dirs map[string][]string, skipping map[string]bool) {
	dirs, skipping = map[string][]string{}, map[string]bool{}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || fn.Name.Name == "TestMain" {
				continue
			}
			dirs[fn.Name.Name] = append(dirs[fn.Name.Name], f.dir)
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && skips.MatchString(s.Sel.Name) {
					skipping[f.dir+"."+fn.Name.Name] = true
				}
				return true
			})
		}
	}
	return dirs, skipping
}

// casesOf returns the ids of the cases that the tables of the matrix run: those that stand, as the first member of a row or
// the first argument of what makes one, in a declaration that a table leads to.
func casesOf(files []testFile) map[string]bool {
	decls := map[string][]ast.Node{}
	for _, f := range files {
		if f.dir != matrixDir {
			continue
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					decls[d.Name.Name] = append(decls[d.Name.Name], d.Body)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							decls[name.Name] = append(decls[name.Name], v)
						}
					}
				}
			}
		}
	}
	out, seen, next := map[string]bool{}, map[string]bool{}, slices.Clone(tables)
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, d := range decls[name] {
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					next = append(next, n.Name)
				case *ast.CompositeLit:
					addID(out, n.Elts)
				case *ast.CallExpr:
					addID(out, n.Args)
				}
				return true
			})
		}
	}
	return out
}

func addID(ids map[string]bool, of []ast.Expr) {
	if len(of) < 2 { // a row has more than its id
		return
	}
	first := of[0]
	if kv, ok := first.(*ast.KeyValueExpr); ok {
		if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "id" {
			return
		}
		first = kv.Value
	}
	if lit, ok := first.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if id, err := strconv.Unquote(lit.Value); err == nil && promise.IsCase(id) {
			ids[id] = true
		}
	}
}

// elsewhere returns the rows of the matrix that another test shows, with the files that docs/matrix.md names for them.
func elsewhere(t *testing.T, page string) map[string][]string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n## Elsewhere\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	out := map[string][]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			out[words(cells[1])[0]] = words(cells[3])
		}
	}
	require.NotEmpty(t, out)
	return out
}

// explained returns the ids of which docs/matrix.md says what they stand for, in the table of its own for that.
func explained(t *testing.T, page string) (out []string) {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n## Of no scenario\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, cited := range strings.Split(strings.TrimSpace(cells[1]), ", ") {
			if r := idOrRange.FindStringSubmatch(cited); r != nil {
				require.NotEmpty(t, strings.TrimSpace(cells[2]), cited)
				out = append(out, expand(t, r[1], r[2])...)
			}
		}
	}
	return out
}
