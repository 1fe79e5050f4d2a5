package sign

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var keyNames = []string{"alice", "ecdsa-p256", "rsa-3072"}

func payload(t testing.TB) []byte {
	t.Helper()
	issued := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	b := must.Get(op.Payload{
		Gate: "00112233445566778899aabbccddeeff", Host: "pve1", Op: "guest.destroy",
		Target: op.Target{Kind: "guest", Name: "web-1"}, Incarnation: "i", State: op.FingerprintOf(nil),
		Params: op.Params{}, Nonce: "AAECAwQFBgcICQoLDA0ODw", IssuedAt: issued, ExpiresAt: issued.Add(time.Hour),
	}.Encode())(t)
	return b
}

func rejection(t testing.TB) []byte {
	t.Helper()
	issued := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	b := must.Get(op.Rejection{
		Gate: "00112233445566778899aabbccddeeff", Host: "pve1", Request: op.RequestID{Job: 1, Index: 1},
		PayloadSHA256: op.SHA256(nil), Nonce: "AAECAwQFBgcICQoLDA0ODw", IssuedAt: issued, ExpiresAt: issued.Add(time.Hour),
	}.Encode())(t)
	return b
}

// privateCopy copies a test key to where its mode is one that is accepted.
func privateCopy(t testing.TB, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "testdata", "keys", name)))(t)
	return keyFile(t, b)
}

func keyFile(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not installed")
	}
	return path
}

// opensshVerifies asks the real ssh-keygen.
func opensshVerifies(t testing.TB, key ssh.PublicKey, role op.Role, payload []byte, armored string) error {
	t.Helper()
	dir := t.TempDir()
	allowed, sig := filepath.Join(dir, "allowed_signers"), filepath.Join(dir, "sig")
	line := fmt.Sprintf("alice namespaces=%q %s", role.Namespace(), ssh.MarshalAuthorizedKey(key))
	require.NoError(t, os.WriteFile(allowed, []byte(line), 0o600))
	require.NoError(t, os.WriteFile(sig, []byte(armored), 0o600))
	cmd := exec.Command(program(t, "ssh-keygen"), "-Y", "verify", "-f", allowed, "-I", "alice", "-n", role.Namespace(), "-s", sig)
	cmd.Stdin = bytes.NewReader(payload)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func refused(t testing.TB, err error, code refusal.Code, says string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, refusal.CodeOf(err), "%v", err)
	require.Contains(t, refusal.As(err).Detail, says)
}
