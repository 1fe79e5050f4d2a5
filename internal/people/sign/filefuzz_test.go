package sign

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// FuzzKeyFiles: a file that somebody names as a public key, a certificate or a
// private key is that, or is refused without a word of what is in it.
func FuzzKeyFiles(f *testing.F) {
	key, ca := mint.Ed25519(f, "alice"), mint.Ed25519(f, "ca")
	f.Add([]byte(key.Text() + " alice\n"))
	f.Add([]byte("# a comment\n\nno key\n" + ca.Text() + "\n" + key.Text()))
	private := must.Get(os.ReadFile(key.WriteFile(f, f.TempDir())))(f)
	f.Add(private)
	f.Add(private[:len(private)/2])
	f.Add([]byte("-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0IHNlY3JldCBzZWNyZXQ=\n-----END OPENSSH PRIVATE KEY-----\n"))
	path := filepath.Join(f.TempDir(), "key")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		id, _, err := readPublic(path)
		known(t, err, b)
		if err == nil && id.Refused == nil {
			require.Equal(t, id.Fingerprint, identify(id.Blob, "").Fingerprint)
		}
		c, err := ReadCertificate(path)
		known(t, err, b)
		if err == nil {
			require.Len(t, c.Principals, 1)
		}
		s, err := KeyFile(path, nil)
		known(t, err, b)
		if err == nil {
			require.True(t, bytes.Contains(b, []byte("PRIVATE KEY-----")))
			require.NotEmpty(t, s.Fingerprint())
		}
	})
}

// known wants an error to be a refusal that quotes nothing of a file.
func known(t *testing.T, err error, content []byte) {
	t.Helper()
	if err == nil {
		return
	}
	require.Contains(t, []refusal.Code{refusal.Malformed, refusal.UnknownSigner, refusal.WeakKey, refusal.NotAllowed, refusal.BadSignature, refusal.SignerExpired}, refusal.CodeOf(err), "%v", err)
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) > 16 {
			require.NotContains(t, err.Error(), string(line))
		}
	}
}
