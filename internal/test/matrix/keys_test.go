package matrix_test

import (
	"context"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/people/sign"
	"gated/internal/test/must"
)

// key is a key pair that the real ssh-keygen made for this run.
type key struct {
	name string // its principal
	path string
	pub  string // type and base64
}

// keyring makes each key once.
var keyring struct {
	sync.Mutex
	made map[string]key
}

func keyOf(t testing.TB, name string, keygen ...string) key {
	t.Helper()
	keyring.Lock()
	defer keyring.Unlock()
	if k, ok := keyring.made[name]; ok {
		return k
	}
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen (Debian: openssh-client)")
	}
	if len(keygen) == 0 {
		keygen = []string{"-t", "ed25519"}
	}
	k := key{name: name + "@example.com", path: filepath.Join(scratchDir, name)}
	out, err := exec.Command("ssh-keygen", append(keygen, "-q", "-N", "", "-C", k.name, "-f", k.path)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	pub := must.Get(os.ReadFile(k.path + ".pub"))(t)
	k.pub = strings.Join(strings.Fields(string(pub))[:2], " ")
	if keyring.made == nil {
		keyring.made = map[string]key{}
	}
	keyring.made[name] = k
	return k
}

// line lists the key.
func (k key) line(namespaces string, options ...string) string {
	return k.name + " " + strings.Join(append([]string{`namespaces="` + namespaces + `"`}, options...), ",") + " " + k.pub + "\n"
}

// keygen signs with the real ssh-keygen -Y sign.
func (k key) keygen(t testing.TB, namespace string, payload []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "payload")
	require.NoError(t, os.WriteFile(file, payload, 0o600))
	out, err := exec.Command("ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", k.path, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	armored := must.Get(os.ReadFile(file + ".sig"))(t)
	return string(armored)
}

// forge signs anything in any namespace, which no tool of ours would.
func (k key) forge(t testing.TB, namespace string, payload []byte) string {
	t.Helper()
	return armor(k.forgeBlob(t, namespace, "", "sha512", payload).bytes())
}

// forgeBlob makes a valid SSHSIG (PROTOCOL.sshsig) with any values in its fields.
func (k key) forgeBlob(t testing.TB, namespace, reserved, hash string, payload []byte) blob {
	t.Helper()
	s := k.signer(t)
	sum512, sum256 := sha512.Sum512(payload), sha256.Sum256(payload)
	digest := sum512[:]
	if hash == "sha256" {
		digest = sum256[:]
	}
	signed := []byte("SSHSIG")
	for _, f := range [][]byte{[]byte(namespace), []byte(reserved), []byte(hash), digest} {
		signed = append(signed, sshString(f)...)
	}
	sig := must.Get(s.Sign(rand.Reader, signed))(t)
	return blob{key: s.PublicKey().Marshal(), namespace: []byte(namespace), reserved: []byte(reserved), hash: []byte(hash),
		inner: append(sshString([]byte(sig.Format)), sshString(sig.Blob)...)}
}

func (k key) signer(t testing.TB) ssh.Signer {
	t.Helper()
	pem := must.Get(os.ReadFile(k.path))(t)
	return must.Get(ssh.ParsePrivateKey(pem))(t)
}

// sign signs as opsign does, and only what a gate would decode.
func (k key) sign(t testing.TB, role op.Role, payload []byte) string {
	t.Helper()
	s := must.Get(sign.KeyFile(k.path, nil))(t)
	return must.Get(s.Sign(context.Background(), role, payload))(t)
}

// envelope is an approval by this key alone.
func (k key) envelope(t testing.TB, payload []byte) authz.Envelope {
	t.Helper()
	return authz.Envelope{Payload: payload, Signatures: []string{k.forge(t, op.Operational.Namespace(), payload)}}
}

// sshString is a string of RFC 4251, section 5.
func sshString(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// blob is what is inside an armored SSHSIG, in its fields.
type blob struct{ key, namespace, reserved, hash, inner []byte }

func (b blob) bytes() []byte {
	out := []byte("SSHSIG\x00\x00\x00\x01")
	for _, f := range [][]byte{b.key, b.namespace, b.reserved, b.hash, b.inner} {
		out = append(out, sshString(f)...)
	}
	return out
}

// armor writes bytes as ssh-keygen writes a signature.
func armor(raw []byte) string {
	text := base64.StdEncoding.EncodeToString(raw)
	var lines []string
	for len(text) > 70 {
		lines, text = append(lines, text[:70]), text[70:]
	}
	return "-----BEGIN SSH SIGNATURE-----\n" + strings.Join(append(lines, text), "\n") + "\n-----END SSH SIGNATURE-----\n"
}

// otherS returns the other valid form of an ECDSA P-256 signature, (r, n-s).
func otherS(inner []byte) []byte {
	n := binary.BigEndian.Uint32(inner)
	format, rest := inner[4:4+n], inner[8+n:]
	n = binary.BigEndian.Uint32(rest)
	r, rest := rest[4:4+n], rest[8+n:]
	s := new(big.Int).SetBytes(rest)
	s.Sub(elliptic.P256().Params().N, s)
	b := s.Bytes()
	if b[0] >= 0x80 {
		b = append([]byte{0}, b...)
	}
	return append(sshString(format), sshString(append(sshString(r), sshString(b)...))...)
}
