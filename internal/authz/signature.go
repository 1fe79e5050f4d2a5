package authz

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
)

// signature is one parsed SSHSIG. decode checks only its form, so all its parts are
// still unproved.
type signature struct {
	armor     string
	blob      []byte           // the key's bytes as they were sent
	key       ssh.PublicKey    // the key that signed, certified or not; nil if the type is not supported
	cert      *certificate     // nil for a plain key
	barred    *refusal.Refusal // why key is nil
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
		return signature{}, refusal.New(refusal.Malformed, "the signature is cut short or followed by other bytes")
	case magic != "SSHSIG" || version != 1:
		return signature{}, refusal.New(refusal.Malformed, "this is not an SSHSIG of version 1")
	case len(reserved) != 0:
		return signature{}, refusal.New(refusal.Malformed, "the signature's reserved field is not empty")
	case hash != sshsig.HashSHA512 && hash != sshsig.HashSHA256:
		return signature{}, refusal.New(refusal.Malformed, "the signature's hash is neither sha512 nor sha256")
	}
	s := signature{armor: armored, blob: key, namespace: string(namespace), hash: hash}
	err = s.parseSigner()
	if errors.Is(err, refusal.UnknownSigner) {
		// The allow-list refuses this key later, after the namespace stage.
		s.key, s.cert, s.barred = nil, nil, refusal.As(err)
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

// MaxArmor is the longest armored signature in bytes. The longest possible one has
// 13 KiB: an RSA key of 16,384 bits signs with a certificate by another such key.
const MaxArmor = 16 << 10

// maxArmorLine is the longest line of base64. ssh-keygen writes 70 characters,
// PROTOCOL.sshsig says 76, and PEM writers use 64.
const maxArmorLine = 76

const (
	armorBegin = "-----BEGIN SSH SIGNATURE-----\n"
	armorEnd   = "-----END SSH SIGNATURE-----"
)

// dearmor returns the blob inside an armored signature. It accepts what ssh-keygen
// writes: two marker lines, and one canonical base64 text between them in lines of
// equal length. One newline may follow. Unlike this, encoding/pem would skip text,
// headers and blank lines.
func dearmor(s string) ([]byte, error) {
	if len(s) > MaxArmor {
		return nil, refusal.New(refusal.Oversized, "the armored signature has %d bytes, more than %d", len(s), MaxArmor)
	}
	body, ok := strings.CutPrefix(s, armorBegin)
	if !ok {
		return nil, notArmor("it does not start with the line -----BEGIN SSH SIGNATURE-----")
	}
	body, ok = strings.CutSuffix(strings.TrimSuffix(body, "\n"), "\n"+armorEnd)
	if !ok {
		return nil, notArmor("it does not end with the line -----END SSH SIGNATURE-----")
	}
	text, ok := joinLines(body)
	if !ok {
		return nil, notArmor("its lines are not all of one length, at most 76 characters")
	}
	blob, err := base64.StdEncoding.DecodeString(text)
	// The decoder skips CR and accepts wrong bits in the last character.
	if err != nil || base64.StdEncoding.EncodeToString(blob) != text {
		return nil, notArmor("between its markers is not one base64 text")
	}
	return blob, nil
}

// joinLines joins lines of equal length; the last one may be shorter.
func joinLines(body string) (string, bool) {
	lines := strings.Split(body, "\n")
	width, last := len(lines[0]), len(lines)-1
	for i, line := range lines {
		if line == "" || len(line) > width || i < last && len(line) < width {
			return "", false
		}
	}
	return strings.Join(lines, ""), width <= maxArmorLine
}

func notArmor(why string) error {
	return refusal.New(refusal.Malformed, "this is not an armored SSH signature: %s", why).
		WithHint("give the file that ssh-keygen -Y sign wrote, unchanged")
}
