package mint

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// Key is a private key and its name, which is its comment. It is an
// ssh.AlgorithmSigner. Copies are independent.
type Key struct {
	Name string

	public ssh.PublicKey
	// maker signs data as an algorithm, or as the key's usual one if that is empty.
	maker func(data []byte, algorithm string) (*ssh.Signature, error)
	// private is what OpenSSH can use; nil for security keys and DSA.
	private any
}

var _ ssh.AlgorithmSigner = Key{}

// Ed25519 returns the ssh-ed25519 key of that name.
func Ed25519(t TB, name string) Key {
	t.Helper()
	return plain(t, name, ed25519.NewKeyFromSeed(newStream("ed25519", name).take(ed25519.SeedSize)))
}

// ECDSA returns the ecdsa-sha2-nistp256, 384 or 521 key of that name.
func ECDSA(t TB, name string, bits int) Key {
	t.Helper()
	return plain(t, name, ecdsaKey(t, name, bits))
}

func ecdsaKey(t TB, name string, bits int) *ecdsa.PrivateKey {
	t.Helper()
	curve, ok := map[int]elliptic.Curve{256: elliptic.P256(), 384: elliptic.P384(), 521: elliptic.P521()}[bits]
	if !ok {
		t.Fatalf("mint: there is no curve of %d bits", bits)
	}
	scalar := newStream("ecdsa", curve.Params().Name, name).below(curve.Params().N)
	key, err := ecdsa.ParseRawPrivateKey(curve, scalar.FillBytes(make([]byte, (bits+7)/8)))
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	return key
}

// ReadFile returns the key of a file that OpenSSH wrote, without a passphrase;
// the file's name is its name. To mint an RSA key takes long where every branch
// is counted, as in a fuzz target.
func ReadFile(t TB, path string) Key {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("mint: %v", err)
	}
	private, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatalf("mint: %s: %v", path, err)
	}
	return plain(t, filepath.Base(path), private)
}

// plain wraps a private key that x/crypto/ssh signs with.
func plain(t TB, name string, private any) Key {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	k := Key{Name: name, public: signer.PublicKey(), private: private}
	k.maker = func(data []byte, algorithm string) (*ssh.Signature, error) {
		if algorithm == "" && k.public.Type() == ssh.KeyAlgoRSA {
			algorithm = ssh.KeyAlgoRSASHA512
		}
		// Without a source of randomness ECDSA is that of RFC 6979.
		return signer.(ssh.AlgorithmSigner).SignWithAlgorithm(nil, data, algorithm)
	}
	return k
}

// PublicKey returns the public key.
func (k Key) PublicKey() ssh.PublicKey { return k.public }

// Sign signs data as OpenSSH does with this type of key: RSA with rsa-sha2-512.
// It uses no randomness.
func (k Key) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) { return k.maker(data, "") }

// SignWithAlgorithm signs data with an algorithm of the key's type; ssh-rsa is
// RSA with SHA-1. It uses no randomness.
func (k Key) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	return k.maker(data, algorithm)
}

// Type returns the public key's type, as in ssh-ed25519.
func (k Key) Type() string { return k.public.Type() }

// Blob returns the public key in SSH wire format.
func (k Key) Blob() []byte { return k.public.Marshal() }

// Fingerprint returns the public key's SHA256 fingerprint.
func (k Key) Fingerprint() string { return ssh.FingerprintSHA256(k.public) }

// Text returns the public key's type and base64, without a comment or newline.
func (k Key) Text() string { return Text(k.Type(), k.Blob()) }

// Text returns a key type and a blob as they stand in files of OpenSSH.
func Text(typ string, blob []byte) string { return typ + " " + base64.StdEncoding.EncodeToString(blob) }

// Line returns the allowed_signers line, with its newline, that lists the key
// for a principal; options is its second field.
func (k Key) Line(principal, options string) string {
	return principal + " " + options + " " + k.Text() + "\n"
}

// WriteFile writes the key to dir as OpenSSH wants it, the public key beside it
// as NAME.pub, and returns the private key's path. A security key has no file:
// its key is in the device.
func (k Key) WriteFile(t TB, dir string) string {
	t.Helper()
	if k.private == nil {
		t.Fatalf("mint: OpenSSH cannot sign with a file of %s, a %s key", k.Name, k.Type())
	}
	block, err := ssh.MarshalPrivateKey(k.private, k.Name)
	if err != nil {
		t.Fatalf("mint: %s: %v", k.Name, err)
	}
	path := filepath.Join(dir, k.Name)
	writeFile(t, path, pem.EncodeToMemory(block), 0o600)
	writeFile(t, path+".pub", []byte(k.Text()+" "+k.Name+"\n"), 0o644)
	return path
}

func writeFile(t TB, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, content, mode); err != nil {
		t.Fatalf("mint: %v", err)
	}
}
