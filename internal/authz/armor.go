package authz

import (
	"encoding/base64"
	"strings"

	"gated/internal/op"
)

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
// writes: two marker lines, one canonical base64 text between them in lines of equal
// length, and one last newline. encoding/pem would skip text, headers and blank
// lines.
func dearmor(s string) ([]byte, error) {
	if len(s) > MaxArmor {
		return nil, op.Refuse(op.Oversized, "the armored signature has %d bytes, more than %d", len(s), MaxArmor)
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
	return op.Refuse(op.Malformed, "this is not an armored SSH signature: %s", why).
		WithHint("give the file that ssh-keygen -Y sign wrote, unchanged")
}
