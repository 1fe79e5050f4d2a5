package sign

import (
	"bytes"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

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
