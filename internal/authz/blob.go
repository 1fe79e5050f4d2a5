package authz

import (
	"encoding/binary"
	"errors"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// signature is one parsed SSHSIG. Its parts are still claims: decode looks at
// their form alone.
type signature struct {
	armor     string
	key       ssh.PublicKey // nil if the type is not supported
	barred    *op.Refusal   // why key is nil
	namespace string
	hash      sshsig.HashAlgorithm
	inner     *ssh.Signature // nil if key is nil
}

// wire reads the SSH encoding of RFC 4251, section 5. After a read that found
// too little, bad is set and all reads return nil.
type wire struct {
	rest []byte
	bad  bool
}

func (w *wire) take(n uint64) []byte {
	if w.bad || n > uint64(len(w.rest)) {
		w.bad = true
		return nil
	}
	b := w.rest[:n]
	w.rest = w.rest[n:]
	return b
}

func (w *wire) number() uint32 {
	b := w.take(4)
	if w.bad {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// next reads a string, or an mpint's bytes.
func (w *wire) next() []byte { return w.take(uint64(w.number())) }

// ended reports whether all was read and nothing is left.
func (w *wire) ended() bool { return !w.bad && len(w.rest) == 0 }

// parseSignature reads an armored SSHSIG (PROTOCOL.sshsig) strictly: all its
// fields, nothing after them, an empty reserved field. Libraries let several
// of these pass, see docs/formats/signatures.md.
func parseSignature(armored string) (signature, error) {
	blob, err := dearmor(armored)
	if err != nil {
		return signature{}, err
	}
	w := wire{rest: blob}
	magic := string(w.take(6))
	version := w.number()
	key, namespace, reserved := w.next(), w.next(), w.next()
	hash, inner := sshsig.HashAlgorithm(w.next()), w.next()
	switch {
	case !w.ended():
		return signature{}, op.Refuse(op.Malformed, "the signature is cut short or followed by other bytes")
	case magic != "SSHSIG" || version != 1:
		return signature{}, op.Refuse(op.Malformed, "this is not an SSHSIG of version 1")
	case len(reserved) != 0:
		return signature{}, op.Refuse(op.Malformed, "the signature's reserved field is not empty")
	case hash != sshsig.HashSHA512 && hash != sshsig.HashSHA256:
		return signature{}, op.Refuse(op.Malformed, "the signature's hash is neither sha512 nor sha256")
	}
	s := signature{armor: armored, namespace: string(namespace), hash: hash}
	s.key, err = parseKey(key)
	if errors.Is(err, op.UnknownSigner) {
		// That no line can list it is for the allow-list to say, after the namespace.
		s.barred = op.AsRefusal(err)
		return s, nil
	}
	if err != nil {
		return signature{}, err
	}
	s.inner, err = parseInner(s.key, inner)
	return s, err
}

// parseInner reads the signature proper and checks that its format and length
// are those of the key's type.
func parseInner(key ssh.PublicKey, b []byte) (*ssh.Signature, error) {
	w := wire{rest: b}
	format, value := string(w.next()), w.next()
	if !w.ended() {
		return nil, op.Refuse(op.Malformed, "the inner signature is cut short or followed by other bytes")
	}
	var fits bool
	switch key.Type() {
	case ssh.KeyAlgoED25519:
		fits = format == key.Type() && len(value) == 64
	case ssh.KeyAlgoRSA:
		if format == ssh.KeyAlgoRSA {
			return nil, op.Refuse(op.WeakKey, "the signature is ssh-rsa, which uses SHA-1").
				WithHint("sign with rsa-sha2-512, as ssh-keygen -Y sign does")
		}
		fits = (format == ssh.KeyAlgoRSASHA512 || format == ssh.KeyAlgoRSASHA256) &&
			len(value) == (rsaModulusBits(key)+7)/8
	default: // ECDSA, RFC 5656, 3.1.2
		pair := wire{rest: value}
		r, s := pair.next(), pair.next()
		fits = format == key.Type() && pair.ended() && positive(r) && positive(s)
	}
	if !fits {
		return nil, op.Refuse(op.Malformed, "the inner signature has not the form of one by a %s key", key.Type())
	}
	return &ssh.Signature{Format: format, Blob: value}, nil
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
