package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/packages"
)

// site is a place in a file where one change makes a mutant.
type site struct {
	id     string // package.function.operator.ordinal: a change elsewhere leaves it as it is
	number int    // in this run; the switch compares it
	pkg    string // its directory from the module's root, as the command line has it: ./internal/gate
	file   string // absolute
	line   int
	lo, hi int    // bytes of the file that the change replaces
	form   form   // how a switch is written there
	typ    string // of a value, as the file names it
	old    string
	new    string
}

// form says what stands at a site.
type form int

const (
	boolean   form = iota // an expression of type bool
	value                 // another expression
	statement             // a statement that the mutant leaves out or replaces
)

// change is what the mutant at a node does.
type change struct {
	operator string
	node     ast.Node
	form     form
	typ      string
	new      string
}

// unit is a package whose files are searched for sites.
type unit struct {
	*packages.Package
	name    string // in ids: the last element of the path
	path    string // ./internal/gate
	sources map[string][]byte
	sites   []*site
}

// search type-checks packages, and finds every site in their files that are no tests.
func search(root string, paths []string) ([]*unit, error) {
	config := &packages.Config{Dir: root, Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedModule}
	loaded, err := packages.Load(config, paths...)
	if err != nil {
		return nil, err
	}
	var units []*unit
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		u := &unit{Package: p, name: filepath.Base(p.PkgPath), path: "." + strings.TrimPrefix(p.PkgPath, p.Module.Path), sources: map[string][]byte{}}
		for _, name := range p.GoFiles {
			if u.sources[name], err = os.ReadFile(name); err != nil {
				return nil, err
			}
		}
		u.find()
		units = append(units, u)
	}
	return units, nil
}

// find walks all functions in the order of the files.
func (u *unit) find() {
	ordinals := map[string]int{}
	for c := range inspector.New(u.Syntax).Root().Preorder() {
		changes := u.changes(c)
		if len(changes) == 0 || constantDecl(c) {
			continue
		}
		in := function(c)
		for _, ch := range changes {
			from, to := u.Fset.Position(ch.node.Pos()), u.Fset.Position(ch.node.End())
			key := u.name + "." + in + "." + ch.operator
			ordinals[key]++
			u.sites = append(u.sites, &site{id: fmt.Sprintf("%s.%d", key, ordinals[key]), pkg: u.path, file: from.Filename, line: from.Line,
				lo: from.Offset, hi: to.Offset, form: ch.form, typ: ch.typ, old: u.text(ch.node), new: ch.new})
		}
	}
}

func (u *unit) text(n ast.Node) string {
	from, to := u.Fset.Position(n.Pos()), u.Fset.Position(n.End())
	return string(u.sources[from.Filename][from.Offset:to.Offset])
}

// function names what a node is in: Type.method, a function, or the variable that it initialises.
func function(c inspector.Cursor) string {
	for e := range c.Enclosing((*ast.FuncDecl)(nil)) {
		fn := e.Node().(*ast.FuncDecl)
		if fn.Recv == nil {
			return fn.Name.Name
		}
		t := fn.Recv.List[0].Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		if generic, ok := t.(*ast.IndexExpr); ok {
			t = generic.X
		}
		return fmt.Sprint(t) + "." + fn.Name.Name
	}
	outer := "-"
	for e := range c.Enclosing((*ast.ValueSpec)(nil)) {
		outer = e.Node().(*ast.ValueSpec).Names[0].Name
	}
	return outer
}

func constantDecl(c inspector.Cursor) bool {
	for e := range c.Enclosing((*ast.GenDecl)(nil)) {
		if e.Node().(*ast.GenDecl).Tok == token.CONST {
			return true
		}
	}
	return false
}

// changes returns every change that the operators make at a node.
func (u *unit) changes(c inspector.Cursor) (out []change) {
	where, _ := c.ParentEdge()
	switch n := c.Node().(type) {
	case *ast.ReturnStmt:
		out = u.forgetError(n)
	case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt:
		if inList(where) && removable(n) {
			out = append(out, change{"remove", n, statement, "", ""})
		}
	case *ast.BinaryExpr:
		if u.isBool(n) {
			out = u.otherOperator(n)
		}
	case *ast.BasicLit:
		out = u.otherNumber(c, n)
	}
	e, ok := c.Node().(ast.Expr)
	if !ok {
		return out
	}
	if u.isBool(e) {
		if v := u.TypesInfo.Types[e].Value; v != nil {
			if id, ok := e.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
				out = append(out, change{"bool", e, boolean, "", fmt.Sprint(!constant.BoolVal(v))})
			}
		} else if isCondition(c) {
			out = append(out, change{"negate", e, boolean, "", "!(" + u.text(e) + ")"})
		}
	}
	if where == edge.CaseClause_List {
		out = append(out, u.noCase(c, e)...)
	}
	return out
}

// isBool reports whether e is of type bool itself: a switch of that type fits there.
func (u *unit) isBool(e ast.Expr) bool {
	tv, ok := u.TypesInfo.Types[e]
	return ok && tv.IsValue() && (tv.Type == types.Typ[types.Bool] || tv.Type == types.Typ[types.UntypedBool])
}

// isCondition reports whether something is decided by an expression as a whole, and not by its parts.
func isCondition(c inspector.Cursor) bool {
	switch n := c.Node().(type) {
	case *ast.ParenExpr:
		return false
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			return false
		}
	}
	up := c
	where, _ := up.ParentEdge()
	for where == edge.ParenExpr_X {
		up = up.Parent()
		where, _ = up.ParentEdge()
	}
	switch where {
	case edge.IfStmt_Cond, edge.ForStmt_Cond, edge.ReturnStmt_Results:
		return true
	case edge.CaseClause_List:
		return untagged(up)
	case edge.BinaryExpr_X, edge.BinaryExpr_Y:
		op := up.Parent().Node().(*ast.BinaryExpr).Op
		return op == token.LAND || op == token.LOR
	}
	return false
}

// untagged reports whether a label belongs to a switch over conditions.
func untagged(label inspector.Cursor) bool {
	s, ok := label.Parent().Parent().Parent().Node().(*ast.SwitchStmt)
	return ok && s.Tag == nil
}

// others are the operators that a slip would have written.
var others = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}

func (u *unit) otherOperator(n *ast.BinaryExpr) []change {
	to, ok := others[n.Op]
	if !ok || u.TypesInfo.Types[n].Value != nil {
		return nil
	}
	name := "boundary"
	if n.Op == token.LAND || n.Op == token.LOR {
		name = "connective"
	}
	return []change{{name, n, boolean, "", fmt.Sprintf("(%s) %s (%s)", u.text(n.X), to, u.text(n.Y))}}
}

// otherNumber makes 1 of 0, and 0 of 1, where the number need not be a constant.
func (u *unit) otherNumber(c inspector.Cursor, n *ast.BasicLit) []change {
	to, ok := map[string]string{"0": "1", "1": "0"}[n.Value]
	where, _ := c.ParentEdge()
	if !ok || where == edge.ArrayType_Len || where == edge.KeyValueExpr_Key || where == edge.CaseClause_List {
		return nil
	}
	if up, ok := c.Parent().Node().(ast.Expr); ok && u.TypesInfo.Types[up].Value != nil {
		return nil
	}
	typ, ok := u.typeName(n)
	if !ok {
		return nil
	}
	return []change{{"number", n, value, typ, to}}
}

// noCase leaves out one label of a switch over conditions, texts or numbers.
func (u *unit) noCase(c inspector.Cursor, e ast.Expr) []change {
	if untagged(c) {
		return []change{{"case", e, boolean, "", "false"}}
	}
	typ, ok := u.typeName(e)
	if !ok || !u.TypesInfo.Types[e].IsValue() {
		return nil
	}
	never := typ + `("\x00no such case")`
	if u.TypesInfo.TypeOf(e).Underlying().(*types.Basic).Info()&types.IsString == 0 {
		never = "^" + typ + "(0)"
	}
	return []change{{"case", e, value, typ, never}}
}

// typeName is the type of a text or an integer as its file can name it.
func (u *unit) typeName(e ast.Expr) (string, bool) {
	t := u.TypesInfo.TypeOf(e)
	b, ok := t.Underlying().(*types.Basic)
	if !ok || b.Info()&(types.IsInteger|types.IsString) == 0 || b.Info()&types.IsUntyped != 0 {
		return "", false
	}
	imported := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == u.Types {
			return ""
		}
		file := u.sources[u.Fset.Position(e.Pos()).Filename]
		imported = strings.Contains(string(file), "\t\""+p.Path()+"\"\n")
		return p.Name()
	})
	_, isParam := t.(*types.TypeParam)
	return name, imported && !isParam
}

// forgetError returns nil in the place of an error.
func (u *unit) forgetError(n *ast.ReturnStmt) []change {
	if len(n.Results) == 0 {
		return nil
	}
	last := n.Results[len(n.Results)-1]
	tv := u.TypesInfo.Types[last]
	failure := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	if tv.IsNil() || !tv.IsValue() || !types.Implements(tv.Type, failure) {
		return nil
	}
	switch tv.Type.Underlying().(type) {
	case *types.Pointer, *types.Interface:
	default:
		return nil
	}
	var values []string
	for _, r := range n.Results[:len(n.Results)-1] {
		values = append(values, u.text(r))
	}
	return []change{{"error", n, statement, "", fmt.Sprintf("_ = %s; return %s", u.text(last), strings.Join(append(values, "nil"), ", "))}}
}

func inList(where edge.Kind) bool {
	return where == edge.BlockStmt_List || where == edge.CaseClause_Body || where == edge.CommClause_Body
}

// removable reports whether what follows a statement compiles without it.
func removable(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, ok := n.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		return !ok || id.Name != "panic"
	case *ast.AssignStmt:
		blank := !slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { id, ok := e.(*ast.Ident); return !ok || id.Name != "_" })
		return n.Tok != token.DEFINE && !blank
	}
	return true
}

// sample returns n of all sites: those whose ids have the smallest digests. A new site takes the place of at most one.
func sample(units []*unit, n int) []*site {
	var all []*site
	for _, u := range units {
		all = append(all, u.sites...)
	}
	digest := func(s *site) string { sum := sha256.Sum256([]byte(s.id)); return string(sum[:]) }
	slices.SortFunc(all, func(a, b *site) int { return cmp.Compare(digest(a), digest(b)) })
	all = all[:min(n, len(all))]
	for i, s := range all {
		s.number = i + 1
	}
	return all
}
