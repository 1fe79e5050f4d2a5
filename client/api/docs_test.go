package api

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// The table for people is the table.
func TestDocumentedCodes(t *testing.T) {
	b := must.Get(os.ReadFile("../../docs/formats/http-api.md"))(t)
	for _, m := range Codes {
		require.Contains(t, string(b), fmt.Sprintf("| `%s` | %d | %d | %s |\n", m.Code, m.Status, m.Exit, m.Title))
	}
}
