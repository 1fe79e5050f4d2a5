package authz

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestNothingHereSigns reads the package's files in the test, so that a cached
// result cannot pass.
func TestNothingHereSigns(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("*.go"))(t)
	var checked int
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		checked++
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		for _, imp := range file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if strings.HasPrefix(path, "gated/") {
				require.Contains(t, []string{"gated/internal/base/op", "gated/internal/base/refusal"}, path, name)
			}
			require.NotContains(t, path, "ssh/agent", name)
			require.NotEqual(t, "crypto/rand", path, name)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				require.False(t, makesSignatures(id.Name), "%s names %s", name, id.Name)
			}
			return true
		})
	}
	require.Greater(t, checked, 5)
}

// makesSignatures knows the names in ssh, sshsig and crypto that sign or have
// private keys.
func makesSignatures(name string) bool {
	return name == "Sign" || strings.HasPrefix(name, "SignWith") || strings.HasPrefix(name, "NewSigner") ||
		strings.HasPrefix(name, "Parse") && strings.Contains(name, "Private") || name == "PrivateKey"
}
