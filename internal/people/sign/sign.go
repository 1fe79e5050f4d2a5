// Package sign makes the signatures that authz verifies: with a key file or
// with ssh-agent. Only opsign links it.
package sign

import (
	"bytes"
	"context"
	"crypto/rsa"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/armor"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Signer signs payloads with one key.
type Signer interface {
	// Fingerprint returns the key's SHA256 fingerprint, as ssh-keygen -l prints it. For a certificate it is that of its
	// key.
	Fingerprint() string
	// PublicKey returns the key, or its certificate, that signatures name.
	PublicKey() ssh.PublicKey
	// SecurityKey reports whether each signature needs a touch.
	SecurityKey() bool
	// Sign returns an armored SSHSIG over the payload in the role's namespace, as ssh-keygen -Y sign writes it. A batch
	// has to be for that role, and is signed in the namespace of the role's batches. Sign refuses, as Malformed, a payload that no gate would decode, so that a key signs nothing else. ctx bounds the wait
	// for an agent.
	Sign(ctx context.Context, role op.Role, payload []byte) (armored string, err error)
}

// rawSigner makes the inner signature. Without a private key of its own, it may wait for an agent.
type rawSigner interface {
	PublicKey() ssh.PublicKey
	with(ctx context.Context) ssh.Signer
}

type signer struct {
	raw  rawSigner
	cert *ssh.Certificate // of its key; nil without
}

// Fingerprint returns the key's SHA256 fingerprint.
func (s signer) Fingerprint() string { return ssh.FingerprintSHA256(s.raw.PublicKey()) }

// PublicKey returns the key or its certificate.
func (s signer) PublicKey() ssh.PublicKey {
	if s.cert != nil {
		return s.cert
	}
	return s.raw.PublicKey()
}

// SecurityKey reports whether the key is one.
func (s signer) SecurityKey() bool { return isSecurityKey(s.raw.PublicKey().Type()) }

// Sign signs as the interface says.
func (s signer) Sign(ctx context.Context, role op.Role, payload []byte) (string, error) {
	if !role.Valid() {
		return "", refusal.New(refusal.NamespaceMismatch, "%.64q is not the name of a role", string(role)).
			WithHint("every gate has operational, coordination and recovery; its configuration may name others")
	}
	namespace, err := namespaceOf(role, payload)
	if err != nil {
		return "", err
	}
	made, err := sshsig.Sign(bytes.NewReader(payload), s.raw.with(ctx), sshsig.HashSHA512, namespace)
	if err != nil {
		if ctx.Err() != nil {
			return "", refusal.New(refusal.Unavailable, "the signing was given up: %v", ctx.Err())
		}
		return "", asRefusal(err, "the key did not sign")
	}
	if err := checkMade(made, payload); err != nil {
		return "", err
	}
	if s.cert != nil {
		// A certificate signs as its key does. The signature names it instead of the key.
		made.PublicKey = s.cert
	}
	return armor.Signature(made.Marshal()), nil
}

// namespaceOf returns the namespace in which a payload is signed. It refuses what no gate would decode.
func namespaceOf(role op.Role, payload []byte) (string, error) {
	if b, err := op.DecodeBatch(payload); err == nil {
		if b.Role != role {
			return "", refusal.New(refusal.NamespaceMismatch, "the batch is for the role %s, not %s", b.Role, role)
		}
		return role.BatchNamespace(), nil
	}
	_, err := op.DecodePayload(payload)
	if err == nil {
		return role.Namespace(), nil
	}
	if _, rejErr := op.DecodeRejection(payload); rejErr == nil {
		return role.Namespace(), nil
	}
	return "", err
}

// asRefusal keeps a refusal that came through a library, and hides any other text.
func asRefusal(err error, what string) error {
	if r := refusal.As(err); r.Code != refusal.Internal {
		return r
	}
	return refusal.New(refusal.Unavailable, "%s: %v", what, err)
}

// checkMade checks a signature before it is returned. An agent may answer with another format (one that ignores the
// flags answers ssh-rsa), with bytes after the signature, or with a signature over other data. checkMade is as strict
// as a gate, so that the user learns of it here.
func checkMade(made *sshsig.Signature, payload []byte) error {
	format, sig := made.PublicKey.Type(), made.Signature
	if !formatFits(format, sig.Format) {
		want := format
		if format == ssh.KeyAlgoRSA {
			want = ssh.KeyAlgoRSASHA512
		}
		return refusal.New(refusal.BadSignature, "the signature came back as %.64q, not as %s", sig.Format, want).
			WithHint("use an agent that supports %s, or the key's file", want)
	}
	if !lengthsFit(made.PublicKey, sig) {
		return refusal.New(refusal.BadSignature, "the signature came back with other lengths than those of a %s key", format).
			WithHint("try the key with ssh-keygen -Y sign")
	}
	if isSecurityKey(format) && sig.Rest[0]&op.FlagPresent == 0 {
		return refusal.New(refusal.TouchRequired, "the security key signed without a touch").
			WithHint("a gate always wants one: make a key without -O no-touch-required")
	}
	err := sshsig.Verify(bytes.NewReader(payload), made, made.PublicKey, made.HashAlgorithm, made.Namespace)
	if err != nil {
		return refusal.New(refusal.BadSignature, "the signature that came back does not verify").
			WithHint("try the key with ssh-keygen -Y sign")
	}
	return nil
}

// formatFits reports whether a key of that type may sign in that format.
func formatFits(key, format string) bool {
	if key == ssh.KeyAlgoRSA {
		return format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256
	}
	return format == key
}

// skTail is the length of the end of a security key's signature: a byte of flags and a counter of four bytes (OpenSSH's
// PROTOCOL.u2f).
const skTail = 5

// lengthsFit reports whether a signature has the lengths of its key's type, and nothing after it.
func lengthsFit(key ssh.PublicKey, sig *ssh.Signature) bool {
	tail := 0
	if isSecurityKey(key.Type()) {
		tail = skTail
	}
	if len(sig.Rest) != tail {
		return false
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519:
		return len(sig.Blob) == 64
	case ssh.KeyAlgoRSA:
		k, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return false
		}
		pub, ok := k.CryptoPublicKey().(*rsa.PublicKey)
		return ok && len(sig.Blob) == pub.Size()
	default: // ECDSA, RFC 5656, 3.1.2
		var pair struct{ R, S []byte }
		return ssh.Unmarshal(sig.Blob, &pair) == nil && positive(pair.R) && positive(pair.S)
	}
}

// positive reports whether b is the shortest mpint of a number above zero.
func positive(b []byte) bool {
	switch {
	case len(b) == 0 || b[0] >= 0x80:
		return false
	case b[0] == 0:
		return len(b) > 1 && b[1] >= 0x80
	default:
		return true
	}
}

// minRSABits is the smallest RSA key that a gate accepts.
const minRSABits = 3072

const (
	newKeyHint   = "make an ed25519 key: ssh-keygen -t ed25519"
	otherKeyHint = "use an ed25519, ecdsa or rsa key, or a security key"
)

// usable refuses a plain key whose signatures no gate accepts.
func usable(key ssh.PublicKey) *refusal.Refusal {
	switch typ := key.Type(); typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		k, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return refusal.New(refusal.WeakKey, "an RSA key of unknown size").WithHint(newKeyHint)
		}
		if pub, ok := k.CryptoPublicKey().(*rsa.PublicKey); !ok || pub.N.BitLen() < minRSABits {
			return refusal.New(refusal.WeakKey, "an RSA key of less than %d bits is too weak", minRSABits).WithHint(newKeyHint)
		}
		return nil
	case "ssh-dss":
		return refusal.New(refusal.WeakKey, "a DSA key is too weak").WithHint(newKeyHint)
	default:
		return refusal.New(refusal.UnknownSigner, "keys of type %s cannot sign for a gate", typ).WithHint(otherKeyHint)
	}
}

// Identity is one key or certificate of a user.
type Identity struct {
	Fingerprint string // SHA256, of the key or, for a certificate, of its key
	KeyType     string // of the key or, for a certificate, the certificate's
	Comment     string
	SecurityKey bool             // each signature needs a touch
	Certificate *Certificate     // nil for a plain key
	Blob        []byte           // the key or certificate in SSH wire format
	Refused     *refusal.Refusal // why it cannot sign for a gate; nil if it can

	key ssh.PublicKey // never a certificate; nil if it does not decode
}

// identify reads a key or certificate in SSH wire format.
func identify(blob []byte, comment string) Identity {
	id := Identity{KeyType: typeOf(blob), Comment: comment, Blob: blob}
	id.SecurityKey = isSecurityKey(id.KeyType)
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		id.Refused = refusal.New(refusal.UnknownSigner, "keys of this type cannot sign for a gate").WithHint(otherKeyHint)
		return id
	}
	if !bytes.Equal(key.Marshal(), blob) {
		id.Refused = refusal.New(refusal.Malformed, "the key is not in its one canonical encoding")
		return id
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		id.Certificate = certificateOf(cert)
		id.Refused = fit(cert)
		key = cert.Key
	} else {
		id.Refused = usable(key)
	}
	id.key, id.Fingerprint = key, ssh.FingerprintSHA256(key)
	return id
}

// typeOf returns the type that a key blob starts with.
func typeOf(blob []byte) string {
	var head struct {
		Type string
		Rest []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(blob, &head); err != nil || len(head.Type) > 64 {
		return "unknown"
	}
	return head.Type
}

func isSecurityKey(typ string) bool { return strings.HasPrefix(typ, "sk-") }
