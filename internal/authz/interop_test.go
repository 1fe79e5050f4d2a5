package authz

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func sshKeygen(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	return path
}

// privateCopy copies a test key to a place in which ssh-keygen accepts it.
func privateCopy(t testing.TB, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "testdata", "keys", name)))(t)
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// opensshVerifies asks the real ssh-keygen, at a time that the test chooses.
func opensshVerifies(t testing.TB, dir, allowed, armored, principal, namespace string, payload []byte, at time.Time) error {
	t.Helper()
	trustFile, sigFile := filepath.Join(dir, "allowed_signers"), filepath.Join(dir, "sig")
	require.NoError(t, os.WriteFile(trustFile, []byte(allowed), 0o600))
	require.NoError(t, os.WriteFile(sigFile, []byte(armored), 0o600))
	cmd := exec.Command(sshKeygen(t), "-Y", "verify", "-f", trustFile, "-I", principal, "-n", namespace, "-s", sigFile,
		"-O", "verify-time="+at.UTC().Format("20060102150405Z"))
	cmd.Stdin = bytes.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestSignedBySSHKeygen(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	for _, name := range mutatedKeys {
		for _, hash := range []string{"sha512", "sha256"} {
			cmd := exec.Command(sshKeygen(t), "-Y", "sign", "-n", "operational@gated", "-O", "hashalg="+hash, "-f", privateCopy(t, name))
			cmd.Stdin = bytes.NewReader(payload)
			armored := must.Get(cmd.Output())(t)
			got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{string(armored)}}, issued)
			require.NoError(t, err, "%s %s", name, hash)
			require.Len(t, got.Signers, 1)
		}
	}
}

// TestLinesThatBothRead shows that an accepted line means the same to ssh-keygen,
// which has another parser.
func TestLinesThatBothRead(t *testing.T) {
	t.Parallel()
	alice, payload, dir := testKey(t, "alice"), encode(t, testPayload), t.TempDir()
	key := publicText(t, "alice")
	armored := mint.Sign(t, alice, "operational@gated", payload).Armored()
	for _, c := range []struct{ line, principal string }{
		{`alice namespaces="operational@gated" KEY`, "alice"},
		{"\t alice \t namespaces=\"operational@gated\"\t \tKEY\tcomment", "alice"},
		{`"alice" namespaces="operational@gated" KEY`, "alice"},
		{`"alice smith" namespaces="operational@gated" KEY`, "alice smith"},
		{`"#alice" namespaces="operational@gated" KEY`, "#alice"},
		{`al\ice namespaces="operational@gated" KEY`, `al\ice`},
		{`ålice@example.com namespaces="operational@gated" KEY`, "ålice@example.com"},
		{strings.Repeat("a", 255) + ` namespaces="operational@gated" KEY`, strings.Repeat("a", 255)},
		{`alice namespaces="git,operational@gated,` + strings.Repeat("n", 255) + `" KEY`, "alice"},
		{`alice valid-after="20310504120000Z",namespaces="operational@gated",valid-before="203105041201Z" KEY`, "alice"},
		{"# one\n\n \nbob namespaces=\"git\" KEY\nalice namespaces=\"operational@gated\" KEY", "alice"},
	} {
		allowed := strings.ReplaceAll(c.line, "KEY", key)
		signer := must.Get(VerifyFile(payload, armored, loadTrust(t, allowed), issued))(t, c.line)
		require.Equal(t, c.principal, signer.Principal)
		require.NoError(t, opensshVerifies(t, dir, allowed, armored, c.principal, "operational@gated", payload, issued), c.line)
	}
}

// TestRefusedLinesMayBeFineForSSHKeygen fixes where gated is stricter on purpose.
// docs/formats/allowed-signers.md has these lines.
func TestRefusedLinesMayBeFineForSSHKeygen(t *testing.T) {
	t.Parallel()
	payload, dir := encode(t, testPayload), t.TempDir()
	armored := mint.Sign(t, testKey(t, "alice"), "operational@gated", payload).Armored()
	for _, line := range []string{
		`alice KEY`, `alice,bob namespaces="operational@gated" KEY`, `al* namespaces="operational@gated" KEY`,
		`alice namespaces="*@gated" KEY`, `alice namespaces="operational@gated,!git" KEY`,
		`alice Namespaces="operational@gated" KEY`, `"alice"namespaces="operational@gated" KEY`,
		`alice namespaces="operational@gated",valid-after="20310504" KEY`,
		`alice namespaces="operational@gated",valid-after="20310231Z" KEY`,
		`alice namespaces="operational@gated",valid-after="20310504UTC" KEY`,
		"alice namespaces=\"operational@gated\" KEY\x00junk",
		"alice namespaces=\"operational@gated\" KEY comment\r",
	} {
		allowed := strings.ReplaceAll(line, "KEY", publicText(t, "alice"))
		require.NoError(t, opensshVerifies(t, dir, allowed, armored, "alice", "operational@gated", payload, issued.AddDate(0, 1, 0)), line)
		must.Fail(LoadTrust([]byte(allowed)))(t, refusal.Malformed, line)
	}
}
