package authz

import (
	"errors"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// signature is one parsed SSHSIG. decode checks only its form, so all its parts are
// still unproved.
type signature struct {
	armor     string
	blob      []byte        // the key's bytes as they were sent
	key       ssh.PublicKey // the key that signed, certified or not; nil if the type is not supported
	cert      *certificate  // nil for a plain key
	barred    *op.Refusal   // why key is nil
	namespace string
	hash      sshsig.HashAlgorithm
	inner     *ssh.Signature // nil if key is nil
}

// parseSignature reads an armored SSHSIG (PROTOCOL.sshsig) strictly: all its fields,
// an empty reserved field, and nothing after them. Libraries accept more, see
// docs/formats/signatures.md.
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
	s := signature{armor: armored, blob: key, namespace: string(namespace), hash: hash}
	err = s.parseSigner()
	if errors.Is(err, op.UnknownSigner) {
		// The allow-list refuses this key later, after the namespace stage.
		s.key, s.cert, s.barred = nil, nil, op.AsRefusal(err)
		return s, nil
	}
	if err != nil {
		return signature{}, err
	}
	s.inner, err = parseInner(s.key, inner)
	return s, err
}

// parseSigner reads the key, or the certificate in its place.
func (s *signature) parseSigner() (err error) {
	if _, ok := certifies[keyType(s.blob)]; !ok {
		s.key, err = parseKey(s.blob)
		return err
	}
	if s.cert, err = parseCertificate(s.blob); err == nil {
		s.key = s.cert.key
	}
	return err
}
