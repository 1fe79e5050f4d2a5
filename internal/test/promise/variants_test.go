package promise_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/plant"
	"gated/internal/test/promise"
)

// One build has all faults: beside each function that a fault changes stands the changed one, and a file says at the start of
// a program which of them is called. A build for each fault would take an hour in the place of minutes.

// source is a parsed file of the product.
type source struct {
	text    string
	syntax  *ast.File
	funcs   map[string]*ast.FuncDecl // by receiver and name
	imports []string
	rest    string // what is neither a function nor an import
}

func parse(t *testing.T, name, text string) source {
	t.Helper()
	s := source{text: text, funcs: map[string]*ast.FuncDecl{},
		syntax: must.Get(parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution))(t, name)}
	from := 0
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			key := d.Name.Name
			if d.Recv != nil {
				key = s.of(d.Recv.List[0].Type) + "." + key
			}
			s.funcs[key] = d
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				continue
			}
		}
		s.rest += text[from : d.Pos()-1]
		from = int(d.End() - 1)
	}
	s.rest += text[from:]
	for _, i := range s.syntax.Imports {
		s.imports = append(s.imports, s.of(i))
	}
	return s
}

// of returns the text of a part of the file.
func (s source) of(n ast.Node) string { return s.text[n.Pos()-1 : n.End()-1] }

// renamed returns a function of the file under another name.
func (s source) renamed(d *ast.FuncDecl, number int) string {
	end := d.Name.End() - 1
	return s.text[d.Pos()-1:end] + variant("", number) + s.text[end:d.End()-1]
}

// variant is the name of a function as a fault has it; number 0 is the function of the product.
func variant(name string, number int) string { return name + "Planted" + strconv.Itoa(number) }

// withVariants returns a file in which the chosen fault says which of its functions run. others are its texts with a fault, by number.
func withVariants(t *testing.T, name string, text string, others map[int]string) string {
	t.Helper()
	was, more, changed := parse(t, name, text), "", map[string][]int{}
	imports := map[string]bool{}
	for _, number := range slices.Sorted(maps.Keys(others)) {
		is := parse(t, name, others[number])
		require.Equal(t, was.rest, is.rest, "%s: a fault changes functions alone", name)
		for _, i := range is.imports {
			imports[i] = !slices.Contains(was.imports, i) || imports[i]
		}
		for key, d := range is.funcs {
			require.Contains(t, was.funcs, key)
			if is.of(d) != was.of(was.funcs[key]) {
				more += "\n" + is.renamed(d, number) + "\n"
				changed[key] = append(changed[key], number)
			}
		}
	}
	out := []byte(text)
	for _, key := range slices.SortedFunc(maps.Keys(changed), func(a, b string) int { return int(was.funcs[b].Pos() - was.funcs[a].Pos()) }) {
		end := was.funcs[key].Name.End() - 1
		out = slices.Insert(out, int(end), []byte(variant("", 0))...)
		more += was.chooser(was.funcs[key], changed[key])
	}
	add := ""
	for i, isNew := range imports {
		if isNew {
			add += "\nimport " + i
		}
	}
	return string(slices.Insert(out, int(was.syntax.Name.End()-1), []byte(add)...)) + more
}

// chooser is the function that calls one of its variants.
func (s source) chooser(d *ast.FuncDecl, numbers []int) string {
	var params, args []string
	for _, p := range d.Type.Params.List {
		for range max(1, len(p.Names)) {
			arg, dots := fmt.Sprintf("arg%d", len(args)), ""
			if _, ok := p.Type.(*ast.Ellipsis); ok {
				dots = "..."
			}
			params, args = append(params, arg+" "+s.of(p.Type)), append(args, arg+dots)
		}
	}
	head, call, results, give := "\nfunc ", "", "", ""
	if d.Recv != nil {
		head, call = "\nfunc (self "+s.of(d.Recv.List[0].Type)+") ", "self."
	}
	if d.Type.Results != nil {
		results, give = " "+s.of(d.Type.Results), "return "
	}
	out := head + d.Name.Name + "(" + strings.Join(params, ", ") + ")" + results + " {\n\tswitch plantedFault {\n"
	for _, n := range append(slices.Clone(numbers), 0) {
		if n > 0 {
			out += fmt.Sprintf("\tcase %d:\n", n)
		} else {
			out += "\tdefault:\n"
		}
		out += "\t\t" + give + call + variant(d.Name.Name, n) + "(" + strings.Join(args, ", ") + ")\n"
	}
	return out + "\t}\n}\n"
}

// overlaid writes the files of a product that has every fault, and returns the file that go build is told of them by, and the
// file that has the number of the chosen fault, from 1; 0 is none.
func overlaid(t *testing.T, faults []promise.Fault) (overlay, choice string) {
	dir, all, others := t.TempDir(), map[string]string{}, map[string]map[int]string{}
	choice = filepath.Join(dir, "choice")
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // programs of other users read the choice, and t.TempDir lets its owner alone in
	for i, f := range faults {
		for name, text := range edited(t, f) {
			if others[name] == nil {
				others[name] = map[int]string{}
			}
			others[name][i+1] = text
		}
	}
	for name, texts := range others {
		text := string(must.Get(os.ReadFile(name))(t))
		all[name] = withVariants(t, name, text, texts)
		all[filepath.Join(filepath.Dir(name), "planted.go")] = fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
)

var plantedFault = func() int {
	number, _ := os.ReadFile(%q)
	n, _ := strconv.Atoi(string(number))
	return n
}()
`, parse(t, name, text).syntax.Name.Name, choice)
	}
	return must.Get(plant.Overlay(dir, all))(t), choice
}
