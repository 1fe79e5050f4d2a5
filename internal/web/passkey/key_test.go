package passkey_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
)

func TestNewKeyIsWhatOpenSSHReads(t *testing.T) {
	t.Parallel()
	key := newDevice(t).Key
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key.Line()))
	require.NoError(t, err)
	require.Equal(t, ssh.FingerprintSHA256(public), key.Fingerprint())
	require.Equal(t, rpID, key.RPID())
	require.Equal(t, public, must.Get(key.Public())(t))
	back, ok := passkey.KeyOf(public)
	require.True(t, ok)
	require.Equal(t, key, back)

	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("needs ssh-keygen (Debian: openssh-client)")
	}
	path := filepath.Join(t.TempDir(), "key.pub")
	require.NoError(t, os.WriteFile(path, []byte(key.Line()+"\n"), 0o600))
	out := must.Get(exec.Command(program, "-l", "-f", path).CombinedOutput())(t)
	require.Contains(t, string(out), key.Fingerprint())
}

func TestNewKeyRefuses(t *testing.T) {
	t.Parallel()
	spkiOf := func(public any) []byte { return must.Get(x509.MarshalPKIXPublicKey(public))(t) }
	good := spkiOf(newKey(t, elliptic.P256()).Public())
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		spki []byte
		id   string
		want refusal.Code
	}{
		"another curve":        {spkiOf(newKey(t, elliptic.P384()).Public()), rpID, refusal.WeakKey},
		"Ed25519":              {spkiOf(edwards), rpID, refusal.WeakKey},
		"nothing":              {nil, rpID, refusal.Malformed},
		"a tail":               {append(good[:len(good):len(good)], 0), rpID, refusal.Malformed},
		"cut short":            {good[:len(good)-1], rpID, refusal.Malformed},
		"a point off the line": {append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1), rpID, refusal.Malformed},
		"long":                 {make([]byte, 1025), rpID, refusal.Oversized},
		"no ID":                {good, "", refusal.Malformed},
		"an application":       {good, "ssh:", refusal.Malformed},
		"an origin":            {good, origin, refusal.Malformed},
		"upper case":           {good, "Console.example.com", refusal.Malformed},
		"a line end":           {good, "a\nb", refusal.Malformed},
		"one label":            {good, "com", refusal.Malformed},
		"a long ID":            {good, strings.Repeat("a.", 126) + "com", refusal.Malformed},
	} {
		_, err := passkey.NewKey(c.spki, c.id)
		require.ErrorIs(t, err, c.want, name)
	}
	must.Get(passkey.NewKey(good, strings.Repeat("a.", 125)+"com"))(t)
}

func TestKeyOfTakesPasskeysAlone(t *testing.T) {
	t.Parallel()
	private := newKey(t, elliptic.P256())
	plain := must.Get(ssh.NewPublicKey(private.Public()))(t)
	_, ok := passkey.KeyOf(plain)
	require.False(t, ok, "a plain key")
	_, ok = passkey.KeyOf(nil)
	require.False(t, ok)
	point := must.Get(private.PublicKey.Bytes())(t)
	blob := ssh.Marshal(struct {
		Type, Curve string
		Point       []byte
		Application string
	}{ssh.KeyAlgoSKECDSA256, "nistp256", point, "ssh:"})
	_, ok = passkey.KeyOf(must.Get(ssh.ParsePublicKey(blob))(t))
	require.False(t, ok, "a security key for ssh signs the plain form")
}

func TestMadeFindsTheSigner(t *testing.T) {
	t.Parallel()
	alice, bob := newDevice(t), newDevice(t)
	a := bob.Sign(t, passkey.Challenge(namespace, message))
	key, ok := a.Made(alice.Key, passkey.Key{}, bob.Key)
	require.True(t, ok)
	require.Equal(t, bob.Key, key)
	_, ok = a.Made(alice.Key)
	require.False(t, ok)
	_, ok = a.Made()
	require.False(t, ok)
	a.ClientData[len(a.ClientData)-2] ^= 1
	_, ok = a.Made(bob.Key)
	require.False(t, ok, "another text")
}

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	return must.Get(ecdsa.GenerateKey(curve, rand.Reader))(t)
}

func TestListedFindsPasskeysAlone(t *testing.T) {
	t.Parallel()
	alice, bob := newDevice(t).Key, newDevice(t).Key
	plain := must.Get(ssh.NewPublicKey(newKey(t, elliptic.P256()).Public()))(t)
	text := "# list\n" + `alice@example.com namespaces="operational@gated" ` + alice.Line() + " phone\n" +
		"carol@example.com " + string(ssh.MarshalAuthorizedKey(plain)) +
		"bob@example.com " + bob.Line() + "\nmallory " + ssh.KeyAlgoSKECDSA256 + "\nmallory " + ssh.KeyAlgoSKECDSA256 + " AAAA\n"
	require.Equal(t, []passkey.Key{alice, bob}, passkey.Listed(text))
	require.Empty(t, passkey.Listed(""))
	require.True(t, passkey.Lists(text, alice.Fingerprint()))
	require.True(t, passkey.Lists(text, bob.Fingerprint()))
	require.False(t, passkey.Lists(text, ssh.FingerprintSHA256(plain)), "it is no passkey")
	require.False(t, passkey.Lists(text, ""))
}

// FuzzListed checks that each key that is found is found again by its own line.
func FuzzListed(f *testing.F) {
	f.Add("alice@example.com " + newDevice(f).Key.Line() + "\n")
	f.Add("alice " + ssh.KeyAlgoSKECDSA256 + " AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range passkey.Listed(text) {
			require.Equal(t, []passkey.Key{k}, passkey.Listed("x "+k.Line()))
			require.True(t, passkey.Lists(text, k.Fingerprint()))
		}
	})
}
