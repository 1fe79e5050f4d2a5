package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

const parsersPage = "docs/design/parsers.md"

// onlyForTests are packages that read what tests write.
var onlyForTests = []string{"test/arch", "test/bench", "wire/cli/clitest", "test/crash", "test/faults", "host/fsck/fscktest", "test/linear", "test/loss", "test/matrix", "test/mint", "test/snapshot", "base/store/storetest", "test/story"}

var (
	readsBytes = regexp.MustCompile(`^([pP]arse|[dD]ecode|[lL]oad|[uU]nescape|Unmarshal)`)
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// parsers is what the page says.
type parsers struct {
	functions map[string]bool // package.function
	targets   map[string]bool // package.FuzzX
}

func parsersOf(t *testing.T, page string) parsers {
	t.Helper()
	p := parsers{map[string]bool{}, map[string]bool{}}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		pkg := words(cells[1])
		require.Len(t, pkg, 1, line)
		for _, f := range words(cells[2]) {
			p.functions[pkg[0]+"."+f] = true
		}
		for _, f := range words(cells[3]) {
			if strings.HasPrefix(f, "Fuzz") {
				p.targets[pkg[0]+"."+f] = true
			}
		}
	}
	return p
}

func words(cell string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// found is what the tree has.
type found struct {
	functions, parsers, targets map[string]bool
}

func search(t *testing.T, tree fs.FS) found {
	t.Helper()
	out := found{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			return err
		}
		pkg := strings.TrimPrefix(path.Dir(name), "internal/")
		text, err := fs.ReadFile(tree, name)
		if err != nil || slices.Contains(onlyForTests, pkg) {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				out.add(pkg+"."+f.Name.Name, f, strings.HasSuffix(name, "_test.go"))
			}
		}
		return nil
	}))
	return out
}

func (f found) add(name string, fn *ast.FuncDecl, test bool) {
	switch {
	case test && strings.HasPrefix(fn.Name.Name, "Fuzz") && fn.Recv == nil:
		f.targets[name] = true
	case test:
	default:
		f.functions[name] = true
		if readsBytes.MatchString(fn.Name.Name) && slices.ContainsFunc(fn.Type.Params.List, takesText) {
			f.parsers[name] = true
		}
	}
}

// takesText reports whether a parameter is text, bytes or what they are read
// from.
func takesText(p *ast.Field) bool {
	typ := p.Type
	if a, ok := typ.(*ast.ArrayType); ok {
		typ = a.Elt
	}
	if s, ok := typ.(*ast.StarExpr); ok {
		typ = s.X
	}
	switch x := typ.(type) {
	case *ast.Ident:
		return x.Name == "string" || x.Name == "byte"
	case *ast.SelectorExpr:
		return x.Sel.Name == "Reader" || x.Sel.Name == "Decoder" || x.Sel.Name == "Value"
	}
	return false
}

// Every parser is in the table with a fuzz target, and the table is true.
func TestEveryParserIsFuzzed(t *testing.T) {
	tree := thisModule(t)
	page := must.Get(fs.ReadFile(tree, parsersPage))(t)
	says, has := parsersOf(t, string(page)), search(t, tree)
	require.Greater(t, len(has.parsers), 50)
	require.Empty(t, missing(has.parsers, says.functions), "parsers that %s does not list: fuzz them, and add their rows", parsersPage)
	require.Empty(t, missing(says.functions, has.functions), "%s lists functions that are not there", parsersPage)
	require.Empty(t, missing(says.targets, has.targets), "%s lists fuzz targets that are not there", parsersPage)
	require.Empty(t, missing(has.targets, says.targets), "fuzz targets that %s does not list", parsersPage)
}

func missing(of, in map[string]bool) (out []string) {
	for name := range of {
		if !in[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
