package authz

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// vectorDir has OpenSSH's own signature vectors beside a checkout, if the machine
// has them. They are not copied here. Minted signatures show the same.
var vectorDir = filepath.Join("..", "..", "..", "shared", "data", "openssh-vectors")

// vector is one of OpenSSH's signatures over its message.
type vector struct {
	armored, public    string
	message, namespace string
}

// vectors returns nil if the machine does not have them.
func vectors(t *testing.T, names ...string) map[string]vector {
	t.Helper()
	if _, err := os.Stat(vectorDir); err != nil {
		require.ErrorIs(t, err, os.ErrNotExist, "they are there or they are not")
		t.Logf("%s is not there", vectorDir)
		return nil
	}
	read := func(name string) string {
		b := must.Get(os.ReadFile(filepath.Join(vectorDir, name)))(t)
		return string(b)
	}
	out := map[string]vector{}
	for _, name := range names {
		out[name] = vector{armored: read(name + ".sig"), public: strings.TrimSpace(read(name + ".pub")),
			message: read("signed-data"), namespace: read("namespace")}
	}
	return out
}

// verify checks form and mathematics. The other stages accept only namespaces of
// roles, and gated's payloads.
func (v vector) verify(armored, message string) (signature, error) {
	s, err := parseSignature(armored)
	switch {
	case err != nil:
		return s, err
	case s.barred != nil:
		return s, s.barred
	case s.namespace != v.namespace:
		return s, refusal.New(refusal.NamespaceMismatch, "another namespace")
	}
	return s, s.checkCrypto([]byte(message))
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for name, v := range vectors(t, "rsa", "ecdsa", "ed25519", "ecdsa_sk", "ed25519_sk", "ecdsa_sk_webauthn") {
		s := must.Get(v.verify(v.armored, v.message))(t, name)
		trust := must.Get(LoadTrust([]byte(`unit namespaces="`+v.namespace+`" `+v.public)))(t, name)
		require.Len(t, trust.Signers(), 1)
		require.Equal(t, ssh.FingerprintSHA256(s.key), trust.Signers()[0].Key, name)
		if strings.HasSuffix(name, "_sk") {
			require.Equal(t, &op.Attested{Flags: op.FlagPresent, Counter: 0x12345678}, attestedBy(s.key, s.inner), name)
		}
		if name == "ecdsa_sk_webauthn" {
			require.Equal(t, &op.Attested{Flags: op.FlagPresent, Counter: 0x31f, Origin: "https://www.mindrot.org"}, attestedBy(s.key, s.inner))
		}
		_, err := VerifyFile(encode(t, testPayload), v.armored, trust, issued)
		require.ErrorIs(t, err, refusal.NamespaceMismatch, "%s: it is good, and no approval", name)
	}
}

func TestVectorsThatAreRefused(t *testing.T) {
	t.Parallel()
	codes := map[string]refusal.Code{"dsa": refusal.WeakKey, "mldsa44-ed25519": refusal.UnknownSigner}
	for name, v := range vectors(t, "dsa", "mldsa44-ed25519") {
		must.Fail(v.verify(v.armored, v.message))(t, codes[name], name)
		must.Fail(LoadTrust([]byte(`unit namespaces="`+v.namespace+`" `+v.public)))(t, refusal.Malformed, name)
	}
}

func TestEveryBitOfVectorsCounts(t *testing.T) {
	t.Parallel()
	for name, v := range vectors(t, "rsa", "ecdsa", "ed25519", "ecdsa_sk", "ed25519_sk", "ecdsa_sk_webauthn") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blob := must.Get(dearmor(v.armored))(t)
			for i := range len(blob) * 8 {
				flipped := slices.Clone(blob)
				flipped[i/8] ^= 1 << (i % 8)
				_, err := v.verify(mint.Armor(flipped, 70), v.message)
				require.Error(t, err, "bit %d", i)
				require.NotEqual(t, refusal.Internal, refusal.CodeOf(err), "bit %d", i)
			}
			for i := range len(v.message) * 8 {
				flipped := []byte(v.message)
				flipped[i/8] ^= 1 << (i % 8)
				must.Fail(v.verify(v.armored, string(flipped)))(t, refusal.BadSignature, "bit %d of the message", i)
			}
		})
	}
}
