package passkeytest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// KeygenVerifies returns the error of ssh-keygen -Y verify over a signature by the signer
// whose line is given. The test is skipped without ssh-keygen.
func KeygenVerifies(t testing.TB, line, principal, namespace, armored string, message []byte) error {
	t.Helper()
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("needs ssh-keygen (Debian: openssh-client)")
	}
	dir := t.TempDir()
	list, sig := filepath.Join(dir, "allowed_signers"), filepath.Join(dir, "sig")
	require.NoError(t, os.WriteFile(list, []byte(line+"\n"), 0o600))
	require.NoError(t, os.WriteFile(sig, []byte(armored), 0o600))
	cmd := exec.Command(program, "-Y", "verify", "-f", list, "-I", principal, "-n", namespace, "-s", sig)
	cmd.Stdin = bytes.NewReader(message)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
