package authz

import (
	"encoding/base64"
	"encoding/binary"
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

// wire reads the SSH encoding of RFC 4251, section 5. After a read beyond the end,
// bad is set and all reads return nil or 0.
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

func (w *wire) long() uint64 {
	b := w.take(8)
	if w.bad {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// next reads a string, or an mpint's bytes.
func (w *wire) next() []byte { return w.take(uint64(w.number())) }

// ended reports whether all bytes were read without an error.
func (w *wire) ended() bool { return !w.bad && len(w.rest) == 0 }

// appendString writes a string as next reads it.
func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
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

// parseInner reads a plain signature, inside an SSHSIG or at the end of a
// certificate. It checks that format and length fit the key's type.
func parseInner(key ssh.PublicKey, b []byte) (*ssh.Signature, error) {
	w := wire{rest: b}
	format, value := string(w.next()), w.next()
	var rest []byte
	want := key.Type()
	switch key.(type) {
	case securityKey:
		rest = w.take(5) // flags and counter
	case passkey:
		want, rest = keyAlgoWebAuthn, w.take(uint64(len(w.rest)))
		if _, err := parseAssertion(rest); err != nil {
			return nil, err
		}
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
	default: // ECDSA, RFC 5656, 3.1.2; also of a security key or a passkey
		pair := wire{rest: value}
		r, s := pair.next(), pair.next()
		fits = format == want && pair.ended() && positive(r) && positive(s)
	}
	if !fits {
		return nil, refusal.New(refusal.Malformed, "the inner signature has not the form of one by a %s key", want)
	}
	return &ssh.Signature{Format: format, Blob: value, Rest: rest}, nil
}
