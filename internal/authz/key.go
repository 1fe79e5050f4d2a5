package authz

import (
	"bytes"
	"crypto/rsa"
	"math/big"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// MinRSABits is the smallest accepted RSA modulus.
const MinRSABits = 3072

// dsaCert is named here because x/crypto marks its own name as insecure.
const (
	dsaKey  = "ssh-dss"
	dsaCert = "ssh-dss-cert-v01@openssh.com"
)

// parseKey parses a public key in SSH wire format that is not a certificate. DSA and
// short RSA are WeakKey, an unknown type is UnknownSigner, other errors are
// Malformed. A refusal never has a part of the key.
func parseKey(blob []byte) (ssh.PublicKey, error) {
	typ := keyType(blob)
	if _, ok := certifies[typ]; ok {
		return nil, refusal.New(refusal.Malformed, "a certificate (%s) stands where a key should", typ).
			WithHint("name the key itself, or the CA's key with cert-authority")
	}
	switch typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
		return parsePlainKey(blob)
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return parseSecurityKey(blob)
	case dsaKey, dsaCert:
		return nil, refusal.New(refusal.WeakKey, "a DSA key is too weak").
			WithHint("make an ed25519 key: ssh-keygen -t ed25519")
	case "":
		return nil, refusal.New(refusal.Malformed, "the key does not decode")
	default:
		return nil, refusal.New(refusal.UnknownSigner, "keys of type %s are not supported", typ).
			WithHint("use an ed25519, ecdsa or rsa key, or a security key")
	}
}

func parsePlainKey(blob []byte) (ssh.PublicKey, error) {
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, refusal.New(refusal.Malformed, "the key does not decode")
	}
	// A key must have only one spelling, because bytes are compared in its place.
	if !bytes.Equal(key.Marshal(), blob) {
		return nil, refusal.New(refusal.Malformed, "the key is not in its one canonical encoding")
	}
	if n := rsaModulusBits(key); n != 0 && n < MinRSABits {
		return nil, refusal.New(refusal.WeakKey, "an RSA key of %d bits is too weak, %d is the least", max(n, 0), MinRSABits).
			WithHint("make an ed25519 key: ssh-keygen -t ed25519")
	}
	return key, nil
}

// rsaModulusBits returns the bits of an RSA key's modulus. It returns -1 for a
// negative modulus, which the wire format allows, and 0 for other types of key.
func rsaModulusBits(key ssh.PublicKey) int {
	k, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return 0
	}
	pub, ok := k.CryptoPublicKey().(*rsa.PublicKey)
	switch {
	case !ok:
		return 0
	case pub.N.Cmp(new(big.Int)) <= 0:
		return -1
	default:
		return pub.N.BitLen()
	}
}

// keyType returns the type at the start of a key blob, or "" if no valid type name
// is there (RFC 4251, 6).
func keyType(blob []byte) string {
	w := wire{rest: blob}
	typ := string(w.next())
	if w.bad || len(typ) > 64 {
		return ""
	}
	for i := 0; i < len(typ); i++ {
		if typ[i] <= ' ' || typ[i] > '~' {
			return ""
		}
	}
	return typ
}
