package sign

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestPublicKeyFile(t *testing.T) {
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice@example.com\n"
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "id.pub")
	require.NoError(t, os.WriteFile(path, []byte(line), 0o644))
	id := must.Get(PublicKeyFile(path))(t)
	require.Equal(t, ssh.FingerprintSHA256(key), id.Fingerprint)
	require.Equal(t, "ssh-ed25519", id.KeyType)
	require.Equal(t, "alice@example.com", id.Comment)
	require.Nil(t, id.Refused)
}

func TestPublicKeyFileRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := PublicKeyFile(filepath.Join(dir, "none.pub"))
	require.ErrorIs(t, err, refusal.Unavailable)
	path := filepath.Join(dir, "x.pub")
	require.NoError(t, os.WriteFile(path, []byte("secret text\n"), 0o600))
	_, err = PublicKeyFile(path)
	require.ErrorIs(t, err, refusal.Malformed)
	require.NotContains(t, err.Error(), "secret text")
}
