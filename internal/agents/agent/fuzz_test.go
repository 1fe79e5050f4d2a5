package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// FuzzTokenFile: a file holds a token or is refused without a word of what is in
// it.
func FuzzTokenFile(f *testing.F) {
	f.Add([]byte(strings.Repeat("A", TokenLen) + "\n"))
	f.Add([]byte(strings.Repeat("A", TokenLen)))
	f.Add([]byte(strings.Repeat("A", TokenLen) + "\n\n"))
	f.Add([]byte(strings.Repeat("A", TokenLen+1) + "\n"))
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "token")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		token, err := ReadTokenFile(path)
		if err != nil {
			require.Equal(t, refusal.Malformed, refusal.CodeOf(err), "%v", err)
			if len(b) > 8 {
				require.NotContains(t, err.Error(), string(b))
			}
			return
		}
		require.Len(t, token, TokenLen)
		require.Equal(t, strings.TrimSuffix(string(b), "\n"), token)
	})
}
