package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// The packages that make test runs without the race detector start no goroutine. Their tests that do run with it too.
func TestPackagesOfOneGoroutine(t *testing.T) {
	var named []string
	for _, dir := range strings.Fields(inMakefile(t, "ONE_GOROUTINE")) {
		code, tests := goroutines(t, "../../"+dir)
		require.Empty(t, code, dir)
		named = append(named, tests...)
	}
	together := regexp.MustCompile(`^\^\((.+)\)\$\$$`).FindStringSubmatch(inMakefile(t, "TOGETHER"))
	require.NotNil(t, together)
	require.ElementsMatch(t, strings.Split(together[1], "|"), named)
	for _, dir := range []string{"host/fsck", "driver/several"} { // by a statement, and by a group that waits
		code, _ := goroutines(t, "../../"+dir)
		require.NotEmpty(t, code, "this looks for nothing")
	}
}

// The packages whose tests run programs alone have no gate, server or page in their own process, which the race detector would have
// to look at.
func TestPackagesOfProgramsAlone(t *testing.T) {
	inside := regexp.MustCompile(`"gated/internal/(gate|reconcile|host/(server|service|daemon|hub)|web/.*|test/(gateworld|servicetest|bench/load)|.*/(pvetest|libvirttest))"`)
	imports := func(dir string) (found []string) {
		paths := must.Get(filepath.Glob(filepath.Join("..", filepath.Base(dir), "*.go")))(t)
		require.NotEmpty(t, paths, dir)
		for _, path := range paths {
			for _, i := range must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly))(t).Imports {
				found = append(found, inside.FindAllString(i.Path.Value, -1)...)
			}
		}
		return found
	}
	for _, dir := range strings.Fields(inMakefile(t, "OUTSIDE")) {
		require.Empty(t, imports(dir), dir)
	}
	require.NotEmpty(t, imports("test/bench"), "this looks for nothing")
	require.NotEmpty(t, imports("test/browser"), "this looks for nothing")
}

// inMakefile returns what a variable of the Makefile is.
func inMakefile(t *testing.T, variable string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + variable + ` = (.+)$`).FindSubmatch(must.Get(os.ReadFile("../../../Makefile"))(t))
	require.NotNil(t, found, variable)
	return string(found[1])
}

// goroutines returns the functions of a directory that start goroutines, those of tests apart.
func goroutines(t *testing.T, dir string) (code, tests []string) {
	files := token.NewFileSet()
	paths := must.Get(filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go")))(t)
	require.NotEmpty(t, paths, dir)
	for _, path := range paths {
		for _, d := range must.Get(parser.ParseFile(files, path, nil, 0))(t).Decls {
			name := "a variable"
			if f, ok := d.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			switch {
			case !starts(d):
			case strings.HasSuffix(path, "_test.go"):
				tests = append(tests, name)
			default:
				code = append(code, name)
			}
		}
	}
	return code, tests
}

// starts reports whether a declaration starts a goroutine: by a statement, in a group, or after something.
func starts(d ast.Decl) (found bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc"
		}
		return !found
	})
	return found
}
