package sign

import (
	"crypto/rsa"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

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
