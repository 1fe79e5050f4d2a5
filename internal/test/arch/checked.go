package arch

import (
	"go/ast"
	"strings"
)

// opens lists the calls by which a test gets a database that a gate lives in.
var opens = []struct{ imported, name string }{
	{module + "internal/base/store", "Open"},
	{module + "internal/host/daemon", "Serve"},
}

// unchecked begins the comment that says why a database is not checked when its
// test has ended, on the line before the call.
const unchecked = "//fsck:none "

// checked reports tests that open a database without having it checked when they
// have ended: by fscktest or storetest, which open it themselves, or by naming
// why not. The store's own tests are about what is below that.
func (f file) checked() []Problem {
	if !f.isTest() || f.dir() == "internal/base/store" || strings.HasPrefix(f.dir(), "internal/base/store/") {
		return nil
	}
	said := map[int]bool{} // lines that a reason stands before
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if why, ok := strings.CutPrefix(c.Text, unchecked); ok && strings.TrimSpace(why) != "" {
				said[f.line(c.Pos())+1] = true
			}
		}
	}
	var out []Problem
	for _, o := range opens {
		name := f.importName(o.imported)
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if name != "" && isSelector(n, name, o.name) && !said[f.line(n.Pos())] {
				out = append(out, f.problem(n.Pos(), name+"."+o.name+" in a test: open it with fscktest or storetest, or say before it why it is not checked: "+unchecked+"WHY"))
			}
			return true
		})
	}
	return out
}
