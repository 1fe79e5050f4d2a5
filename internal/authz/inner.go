package authz

import (
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// parseInner reads a plain signature, inside an SSHSIG or at the end of a
// certificate. It checks that format and length fit the key's type.
func parseInner(key ssh.PublicKey, b []byte) (*ssh.Signature, error) {
	w := wire{rest: b}
	format, value := string(w.next()), w.next()
	var rest []byte
	if _, ok := key.(securityKey); ok {
		rest = w.take(5) // flags and counter
	}
	if !w.ended() {
		return nil, refusal.New(refusal.Malformed, "the inner signature is cut short or followed by other bytes")
	}
	var fits bool
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519:
		fits = format == key.Type() && len(value) == 64
	case ssh.KeyAlgoRSA:
		if format == ssh.KeyAlgoRSA {
			return nil, refusal.New(refusal.WeakKey, "the signature is ssh-rsa, which uses SHA-1").
				WithHint("sign with rsa-sha2-512, as ssh-keygen does")
		}
		fits = (format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256) &&
			len(value) == (rsaModulusBits(key)+7)/8
	default: // ECDSA, RFC 5656, 3.1.2; also of a security key
		pair := wire{rest: value}
		r, s := pair.next(), pair.next()
		fits = format == key.Type() && pair.ended() && positive(r) && positive(s)
	}
	if !fits {
		return nil, refusal.New(refusal.Malformed, "the inner signature has not the form of one by a %s key", key.Type())
	}
	return &ssh.Signature{Format: format, Blob: value, Rest: rest}, nil
}
