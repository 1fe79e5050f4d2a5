package ownfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// FuzzToken: what is read of a file can stand in a header as it is.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"0123456789abcdef\n", "short", "0123456789abcdef\r\n", "0123456789abcdef\x00", "0123456789 abcdef"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "token")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		token, err := ownfile.ReadToken(path)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Regexp(t, `^[!-~]+$`, token)
		require.GreaterOrEqual(t, len(token), 16)
		require.LessOrEqual(t, len(token), 1024)
		require.Contains(t, []string{token, token + "\n"}, string(b))
	})
}
