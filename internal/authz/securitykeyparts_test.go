package authz

import (
	"crypto/elliptic"
	"encoding/base64"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// malformedSecurityKeys returns a good blob of each type, and blobs with one wrong
// part each.
func malformedSecurityKeys() (good [][]byte, bad map[string][]byte) {
	params := elliptic.P256().Params()
	point := slices.Concat([]byte{4}, params.Gx.FillBytes(make([]byte, 32)), params.Gy.FillBytes(make([]byte, 32)))
	off, packed := slices.Clone(point), append([]byte{2 + point[64]&1}, point[1:33]...)
	off[64] ^= 1
	edKey := make([]byte, 32)
	blob := func(parts ...string) []byte {
		var b []byte
		for _, p := range parts {
			b = appendString(b, p)
		}
		return b
	}
	ed := func(key []byte, more ...string) []byte {
		return blob(slices.Concat([]string{ssh.KeyAlgoSKED25519, string(key)}, more)...)
	}
	ec := func(key []byte, more ...string) []byte {
		return blob(slices.Concat([]string{ssh.KeyAlgoSKECDSA256, "nistp256", string(key)}, more)...)
	}
	bad = map[string][]byte{
		"ed25519, no bytes":                   ed(nil, "ssh:"),
		"ed25519, a byte less":                ed(edKey[1:], "ssh:"),
		"ed25519, a byte more":                ed(append(edKey, 0), "ssh:"),
		"ed25519, no application":             ed(edKey),
		"ed25519, a string after it":          ed(edKey, "ssh:", ""),
		"ed25519, a byte after it":            append(ed(edKey, "ssh:"), 0),
		"ed25519, cut in the key":             ed(edKey)[:40],
		"ed25519, cut in the application":     ed(edKey, "ssh:")[:len(ed(edKey, "ssh:"))-1],
		"ed25519, empty application":          ed(edKey, ""),
		"ed25519, application of a web site":  ed(edKey, "webauthn.io"),
		"ed25519, application in capitals":    ed(edKey, "SSH:"),
		"ed25519, application with an escape": ed(edKey, "ssh:\x1b[2J"),
		"ed25519, application not UTF-8":      ed(edKey, "ssh:\xff"),
		"ecdsa, no point":                     ec(nil, "ssh:"),
		"ecdsa, point at infinity":            ec([]byte{0}, "ssh:"),
		"ecdsa, point off the curve":          ec(off, "ssh:"),
		"ecdsa, compressed point":             ec(packed, "ssh:"),
		"ecdsa, point a byte less":            ec(point[:64], "ssh:"),
		"ecdsa, no application":               ec(point),
		"ecdsa, a string after it":            ec(point, "ssh:", ""),
		"ecdsa, a byte after it":              append(ec(point, "ssh:"), 0),
		"ecdsa, another curve":                blob(ssh.KeyAlgoSKECDSA256, "nistp384", string(point), "ssh:"),
		"ecdsa, no curve":                     blob(ssh.KeyAlgoSKECDSA256, "", string(point), "ssh:"),
		"ecdsa, application of a web site":    ec(point, "https://ssh:"),
		"ecdsa, application with an escape":   ec(point, "ssh:\x1b[2J"),
	}
	return [][]byte{ed(edKey, "ssh:"), ec(point, "ssh:")}, bad
}

// TestMalformedSecurityKeys: this package alone refuses a malformed key, whatever
// the library checks before, also in a line of the file.
func TestMalformedSecurityKeys(t *testing.T) {
	t.Parallel()
	line := func(blob []byte) []byte {
		return []byte(`frank@example.com namespaces="operational@gated" ` + keyType(blob) + " " + base64.StdEncoding.EncodeToString(blob) + "\n")
	}
	good, bad := malformedSecurityKeys()
	for _, blob := range good {
		must.Get(securityKeyOf(nil, blob))(t)
		must.Get(LoadTrust(line(blob)))(t)
	}
	for name, blob := range bad {
		must.Fail(securityKeyOf(nil, blob))(t, refusal.Malformed, name)
		must.Fail(LoadTrust(line(blob)))(t, refusal.Malformed, name)
	}
}
