package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"time"
)

// shortestWait is the least that a test waits for what has to happen. A busy machine takes seconds for what an idle one does
// at once, and a wait ends as soon as it can.
const shortestWait = 30 * time.Second

// waiting are testify's functions that fail if something did not happen in time, and the place of that time.
var waiting = map[string]int{"Eventually": 2, "Eventuallyf": 2, "EventuallyWithT": 2, "EventuallyWithTf": 2}

var units = map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// durations are the constants of all packages that are one, by directory and name.
func durations(files []file) map[string]time.Duration {
	constants := map[string]time.Duration{}
	for _, f := range files {
		for _, d := range f.syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						if d, ok := f.duration(v.Values[i], nil); ok {
							constants[f.dir()+" "+name.Name] = d
						}
					}
				}
			}
		}
	}
	return constants
}

// waits reports what waits for success for less than shortestWait. A time that is no constant of the package is not known.
func waits(files []file) (out []Problem) {
	constants := durations(files)
	for _, f := range files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name, limit := f.wait(n)
			if limit == nil {
				return true
			}
			if d, ok := f.duration(limit, constants); ok && d < shortestWait {
				out = append(out, f.problem(limit.Pos(), fmt.Sprintf("%s waits for %s: a busy machine needs %s", name, d, shortestWait)))
			}
			return true
		})
	}
	return out
}

// wait returns the limit of a wait that fails the test after it; nil if the node is none.
func (f file) wait(n ast.Node) (name string, limit ast.Expr) {
	switch n := n.(type) {
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return "", nil
		}
		if at, ok := waiting[sel.Sel.Name]; ok && at < len(n.Args) {
			return sel.Sel.Name, n.Args[at]
		}
		if f.isTest() && len(n.Args) == 1 && slices.Contains([]string{"SetDeadline", "SetReadDeadline"}, sel.Sel.Name) { // (time.Now().Add(limit))
			if add, ok := n.Args[0].(*ast.CallExpr); ok && len(add.Args) == 1 {
				return sel.Sel.Name, add.Args[0]
			}
		}
	case *ast.CommClause: // case <-time.After(limit): t.Fatal()
		received, ok := n.Comm.(*ast.ExprStmt)
		if !ok || !slices.ContainsFunc(n.Body, fails) {
			return "", nil
		}
		from, ok := received.X.(*ast.UnaryExpr)
		if !ok {
			return "", nil
		}
		after, ok := from.X.(*ast.CallExpr)
		if ok && len(after.Args) == 1 && isSelector(after.Fun, f.importName("time"), "After") {
			return "time.After", after.Args[0]
		}
	}
	return "", nil
}

// fails reports whether a statement ends a test as failed, as t.Fatal does.
func fails(s ast.Stmt) (found bool) {
	ast.Inspect(s, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			found = found || slices.Contains([]string{"Fatal", "Fatalf", "Error", "Errorf", "FailNow", "Fail", "Failf"}, sel.Sel.Name)
		}
		return !found
	})
	return found
}

// duration is the value of 2*time.Second, of time.Second, and of a constant of the package.
func (f file) duration(e ast.Expr, constants map[string]time.Duration) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return f.duration(e.X, constants)
	case *ast.Ident:
		d, ok := constants[f.dir()+" "+e.Name]
		return d, ok
	case *ast.SelectorExpr:
		d, ok := units[e.Sel.Name]
		return d, ok && isSelector(e, f.importName("time"), e.Sel.Name)
	case *ast.BinaryExpr:
		if e.Op != token.MUL {
			return 0, false
		}
		return f.product(e.X, e.Y, constants)
	}
	return 0, false
}

// product is a number times a duration, in either order.
func (f file) product(a, b ast.Expr, constants map[string]time.Duration) (time.Duration, bool) {
	if lit, ok := b.(*ast.BasicLit); ok {
		a, b = lit, a
	}
	lit, ok := a.(*ast.BasicLit)
	if !ok || lit.Kind != token.INT {
		return 0, false
	}
	n, err := strconv.ParseInt(lit.Value, 0, 64)
	d, ok := f.duration(b, constants)
	return time.Duration(n) * d, ok && err == nil
}
