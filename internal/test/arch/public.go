package arch

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// named reports exported declarations of a package that other modules import, if they name what is below internal/:
// those modules could not name it. An alias gives it a name that they can use.
func (f file) named() []Problem {
	if f.isTest() || !strings.HasPrefix(f.dir()+"/", "client/") {
		return nil
	}
	hidden := map[string]string{} // the name of an import to its path
	for _, spec := range f.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err == nil && strings.HasPrefix(imported, module+"internal/") {
			hidden[f.importName(imported)] = imported
		}
	}
	var out []Problem
	for _, d := range f.syntax.Decls {
		for _, typ := range exportedTypes(d) {
			ast.Inspect(typ, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && hidden[x.Name] != "" {
					what := x.Name + "." + sel.Sel.Name
					out = append(out, f.problem(sel.Pos(), "an exported declaration names "+what+", which other modules cannot name"))
				}
				return false
			})
		}
	}
	return out
}

// exportedTypes returns the types that an exported declaration names: of parameters, results, exported fields, constants
// and variables. An alias is not among them.
func exportedTypes(d ast.Decl) (out []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			out = append(out, d.Type)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, ofType(s)...)
			case *ast.ValueSpec:
				if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
					out = append(out, s.Type)
				}
			}
		}
	}
	return out
}

func ofType(s *ast.TypeSpec) (out []ast.Node) {
	if !s.Name.IsExported() || s.Assign.IsValid() {
		return nil
	}
	of, ok := s.Type.(*ast.StructType)
	if !ok {
		return []ast.Node{s.Type}
	}
	for _, field := range of.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			out = append(out, field.Type)
		}
	}
	return out
}
