package sign

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestKeyFileSignsAsSSHKeygen(t *testing.T) {
	t.Parallel()
	for _, name := range keyNames {
		path := privateCopy(t, name)
		s := must.Get(KeyFile(path, nil))(t)
		require.Equal(t, ssh.FingerprintSHA256(s.PublicKey()), s.Fingerprint())
		for _, role := range op.Roles {
			for _, bytesToSign := range [][]byte{payload(t), rejection(t)} {
				armored := must.Get(s.Sign(t.Context(), role, bytesToSign))(t)
				require.NoError(t, opensshVerifies(t, s.PublicKey(), role, bytesToSign, armored))
				require.Error(t, opensshVerifies(t, s.PublicKey(), role, append(bytesToSign, '\n'), armored))
			}
		}

		cmd := exec.Command(program(t, "ssh-keygen"), "-Y", "sign", "-n", op.Operational.Namespace(), "-f", path)
		cmd.Stdin = bytes.NewReader(payload(t))
		theirs := must.Get(cmd.Output())(t)
		ours := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
		if name == "ecdsa-p256" { // whose signatures are random: the form is the same
			mask := func(s string) string { return strings.Join(strings.Split(s, "\n")[:3], "\n") }
			require.Equal(t, mask(string(theirs)), mask(ours))
			continue
		}
		require.Equal(t, string(theirs), ours)
	}
}

func TestSignsNothingElse(t *testing.T) {
	t.Parallel()
	s := must.Get(KeyFile(privateCopy(t, "alice"), nil))(t)
	for _, b := range [][]byte{nil, []byte("hello"), []byte("{}"), append(payload(t), '\n'),
		bytes.Replace(payload(t), []byte("guest/web-1"), []byte("guest/*"), 1)} {
		armored, err := s.Sign(t.Context(), op.Operational, b)
		require.ErrorIs(t, err, refusal.Malformed)
		require.Empty(t, armored)
	}
	for _, role := range []op.Role{"", "Operational", "operational@gated", "two words", "-x", op.Role(strings.Repeat("a", 33))} {
		must.Fail(s.Sign(t.Context(), role, payload(t)))(t, refusal.NamespaceMismatch)
	}
}

// TestSignsBatches: a batch is signed in the namespace of the batches of its own role.
func TestSignsBatches(t *testing.T) {
	t.Parallel()
	s := must.Get(KeyFile(privateCopy(t, "alice"), nil))(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := must.Get(op.Batch{Role: op.Operational, Count: 1, IssuedAt: at, ExpiresAt: at.Add(time.Minute)}.Encode())(t)
	armored := must.Get(s.Sign(t.Context(), op.Operational, b))(t)
	parsed := must.Get(sshsig.Unarmor([]byte(armored)))(t)
	require.Equal(t, "operational@batch.gated", parsed.Namespace)
	require.NoError(t, sshsig.Verify(bytes.NewReader(b), parsed, s.PublicKey(), parsed.HashAlgorithm, parsed.Namespace))
	must.Fail(s.Sign(t.Context(), op.Coordination, b))(t, refusal.NamespaceMismatch)
	must.Fail(s.Sign(t.Context(), op.Operational, append(b, '\n')))(t, refusal.Malformed)
}

func TestKeyFilePassphrase(t *testing.T) {
	t.Parallel()
	plain := must.Get(os.ReadFile(privateCopy(t, "alice")))(t)
	raw := must.Get(ssh.ParseRawPrivateKey(plain))(t)
	block := must.Get(ssh.MarshalPrivateKeyWithPassphrase(raw, "", []byte("sesame")))(t)
	path := keyFile(t, pem.EncodeToMemory(block))

	given := []byte("sesame")
	asked := 0
	s := must.Get(KeyFile(path, func() ([]byte, error) { asked++; return given, nil }))(t)
	require.Equal(t, 1, asked)
	require.Equal(t, make([]byte, 6), given, "the passphrase is overwritten")
	armored := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
	require.NoError(t, opensshVerifies(t, s.PublicKey(), op.Operational, payload(t), armored))

	_, err := KeyFile(path, func() ([]byte, error) { return []byte("open"), nil })
	refused(t, err, refusal.Malformed, "wrong passphrase")
	must.Err(KeyFile(path, func() ([]byte, error) { return nil, nil }))(t, "an empty passphrase")
	_, err = KeyFile(path, nil)
	refused(t, err, refusal.NotAllowed, "nobody to ask")
	_, err = KeyFile(path, func() ([]byte, error) { return nil, errors.New("end of input") })
	refused(t, err, refusal.Unavailable, "was not given")
	_, err = KeyFile(privateCopy(t, "alice"), func() ([]byte, error) { t.Error("asked for nothing"); return nil, nil })
	require.NoError(t, err)
}

func TestKeyFileRefusals(t *testing.T) {
	t.Parallel()
	weak := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	block := must.Get(ssh.MarshalPrivateKey(weak, ""))(t)
	public := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "testdata", "keys", "alice.pub")))(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, c := range []struct {
		name, path string
		code       refusal.Code
		says       string
	}{
		{"missing", filepath.Join(t.TempDir(), "none"), refusal.Unavailable, "no such file"},
		{"directory", t.TempDir(), refusal.Malformed, "not a regular file"},
		{"FIFO", fifo, refusal.Malformed, "not a regular file"},
		{"empty", keyFile(t, nil), refusal.Malformed, "no private key"},
		{"no key", keyFile(t, []byte("secret diary")), refusal.Malformed, "no private key"},
		{"huge", keyFile(t, make([]byte, maxKeyFile+1)), refusal.Malformed, "larger"},
		{"public key", keyFile(t, public), refusal.Malformed, "is a public key"},
		{"RSA 2048", keyFile(t, pem.EncodeToMemory(block)), refusal.WeakKey, "3072"},
		{"security key", keyFile(t, securityKey()), refusal.UnknownSigner, "handle of a security key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := KeyFile(c.path, nil)
			refused(t, err, c.code, c.says)
			require.Nil(t, s)
			require.NotContains(t, err.Error(), "diary", "nothing of the content")
		})
	}
}

// securityKey returns what ssh-keygen -t ed25519-sk writes, with an empty
// handle.
func securityKey() []byte {
	const typ = ssh.KeyAlgoSKED25519
	pub := ssh.Marshal(struct{ Type, Key, App string }{typ, strings.Repeat("k", 32), "ssh:"})
	private := ssh.Marshal(struct {
		Check1, Check2 uint32
		Type, Rest     string
	}{7, 7, typ, ""})
	return pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{"none", "none", "", 1, pub, private})...)})
}

func TestKeyFileWithItsPublicKeyBelow(t *testing.T) {
	t.Parallel()
	private := must.Get(os.ReadFile(privateCopy(t, "alice")))(t)
	public := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "testdata", "keys", "alice.pub")))(t)
	must.Get(KeyFile(keyFile(t, append(private, public...)), nil))(t)
}

func TestKeyFileMode(t *testing.T) {
	t.Parallel()
	path := privateCopy(t, "alice")
	for mode, ok := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o700: true,
		0o640: false, 0o620: false, 0o610: false, 0o604: false, 0o602: false, 0o601: false, 0o644: false, 0o666: false,
	} {
		require.NoError(t, os.Chmod(path, mode))
		_, err := KeyFile(path, nil)
		if ok {
			require.NoError(t, err, "%04o", mode)
			continue
		}
		refused(t, err, refusal.NotAllowed, "others than its owner")
		require.Contains(t, refusal.As(err).Hint, "chmod 600")
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.Chmod(path, 0o604))
	_, err := KeyFile(link, nil)
	refused(t, err, refusal.NotAllowed, "others than its owner")
}

// liar returns something else than a signature over what it was given.
type liar struct {
	ssh.Signer
	lie func(*ssh.Signature)
}

func (l liar) with(context.Context) ssh.Signer { return l }

func (l liar) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	sig, err := l.Signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, data, algorithm)
	if err == nil {
		l.lie(sig)
	}
	return sig, err
}

func (l liar) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	return l.SignWithAlgorithm(nil, data, l.PublicKey().Type())
}

func TestWhatComesBackIsChecked(t *testing.T) {
	t.Parallel()
	for _, name := range keyNames {
		b := must.Get(os.ReadFile(privateCopy(t, name)))(t)
		key := must.Get(ssh.ParsePrivateKey(b))(t)
		for what, lie := range map[string]func(*ssh.Signature){
			"another format":  func(s *ssh.Signature) { s.Format = ssh.KeyAlgoRSA },
			"another bit":     func(s *ssh.Signature) { s.Blob[len(s.Blob)-1] ^= 1 },
			"nothing":         func(s *ssh.Signature) { s.Blob = nil },
			"bytes after it":  func(s *ssh.Signature) { s.Rest = []byte{1} },
			"bytes inside it": func(s *ssh.Signature) { s.Blob = append(s.Blob, 0) },
		} {
			armored, err := signer{raw: liar{key, lie}}.Sign(t.Context(), op.Operational, payload(t))
			require.ErrorIs(t, err, refusal.BadSignature, "%s, %s", name, what)
			require.Empty(t, armored)
		}
		must.Get(signer{raw: liar{key, func(*ssh.Signature) {}}}.Sign(t.Context(), op.Operational, payload(t)))(t)
	}
}
