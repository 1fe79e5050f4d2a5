package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// The sizes at which one idea has become several.
const (
	maxFileLines = 600
	maxFuncLines = 60
)

// unfinished matches words that leave work behind. It is put together so that
// this file does not match itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|not ` + `implemented|un` + `implemented)\b`)

// file is one parsed Go file.
type file struct {
	path    string // from the module's root
	content []byte
	fset    *token.FileSet
	syntax  *ast.File
}

func (f file) dir() string          { return path.Dir(f.path) }
func (f file) isTest() bool         { return strings.HasSuffix(f.path, "_test.go") }
func (f file) line(p token.Pos) int { return f.fset.Position(p).Line }

func (f file) problem(at token.Pos, what string) Problem {
	return Problem{Path: f.path, Line: f.line(at), What: what}
}

// goFiles parses every Go file of the tree, whatever its build constraints.
func goFiles(tree fs.FS) ([]file, error) {
	var files []file
	err := walk(tree, ".go", func(name string) error {
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file{path: name, content: content, fset: fset, syntax: syntax})
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no Go files")
	}
	return files, err
}

// rules reports what is wrong inside a file.
func (f file) rules(t Table) []Problem {
	var out []Problem
	for i, line := range bytes.Split(f.content, []byte("\n")) {
		if word := unfinished.Find(line); word != nil {
			out = append(out, Problem{Path: f.path, Line: i + 1, What: string(word) + ": finish it or leave it out"})
		}
	}
	out = append(out, f.clocks(t)...)
	if f.isTest() {
		return out
	}
	if n := bytes.Count(f.content, []byte("\n")); n > maxFileLines {
		out = append(out, Problem{Path: f.path, What: fmt.Sprintf("%d lines, more than %d", n, maxFileLines)})
	}
	out = append(out, f.patterns()...)
	for _, d := range f.syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := f.line(fn.End()) - f.line(fn.Pos()) + 1; n > maxFuncLines {
			out = append(out, f.problem(fn.Pos(), fmt.Sprintf("%s has %d lines, more than %d", fn.Name.Name, n, maxFuncLines)))
		}
	}
	return out
}

// patterns reports regular expressions that the package compiles at the start. Each hook would wait for that, because a
// hook is a start of the program.
func (f file) patterns() []Problem {
	name := f.importName("regexp")
	if name == "" || strings.HasPrefix(f.path, "internal/test/") || strings.HasSuffix(f.dir(), "test") {
		return nil // no program links these
	}
	var out []Problem
	for _, d := range f.syntax.Decls {
		if _, isFunc := d.(*ast.FuncDecl); isFunc {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if _, later := n.(*ast.FuncLit); later {
				return false
			}
			if isSelector(n, name, "MustCompile") {
				out = append(out, f.problem(n.Pos(), "regexp.MustCompile at the start: use sync.OnceValue"))
			}
			return true
		})
	}
	return out
}

// clocks reports every use of time.Sleep and, outside tests and wiring, every
// call of time.Now. Naming time.Now as the default of a clock field is no call.
func (f file) clocks(t Table) []Problem {
	name := f.importName("time")
	if name == "" {
		return nil
	}
	var out []Problem
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if isSelector(n, name, "Sleep") {
			out = append(out, f.problem(n.Pos(), "time.Sleep: wait for what happens, not for time to pass"))
		}
		call, ok := n.(*ast.CallExpr)
		if ok && isSelector(call.Fun, name, "Now") && !f.isTest() && !t.clocks[f.dir()] {
			out = append(out, f.problem(n.Pos(), "time.Now: take a clock, or list the package under Clocks in "+TablePath))
		}
		return true
	})
	return out
}

// importName returns the name by which the file calls a package of the standard
// library, or "" where it does not import it.
func (f file) importName(imported string) string {
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(imported)
	}
	return ""
}

func isSelector(n ast.Node, pkg, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}
