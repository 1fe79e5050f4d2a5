package mint

import (
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"slices"

	"golang.org/x/crypto/ssh"
)

// Flags of an authenticator's signature (PROTOCOL.u2f).
const (
	UserPresent  byte = 0x01 // somebody touched it
	UserVerified byte = 0x04 // with a PIN or a finger that it knows
)

// Application is what ssh-keygen gives a security key.
const Application = "ssh:"

// Authenticator is what a security key in software says with a signature, and
// what application its key is made for. A real one counts its signatures; this
// one says what the test wants.
type Authenticator struct {
	Application string
	Flags       byte
	Counter     uint32
}

// Touched is an authenticator that was touched, as OpenSSH requires.
var Touched = Authenticator{Application: Application, Flags: UserPresent, Counter: 7}

// SKEd25519 returns the sk-ssh-ed25519@openssh.com key of that name. Keys that
// differ in flags and counter alone are the same key.
func SKEd25519(t TB, name string, a Authenticator) Key {
	t.Helper()
	private := ed25519.NewKeyFromSeed(newStream("sk-ed25519", name).take(ed25519.SeedSize))
	point := []byte(private.Public().(ed25519.PublicKey))
	return a.key(t, name, Strings([]byte(ssh.KeyAlgoSKED25519), point, []byte(a.Application)),
		func(signed []byte) ([]byte, error) { return ed25519.Sign(private, signed), nil })
}

// SKECDSA returns the sk-ecdsa-sha2-nistp256@openssh.com key of that name, as
// SKEd25519 does.
func SKECDSA(t TB, name string, a Authenticator) Key {
	t.Helper()
	private := ecdsaKey(t, "sk "+name, elliptic.P256().Params().BitSize)
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	return a.key(t, name, Strings([]byte(ssh.KeyAlgoSKECDSA256), []byte("nistp256"), point, []byte(a.Application)),
		func(signed []byte) ([]byte, error) {
			s, err := signer.Sign(nil, signed)
			if err != nil {
				return nil, err
			}
			return s.Blob, nil
		})
}

// key makes a key whose signatures are those of the authenticator: over the
// hash of the application, the flags, the counter and the hash of the data.
func (a Authenticator) key(t TB, name string, blob []byte, sign func(signed []byte) ([]byte, error)) Key {
	t.Helper()
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	said := append([]byte{a.Flags}, Uint32(a.Counter)...)
	application := sha256.Sum256([]byte(a.Application))
	maker := func(data []byte, _ string) (*ssh.Signature, error) {
		digest := sha256.Sum256(data)
		value, err := sign(slices.Concat(application[:], said, digest[:]))
		if err != nil {
			return nil, err
		}
		return &ssh.Signature{Format: public.Type(), Blob: value, Rest: said}, nil
	}
	return Key{Name: name, public: public, maker: maker}
}
