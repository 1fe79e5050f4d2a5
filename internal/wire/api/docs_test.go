package api

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table for people is the table.
func TestDocumentedCodes(t *testing.T) {
	b, err := os.ReadFile("../../../docs/formats/http-api.md")
	require.NoError(t, err)
	for _, m := range Codes {
		require.Contains(t, string(b), fmt.Sprintf("| `%s` | %d | %d | %s |\n", m.Code, m.Status, m.Exit, m.Title))
	}
}
