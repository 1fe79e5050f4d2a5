package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// The kinds that a command line knows are those that the log has, and those that
// its format describes.
func TestTheKindsOfEntries(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../log/audit/audit.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var kinds []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
			for _, value := range spec.Values {
				text := must.Get(strconv.Unquote(value.(*ast.BasicLit).Value))(t)
				kinds = append(kinds, text)
			}
		}
		return true
	})
	require.Contains(t, kinds, string(audit.Approved))
	require.ElementsMatch(t, kinds, api.EntryKinds)
	for _, tr := range op.Transitions {
		require.Contains(t, kinds, tr.Entry, "no entry of the log tells of a step that becomes %s", tr.To)
	}

	format := must.Get(os.ReadFile("../../../docs/formats/audit.md"))(t)
	_, table, ok := strings.Cut(string(format), "| kind | means |")
	require.True(t, ok)
	for _, kind := range kinds {
		require.Contains(t, table, "`"+kind+"`")
	}
}
