package authz

import (
	"bytes"
	"crypto/rsa"
	"math/big"

	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// MinRSABits is the smallest RSA modulus that is accepted.
const MinRSABits = 3072

// dsaCert is named here because x/crypto marks its own name as insecure.
const (
	dsaKey  = "ssh-dss"
	dsaCert = "ssh-dss-cert-v01@openssh.com"
)

// parseKey parses a public key in SSH wire format that is not a certificate. A
// refusal is WeakKey for DSA and short RSA, UnknownSigner for a type that we do
// not know, else Malformed. It never holds any of the key.
func parseKey(blob []byte) (ssh.PublicKey, error) {
	typ := keyType(blob)
	if _, ok := certifies[typ]; ok {
		return nil, op.Refuse(op.Malformed, "a certificate (%s) stands where a key should", typ).
			WithHint("name the key itself, or the CA's key with cert-authority")
	}
	switch typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
		return parsePlainKey(blob)
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return parseSecurityKey(blob)
	case dsaKey, dsaCert:
		return nil, op.Refuse(op.WeakKey, "a DSA key is too weak").WithHint("make an ed25519 key: ssh-keygen -t ed25519")
	case "":
		return nil, op.Refuse(op.Malformed, "the key does not decode")
	default:
		return nil, op.Refuse(op.UnknownSigner, "keys of type %s are not supported", typ).
			WithHint("use an ed25519, ecdsa or rsa key, or a security key")
	}
}

func parsePlainKey(blob []byte) (ssh.PublicKey, error) {
	key, err := ssh.ParsePublicKey(blob)
	if err != nil {
		return nil, op.Refuse(op.Malformed, "the key does not decode")
	}
	// One key has one spelling, so that bytes can be compared for the key.
	if !bytes.Equal(key.Marshal(), blob) {
		return nil, op.Refuse(op.Malformed, "the key is not in its one canonical encoding")
	}
	if n := rsaModulusBits(key); n != 0 && n < MinRSABits {
		return nil, op.Refuse(op.WeakKey, "an RSA key of %d bits is too weak, %d is the least", max(n, 0), MinRSABits).
			WithHint("make an ed25519 key: ssh-keygen -t ed25519")
	}
	return key, nil
}

// rsaModulusBits returns the bits of an RSA key's modulus, -1 if that is
// negative, which the wire format can say, and 0 for a key of another type.
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

// keyType returns the type that a key blob starts with, or "" where there is
// none that could be a type's name (RFC 4251, 6).
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
