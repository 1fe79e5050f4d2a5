package authz

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// MaxRevoked is the largest revocation file in bytes.
const MaxRevoked = 1 << 20

// Revoked is a parsed revocation file: keys, and CAs' keys, that no longer count. It
// never changes. Nil revokes nothing.
type Revoked struct {
	digest     string
	keys       map[string]bool  // by SHA256 fingerprint
	unreadable *refusal.Refusal // why every key is refused
	harmless   bool             // of an unreadable list: no key was revoked before
}

// LoadRevoked parses a revocation file. A line is a public key as OpenSSH writes it,
// a SHA256 fingerprint, or a comment after #. A certificate revokes its key, as with
// ssh-keygen. If a line is something else, LoadRevoked refuses the whole file as
// Malformed. The detail starts with "line N: " and has no key material.
func LoadRevoked(data []byte) (*Revoked, error) {
	if len(data) > MaxRevoked {
		return nil, refusal.New(refusal.Malformed, "the revocation file has %d bytes, more than %d", len(data), MaxRevoked)
	}
	r := &Revoked{digest: op.SHA256(data), keys: map[string]bool{}}
	for i, line := range strings.Split(string(data), "\n") {
		key, err := parseRevoked(line)
		if err != nil {
			refused := refusal.As(err)
			return nil, refusal.New(refusal.Malformed, "line %d: %s", i+1, refused.Detail).WithHint("%s", refused.Hint)
		}
		if key != "" {
			r.keys[key] = true
		}
	}
	return r, nil
}

// UnreadableRevoked returns the list for a revocation file that cannot be read or
// does not load. A Trust with it refuses every key, as Unavailable, because any key
// may be revoked.
func UnreadableRevoked(err error) *Revoked {
	refused := refusal.New(refusal.Unavailable, "the revocation file cannot be read, so no signature counts").
		WithHint("repair the revocation file; nothing that is authorized is lost")
	var why *refusal.Refusal
	if errors.As(err, &why) {
		refused.Detail += ": " + why.Detail
	}
	return &Revoked{unreadable: refused.At(refusal.StageAllowList)}
}

// MissingRevoked returns the list for a required revocation file that never existed,
// if no key was revoked before. It refuses every key too, but Revokes reports false.
func MissingRevoked(err error) *Revoked {
	r := UnreadableRevoked(err)
	r.harmless = true
	return r
}

// Revokes reports whether a gate with this list must not start without one, because
// the list revokes a key, or may.
func (r *Revoked) Revokes() bool {
	return r != nil && (len(r.keys) > 0 || r.unreadable != nil && !r.harmless)
}

// Covers reports whether r refuses every key that other revokes.
func (r *Revoked) Covers(other *Revoked) bool {
	if other == nil || r != nil && r.unreadable != nil {
		return true
	}
	for key := range other.keys {
		if !r.holds(key) {
			return false
		}
	}
	return true
}

// With returns the list of the keys that r or other revokes. Both can be read. Its
// digest is that of the fingerprints, one a line, in their order.
func (r *Revoked) With(other *Revoked) *Revoked {
	if r == nil || other == nil {
		return cmp.Or(r, other)
	}
	keys := maps.Clone(r.keys)
	maps.Copy(keys, other.keys)
	return &Revoked{digest: op.SHA256([]byte(strings.Join(slices.Sorted(maps.Keys(keys)), "\n"))), keys: keys}
}

// Digest returns the SHA-256 of the file's bytes in lower-case hex. It returns "" if
// there is no file or it is unreadable.
func (r *Revoked) Digest() string {
	if r == nil {
		return ""
	}
	return r.digest
}

// Count returns how many keys are revoked.
func (r *Revoked) Count() int {
	if r == nil {
		return 0
	}
	return len(r.keys)
}

// RevokedUnreadable is the RevokedDigest of a revocation file that cannot be read.
const RevokedUnreadable = "unreadable"

// RevokedDigest returns the digest of the revocation file in force: "" if there
// is none, RevokedUnreadable if it cannot be read.
func (t *Trust) RevokedDigest() string {
	if t.Blocked() != nil {
		return RevokedUnreadable
	}
	if t == nil {
		return ""
	}
	return t.revoked.Digest()
}

// RevokedKeys returns the fingerprints of the keys that the list in force names, sorted.
func (t *Trust) RevokedKeys() []string {
	if t == nil || t.revoked == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.revoked.keys))
}

// Revokes reports Revoked.Revokes of the list in force.
func (t *Trust) Revokes() bool { return t != nil && t.revoked.Revokes() }

// IsRevoked reports whether the list in force names a key, by its fingerprint.
func (t *Trust) IsRevoked(key string) bool { return t != nil && t.revoked.holds(key) }

func (r *Revoked) holds(key string) bool { return r != nil && r.keys[key] }

// WithRevoked returns the same file with another revocation list.
func (t *Trust) WithRevoked(r *Revoked) *Trust {
	out := Trust{}
	if t != nil {
		out = *t
	}
	out.revoked = r
	return &out
}

// Succeeded returns the next file, with the revocation list of this one.
func (t *Trust) Succeeded(next *Trust) *Trust { return next.WithRevoked(t.revoked) }

// ToStop returns the same file for signers who stop a step. It drops an unreadable
// list of revoked keys. Letting a revoked key stop a step costs less than if no key
// could stop it.
func (t *Trust) ToStop() *Trust {
	if t.Blocked() == nil {
		return t
	}
	return t.WithRevoked(nil)
}

// Blocked returns why every signature is refused, if the revocation file cannot be
// read; else nil. Authorized steps then wait and do not end.
func (t *Trust) Blocked() error {
	if t == nil {
		return nil
	}
	return t.revoked.Blocked()
}

// Blocked returns why this list refuses every key, nil if it does not.
func (r *Revoked) Blocked() error {
	if r == nil || r.unreadable == nil {
		return nil
	}
	why := *r.unreadable
	return &why
}

// checkRevoked refuses a key, and the CA that certified it if there is one.
func (t *Trust) checkRevoked(key, ca string) error {
	if t == nil || t.revoked == nil {
		return nil
	}
	if err := t.Blocked(); err != nil {
		return err
	}
	switch {
	case t.revoked.holds(key):
		return refusal.New(refusal.SignerRevoked, "key %s is revoked", key).WithHint("sign with another key")
	case ca != "" && t.revoked.holds(ca):
		return refusal.New(refusal.SignerRevoked, "the CA %s of key %s is revoked", ca, key).WithHint("sign with another key")
	default:
		return nil
	}
}

// parseRevoked returns the fingerprint that a line revokes, or "" for a blank line
// or a comment.
func parseRevoked(s string) (string, error) {
	if strings.Contains(s, "\r") {
		return "", badLine("a carriage return; lines end with a newline alone")
	}
	if err := op.CheckText("the line", strings.ReplaceAll(s, "\t", " ")); err != nil {
		return "", err
	}
	s = strings.Trim(s, blanks)
	switch {
	case s == "" || s[0] == '#':
		return "", nil
	case strings.HasPrefix(s, "SHA256:"):
		sum, err := base64.RawStdEncoding.Strict().DecodeString(s[len("SHA256:"):])
		if err != nil || len(sum) != 32 {
			return "", badLine("what follows SHA256: is not the 43 characters of a fingerprint")
		}
		return s, nil
	case !isKeyType(s):
		return "", refusal.New(refusal.Malformed, "it is neither a public key nor a fingerprint").
			WithHint("write a line of a .pub file, or SHA256:…, as ssh-keygen -lf prints it")
	default:
		return revokedKey(s)
	}
}

// revokedKey reads a public key. It may be too weak to be accepted elsewhere.
func revokedKey(s string) (string, error) {
	blob, err := keyFields(s)
	if err != nil {
		return "", err
	}
	if _, ok := certifies[keyType(blob)]; ok {
		c, err := parseCertificate(blob)
		if err != nil {
			return "", err
		}
		return c.keyPrint, nil
	}
	key, err := parseKey(blob)
	switch {
	case errors.Is(err, refusal.WeakKey):
		sum := sha256.Sum256(blob)
		return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), nil
	case err != nil:
		return "", err
	default:
		return ssh.FingerprintSHA256(key), nil
	}
}
