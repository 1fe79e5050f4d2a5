package op

import (
	"unicode"
	"unicode/utf8"

	"gated/internal/base/refusal"
)

// Limits on what a step may have. They hold at every entry.
const (
	// MaxPayload is the largest payload in bytes.
	MaxPayload = 64 << 10
	// MaxReason is the longest reason in bytes.
	MaxReason = 1024
	// MaxSteps is the most steps a job may have.
	MaxSteps = 64
	// MaxSignatures is the most signatures an envelope may have.
	MaxSignatures = 16
	// MaxLabels is the most bytes, names and values together, in an object of
	// labels. Escaped as JSON they still fit into a payload.
	MaxLabels = 16 << 10
	// MaxInt is the largest magnitude of an integer parameter, 2^53-1. Above it, a
	// JSON reader that uses floats would read another number (RFC 7493, 2.2).
	MaxInt = 1<<53 - 1
	// MaxDepth is the deepest nesting of parameters, the params object being 1.
	MaxDepth = 4
)

// CheckText refuses text that a terminal could show as something else. This is
// invalid UTF-8 and the Unicode classes Cc, Cf, Zl and Zp (controls, zero-width and
// bidirectional marks, line separators). The name of the field, what, is in the
// refusal.
func CheckText(what, s string) error {
	if printableASCII(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return refusal.New(refusal.Malformed, "%s is not valid UTF-8", what)
	}
	for i, r := range s {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return refusal.New(refusal.Malformed,
				"%s has the character %U at byte %d, which does not show on a terminal as it is", what, r, i).
				WithHint("remove control, format and line-separator characters")
		}
	}
	return nil
}

// printableASCII lets almost all texts skip the Unicode tables.
func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
