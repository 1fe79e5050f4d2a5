package authz_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// TestCertifiedBySSHKeygen uses ssh-keygen's own keys, certificates and signatures,
// with options that a CA may set.
func TestCertifiedBySSHKeygen(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir, payload := t.TempDir(), payloadOf(t)
	keygen := func(args ...string) []byte {
		cmd := exec.Command("ssh-keygen", args...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(payload)
		out := must.Get(cmd.Output())(t, "%v", args)
		return out
	}
	for _, ca := range []mint.Key{mint.Ed25519(t, "ca-ed"), mint.RSA(t, "ca-rsa", 3072), mint.ECDSA(t, "ca-ec", 521)} {
		ca.WriteFile(t, dir)
		trust := loaded(t, ca.Line(anybody, asAuthority))
		for _, key := range []mint.Key{mint.Ed25519(t, "alice"), mint.RSA(t, "erin", 3072), mint.ECDSA(t, "bob", 256)} {
			key.WriteFile(t, dir)
			for name, options := range map[string][]string{
				"usual":    nil,
				"times":    {"-V", "20310504000000Z:20310505000000Z"},
				"empty":    {"-O", "clear"},
				"options":  {"-O", "no-touch-required", "-O", "extension:note@example.com=x", "-O", "extension:a@example.com", "-z", "18446744073709551615"},
				"no touch": {"-O", "clear", "-O", "no-touch-required"},
			} {
				keygen(append([]string{"-q", "-s", ca.Name, "-I", "an id", "-n", key.Name + "@example.com"}, append(options, key.Name+".pub")...)...)
				armored := keygen("-Y", "sign", "-q", "-n", nsOperational, "-f", key.Name+"-cert.pub")
				got, err := verifier(trust).Approval(authz.Envelope{Payload: payload, Signatures: []string{string(armored)}}, noon)
				require.NoError(t, err, "%s of %s by %s", name, key.Name, ca.Name)
				require.Equal(t, key.Name+"@example.com", got.Signers[0].Principal)
				require.Equal(t, key.Fingerprint(), got.Signers[0].Key)
				require.Equal(t, ca.Fingerprint(), got.Signers[0].CA)
				if name == "options" {
					require.Equal(t, uint64(1<<64-1), got.Signers[0].Serial)
				}
			}
			text := must.Get(os.ReadFile(filepath.Join(dir, key.Name+"-cert.pub")))(t)
			armored := keygen("-Y", "sign", "-q", "-n", nsOperational, "-f", key.Name+"-cert.pub")
			_, err := verifier(trust.WithRevoked(revoking(t, string(text)))).Approval(authz.Envelope{Payload: payload, Signatures: []string{string(armored)}}, noon)
			refusedAs(t, err, refusal.SignerRevoked, refusal.StageAllowList)
		}
	}
}
