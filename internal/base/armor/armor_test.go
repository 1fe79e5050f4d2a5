package armor_test

import (
	"bytes"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/armor"
)

// TestSignature: every blob comes back, in lines of 70 characters of which the last alone may be shorter.
func TestSignature(t *testing.T) {
	for n := range 300 {
		blob := bytes.Repeat([]byte{byte(n)}, n)
		text := armor.Signature(blob)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		require.Equal(t, "-----BEGIN SSH SIGNATURE-----", lines[0])
		require.Equal(t, "-----END SSH SIGNATURE-----", lines[len(lines)-1])
		for i, line := range lines[1 : len(lines)-1] {
			require.NotEmpty(t, line)
			require.LessOrEqual(t, len(line), 70)
			require.True(t, len(line) == 70 || i == len(lines)-3, "%d bytes", n)
		}
		block, rest := pem.Decode([]byte(text))
		require.NotNil(t, block, "%d bytes", n)
		require.Empty(t, rest)
		require.True(t, bytes.Equal(blob, block.Bytes), "%d bytes", n)
	}
}
