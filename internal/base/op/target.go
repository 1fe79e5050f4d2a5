package op

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"gated/internal/base/refusal"
)

// Target names one thing that steps act on, written "kind/name". The catalogue has
// the kinds. Name matches [A-Za-z0-9][A-Za-z0-9._-]{0,127}.
type Target struct {
	Kind string
	Name string
}

// String returns "kind/name".
func (t Target) String() string { return t.Kind + "/" + t.Name }

// MarshalText writes "kind/name".
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses "kind/name" as ParseTarget does.
func (t *Target) UnmarshalText(b []byte) error {
	v, err := ParseTarget(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// ParseTarget parses "kind/name". It refuses, as Malformed, all but exactly one name
// of one kind: wildcards, lists, paths, other alphabets.
func ParseTarget(s string) (Target, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		return Target{}, refusal.New(refusal.Malformed, "target %q is not kind/name", s)
	}
	if !isWord(kind) {
		return Target{}, refusal.New(refusal.Malformed, "target %q: the kind is not lower-case letters", s)
	}
	if err := CheckName(name); err != nil {
		return Target{}, err
	}
	return Target{Kind: kind, Name: name}, nil
}

// CheckName refuses, as Malformed, a name that is not
// [A-Za-z0-9][A-Za-z0-9._-]{0,127}.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > 128 {
		return refusal.New(refusal.Malformed, "a name has 1 to 128 characters, not %d", len(name))
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return refusal.New(refusal.Malformed, "name %q: character %d is not allowed", name, i+1).
				WithHint("names are ASCII letters and digits, then also . _ and -")
		}
	}
	return nil
}

func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return s != ""
}

// Incarnation is the identity of a target, as its driver reports it. Another target
// of the same name has another incarnation. The empty one means that the target does
// not exist.
type Incarnation string

// Fingerprint is a digest of the state that a driver declares to matter: "sha256:"
// and 64 lower-case hex digits. It does not include running state and times.
type Fingerprint string

// FingerprintOf digests canonical bytes.
func FingerprintOf(b []byte) Fingerprint {
	sum := sha256.Sum256(b)
	return Fingerprint("sha256:" + hex.EncodeToString(sum[:]))
}

// Valid reports whether f has the form of a fingerprint.
func (f Fingerprint) Valid() bool {
	h, ok := strings.CutPrefix(string(f), "sha256:")
	return ok && isHex(h, 64)
}

// GateID identifies one life of one gate's state: 32 lower-case hex digits,
// random, new at init and at restore.
type GateID string

// Valid reports whether g has the form of a gate id.
func (g GateID) Valid() bool { return isHex(string(g), 32) }

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < n; i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
