package sign

import (
	"crypto/rsa"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// minRSABits is what a gate accepts; a shorter key would sign in vain.
const minRSABits = 3072

// usable refuses a key whose signatures no gate accepts.
func usable(key ssh.PublicKey) *op.Refusal {
	const hint = "make an ed25519 key: ssh-keygen -t ed25519"
	switch typ := key.Type(); typ {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return nil
	case ssh.KeyAlgoRSA:
		k, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return op.Refuse(op.WeakKey, "an RSA key of unknown size").WithHint(hint)
		}
		if pub, ok := k.CryptoPublicKey().(*rsa.PublicKey); !ok || pub.N.BitLen() < minRSABits {
			return op.Refuse(op.WeakKey, "an RSA key of less than %d bits is too weak", minRSABits).WithHint(hint)
		}
		return nil
	case "ssh-dss":
		return op.Refuse(op.WeakKey, "a DSA key is too weak").WithHint(hint)
	default:
		what := "keys of type " + typ
		switch {
		case isCertificate(typ):
			what = "certificates"
		case strings.HasPrefix(typ, "sk-"):
			what = "security keys"
		}
		return op.Refuse(op.UnknownSigner, "%s are not supported yet", what).
			WithHint("use an ed25519, ecdsa or rsa key")
	}
}

func isCertificate(typ string) bool { return strings.Contains(typ, "-cert-v0") }
