package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// constants returns the names of the constants of a type in a file.
func constants(t *testing.T, path, typ string) (names []string) {
	t.Helper()
	f := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if is, ok := v.Type.(*ast.Ident); ok && is.Name == typ && v.Names[0].IsExported() {
				names = append(names, v.Names[0].Name)
			}
		}
		return true
	})
	require.NotEmpty(t, names, typ)
	return names
}

// Each value of a noun has a name that other modules can use.
func TestEveryNounHasAName(t *testing.T) {
	text := strings.Join(strings.Fields(string(must.Get(os.ReadFile("nouns.go"))(t))), " ")
	const base = "../../internal/base/"
	for _, c := range []struct{ path, typ, from string }{
		{base + "refusal/refusal.go", "Code", " = refusal."}, {base + "refusal/refusal.go", "Stage", " = refusal."},
		{base + "op/job.go", "State", " = op."},
		{base + "op/observe.go", "Class", " = op."}, {base + "op/requirement.go", "Role", " = op."},
		{base + "op/requirement.go", "Touch", " = op."}, {base + "op/catalogue.go", "Type", " = op."},
	} {
		for _, name := range constants(t, c.path, c.typ) {
			require.True(t, strings.Contains(text, c.from+name+" "), name)
		}
	}
}
