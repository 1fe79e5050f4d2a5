package client

import (
	"path/filepath"
	"strings"

	"gated/internal/base/refusal"
)

// unixScheme begins the address of a gate of this host.
const unixScheme = "unix:"

// Address is a gate's address in its one form, as in known_gates: "unix:" and the absolute path of a socket, or the
// text of Remote.String.
type Address string

// UnixAddress returns the address of a socket of this host. A relative path is below the working directory.
func UnixAddress(path string) Address {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return Address(unixScheme + escape(path))
}

// ParseAddress reads an address as people write it: in its one form, as a remote gate's, or as a socket's path.
// Anything else is Malformed.
func ParseAddress(text string) (Address, error) {
	if filepath.IsAbs(text) {
		return UnixAddress(text), nil
	}
	if strings.HasPrefix(text, sshScheme) {
		r, err := ParseRemote(text)
		return Address(r.String()), err
	}
	rest, ok := strings.CutPrefix(text, unixScheme)
	path, escaped := unescape(rest)
	if !ok || !escaped || !filepath.IsAbs(path) {
		return "", refusal.New(refusal.Malformed, "%q is not the address of a gate", text).
			WithHint("write it as opsign known lists it: unix:/path/to/socket or ssh://[user@]host[:port][/path]")
	}
	return UnixAddress(path), nil
}

const hexDigits = "0123456789ABCDEF"

// escape writes a percent sign and two digits for each byte that could end a field of known_gates or does not print.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > 0x20 && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&0xf]})
		}
	}
	return b.String()
}

// unescape reverses escape. It accepts only what escape writes.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), escape(b.String()) == s
}

// Remote reports whether the gate is on another host.
func (a Address) Remote() bool { return strings.HasPrefix(string(a), sshScheme) }
