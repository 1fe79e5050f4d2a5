package passkey

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"iter"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxSPKI bounds what a page sends: a P-256 key has 91 bytes.
const maxSPKI = 1 << 10

// Key is the public half of a passkey, as allowed_signers lists it: an
// sk-ecdsa-sha2-nistp256@openssh.com key whose application is a relying party's ID.
type Key struct {
	blob        []byte
	application string
	public      *ecdsa.PublicKey
}

// keyWire is the blob of an sk-ecdsa key (PROTOCOL.u2f, "SSH U2F Key formats").
type keyWire struct {
	Type, Curve string
	Point       []byte
	Application string
}

// NewKey returns the key that a browser made for a relying party. spki is what
// getPublicKey() of its answer returned (WebAuthn Level 3, section 5.2.1.1). A key on
// another curve is WeakKey, because OpenSSH knows passkeys on P-256 alone; other errors
// are Malformed.
func NewKey(spki []byte, rpID string) (Key, error) {
	if len(spki) > maxSPKI {
		return Key{}, refusal.New(refusal.Oversized, "the public key has %d bytes, more than %d", len(spki), maxSPKI)
	}
	if err := checkRPID(rpID); err != nil {
		return Key{}, err
	}
	parsed, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return Key{}, refusal.New(refusal.Malformed, "the public key is not in the form that getPublicKey() returns").
			WithHint("make the passkey with a current browser")
	}
	public, ok := parsed.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return Key{}, refusal.New(refusal.WeakKey, "the passkey is not an ECDSA key on the curve P-256, and OpenSSH verifies no other").
			WithHint("choose another authenticator: one that makes keys for ES256")
	}
	point, err := public.Bytes()
	if err != nil {
		return Key{}, refusal.New(refusal.Malformed, "the public key is no point of its curve")
	}
	blob := ssh.Marshal(keyWire{ssh.KeyAlgoSKECDSA256, "nistp256", point, rpID})
	return Key{blob: blob, application: rpID, public: public}, nil
}

// KeyOf returns the passkey of a listed key, false if the key is none: it has another
// type, or an application of ssh, whose signatures have the plain form.
func KeyOf(listed ssh.PublicKey) (Key, bool) {
	if listed == nil || listed.Type() != ssh.KeyAlgoSKECDSA256 {
		return Key{}, false
	}
	var w keyWire
	blob := listed.Marshal()
	if ssh.Unmarshal(blob, &w) != nil || w.Curve != "nistp256" || checkRPID(w.Application) != nil {
		return Key{}, false
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), w.Point)
	return Key{blob: blob, application: w.Application, public: public}, err == nil
}

// checkRPID refuses an id that a gate would not list.
func checkRPID(id string) error {
	if !op.IsRelyingParty(id) {
		return refusal.New(refusal.Malformed, "the relying party's ID is no host name in lower case").
			WithHint("it is localhost, or a name of two parts at the least, as console.example.com")
	}
	return nil
}

// RPID returns the ID of the relying party for which the key signs.
func (k Key) RPID() string { return k.application }

// Public returns the key as x/crypto knows it.
func (k Key) Public() (ssh.PublicKey, error) { return ssh.ParsePublicKey(k.blob) }

// Line returns type and blob, as in authorized_keys and after the options of a line of
// allowed_signers.
func (k Key) Line() string { return ssh.KeyAlgoSKECDSA256 + " " + std.EncodeToString(k.blob) }

// Fingerprint returns SHA256:…, as ssh-keygen -l prints it.
func (k Key) Fingerprint() string { return fingerprintOf(k.blob) }

func fingerprintOf(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "SHA256:" + std.WithPadding(-1).EncodeToString(sum[:])
}

// Made returns the one of keys that made the assertion, false if none did. A page with
// several passkeys does not say which of them a person chose.
func (a Assertion) Made(keys ...Key) (Key, bool) {
	clientData := sha256.Sum256(a.ClientData)
	digest := sha256.Sum256(append(a.AuthenticatorData[:len(a.AuthenticatorData):len(a.AuthenticatorData)], clientData[:]...))
	for _, k := range keys {
		if k.public != nil && ecdsa.VerifyASN1(k.public, digest[:], a.Signature) {
			return k, true
		}
	}
	return Key{}, false
}

// Listed returns the passkeys that a text in the form of allowed_signers has. It is no
// judgement of the text: it reads a line that the gate refuses, too. It says only of which
// keys a signature could be, and the gate says whether that key may sign.
func Listed(text string) []Key {
	var keys []Key
	for blob := range blobs(text) {
		if k, ok := keyIn(blob); ok {
			keys = append(keys, k)
		}
	}
	return keys
}

// Lists reports whether Listed has the key of a fingerprint. It reads no other key, because a text may have very many.
func Lists(text, fingerprint string) bool {
	for blob := range blobs(text) {
		if fingerprintOf(blob) == fingerprint {
			_, ok := keyIn(blob)
			return ok
		}
	}
	return false
}

// blobs are what stands after the type of a passkey in a text.
func blobs(text string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			for i, field := range fields[:max(len(fields)-1, 0)] {
				if field != ssh.KeyAlgoSKECDSA256 {
					continue
				}
				if blob, err := std.DecodeString(fields[i+1]); err == nil && !yield(blob) {
					return
				}
			}
		}
	}
}

func keyIn(blob []byte) (Key, bool) {
	public, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return Key{}, false
	}
	return KeyOf(public)
}
