package mint

import (
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"golang.org/x/crypto/ssh"
)

// FormatWebAuthn is the type of a passkey's inner signature (PROTOCOL.u2f).
const FormatWebAuthn = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"

// Flags of a passkey's signature (WebAuthn level 3, 6.1).
const (
	BackupEligible byte = 0x08
	BackedUp       byte = 0x10
	Attests        byte = 0x40
	Extends        byte = 0x80
)

// Browser is a page and an authenticator in software, and what they say with a signature.
type Browser struct {
	Party      string // the relying party's id, with which the key is made
	Origin     string
	Flags      byte
	Counter    uint32
	Extensions []byte
	// ClientData makes the client data of a challenge, which is base64url; nil for ClientData.
	ClientData func(challenge, origin string) string
}

// Console is the page of the tests, whose user was there and was verified.
var Console = Browser{Party: "console.example.com", Origin: "https://console.example.com", Flags: UserPresent | UserVerified, Counter: 3}

// ClientData is what a browser writes.
func ClientData(challenge, origin string) string {
	return `{"type":"webauthn.get","challenge":"` + challenge + `","origin":"` + origin + `","crossOrigin":false}`
}

// Passkey returns the passkey of that name. Keys that differ in what the browser says alone are the same key.
func Passkey(t TB, name string, b Browser) Key {
	t.Helper()
	private := ecdsaKey(t, "passkey "+name, elliptic.P256().Params().BitSize)
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	public, err := ssh.ParsePublicKey(Strings([]byte(ssh.KeyAlgoSKECDSA256), []byte("nistp256"), point, []byte(b.Party)))
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("mint: %s: %v", name, err)
	}
	write := b.ClientData
	if write == nil {
		write = ClientData
	}
	party := sha256.Sum256([]byte(b.Party))
	maker := func(data []byte, _ string) (*ssh.Signature, error) {
		client := []byte(write(base64.RawURLEncoding.EncodeToString(data), b.Origin))
		said, digest := slices.Concat([]byte{b.Flags}, Uint32(b.Counter)), sha256.Sum256(client)
		made, err := signer.Sign(nil, slices.Concat(party[:], said, b.Extensions, digest[:]))
		if err != nil {
			return nil, err
		}
		return &ssh.Signature{Format: FormatWebAuthn, Blob: made.Blob, Rest: slices.Concat(said, Strings([]byte(b.Origin), client, b.Extensions))}, nil
	}
	return Key{Name: name, public: public, maker: maker}
}
