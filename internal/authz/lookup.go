package authz

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// find returns the first line that accepts a plain key for the role at that time. It
// refuses a revoked key before it looks for lines.
func (t *Trust) find(key ssh.PublicKey, role op.Role, at time.Time) (entry, error) {
	return t.findKey(key.Marshal(), ssh.FingerprintSHA256(key), role, at)
}

func (t *Trust) findKey(blob []byte, key string, role op.Role, at time.Time) (entry, error) {
	if t == nil {
		return firstAccepting(nil, "key "+key, role, at)
	}
	if err := t.checkRevoked(key, ""); err != nil {
		return entry{}, err
	}
	return firstAccepting(t.pick(t.byKey[string(blob)], ""), "key "+key, role, at)
}

// findCertificate returns the first line that accepts a certificate for the role at
// that time. The returned line has the certified key and the one principal.
func (t *Trust) findCertificate(c *certificate, role op.Role, at time.Time) (entry, error) {
	if t == nil {
		return firstAccepting(nil, "the CA "+c.caPrint, role, at)
	}
	if err := t.checkRevoked(c.keyPrint, c.caPrint); err != nil {
		return entry{}, err
	}
	principal, err := c.principal()
	if err != nil {
		return entry{}, err
	}
	listed := t.byCA[string(c.caBlob)]
	lines := t.pick(listed, principal)
	if len(listed) > 0 && len(lines) == 0 {
		return entry{}, refusal.New(refusal.UnknownSigner, "the CA %s is not listed for the principal %s", c.caPrint,
			quotedName(principal)).
			WithHint("the certificate's principal has to match the patterns of the CA's line")
	}
	e, err := firstAccepting(lines, "the CA "+c.caPrint, role, at)
	if err != nil {
		return entry{}, err
	}
	if err := c.validAt(at); err != nil {
		return entry{}, err
	}
	e.Principal, e.Key, e.KeyType = principal, c.keyPrint, c.key.Type()
	return e, nil
}

// pick returns the lines at those indexes. If principal is not empty, it returns
// only the CA's lines that match it.
func (t *Trust) pick(indexes []int, principal string) []entry {
	var out []entry
	for _, i := range indexes {
		if principal == "" || matchList(principal, t.entries[i].Principal) {
			out = append(out, t.entries[i])
		}
	}
	return out
}

// firstAccepting goes through the lines of one key as ssh-keygen does: it returns
// the first line whose namespaces and times both fit. The refusal names the key by
// what.
func firstAccepting(lines []entry, what string, role op.Role, at time.Time) (entry, error) {
	var expired *refusal.Refusal
	var others, flags []string
	for _, e := range lines {
		if !e.lists(role) {
			for _, r := range e.Roles {
				others, flags = append(others, r.Namespace()), append(flags, "--role "+string(r))
			}
			continue
		}
		r := e.validAt(at)
		if r == nil {
			return e, nil
		}
		expired = r
	}
	switch {
	case expired != nil:
		return entry{}, expired
	case len(others) > 0:
		return entry{}, refusal.New(refusal.UnknownSigner, "%s is not listed for %s, only for %s",
			what, role.Namespace(), strings.Join(others, ", ")).
			WithHint("sign as what the key is listed for, if that may sign this: %s; or with another key", strings.Join(flags, " or "))
	default:
		return entry{}, refusal.New(refusal.UnknownSigner, "%s is not in allowed_signers for %s", what, role.Namespace()).
			WithHint("sign with a listed key; opsign keys shows yours")
	}
}

// Still returns nil if a signature that was verified before still counts at that
// time. The key must be listed for the principal and the role, valid, and not
// revoked. For a certificate that holds of its CA, and the certificate must be
// valid. Otherwise it refuses as the allow-list stage does. It does not verify the
// signature again.
func (t *Trust) Still(s op.Signed, at time.Time) error {
	if err := t.Blocked(); err != nil {
		return err
	}
	if s.CA != "" {
		return t.stillCertified(s, at)
	}
	if t == nil {
		_, err := firstAccepting(nil, "key "+s.Key, s.Role, at)
		return err
	}
	if err := t.checkRevoked(s.Key, ""); err != nil {
		return err
	}
	var same []entry
	for _, e := range t.entries {
		if !e.CA && e.Key == s.Key && e.Principal == s.Principal {
			same = append(same, e)
		}
	}
	_, err := firstAccepting(same, "key "+s.Key, s.Role, at)
	return err
}

func (t *Trust) stillCertified(s op.Signed, at time.Time) error {
	parsed, err := parseSignature(s.Armor)
	if err != nil || parsed.cert == nil || parsed.cert.keyPrint != s.Key || parsed.cert.caPrint != s.CA {
		return refusal.New(refusal.UnknownSigner, "the signature by key %s does not hold its certificate any more", s.Key)
	}
	// The armor comes from a database. A certificate's own times count only if its
	// CA signed them.
	if err := parsed.cert.authentic(); err != nil {
		return err
	}
	e, err := t.findCertificate(parsed.cert, s.Role, at)
	if err == nil && e.Principal != s.Principal {
		return refusal.New(refusal.UnknownSigner, "the certificate of key %s is not for %s", s.Key, quotedName(s.Principal))
	}
	return err
}

// Could returns the principals that could sign in a role at that time, with keys
// that can attest the touch, in the file's order. For a CA's line it returns the
// patterns and " (certificate)". It leaves out revoked keys. If the list of revoked
// keys cannot be read, it returns nothing.
func (t *Trust) Could(role op.Role, touch op.Touch, at time.Time) []string {
	if t == nil || t.Blocked() != nil {
		return nil
	}
	var out []string
	for _, e := range t.entries {
		soft := e.Software && !e.CA // a CA may certify a security key
		if !e.lists(role) || e.validAt(at) != nil || t.revoked.holds(e.Key) || soft && touch != op.TouchNone {
			continue
		}
		name := e.Principal
		if e.CA {
			name += " (certificate)"
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// quotedName shows a principal in quotes, with all but ASCII escaped.
func quotedName(name string) string { return strconv.QuoteToASCII(name) }

func (l Listed) lists(role op.Role) bool { return slices.Contains(l.Roles, role) }

// validAt compares whole seconds as ssh-keygen does. Both ends are valid.
func (l Listed) validAt(at time.Time) *refusal.Refusal {
	const layout = "2006-01-02T15:04:05Z"
	switch {
	case !l.ValidAfter.IsZero() && at.Unix() < l.ValidAfter.Unix():
		return refusal.New(refusal.SignerExpired, "key %s of %s is valid only from %s", l.Key, op.ShownName(l.Principal),
			l.ValidAfter.Format(layout)).
			WithHint("sign with a key that is valid now")
	case !l.ValidBefore.IsZero() && at.Unix() > l.ValidBefore.Unix():
		return refusal.New(refusal.SignerExpired, "key %s of %s was valid only until %s", l.Key, op.ShownName(l.Principal),
			l.ValidBefore.Format(layout)).
			WithHint("sign with a key that is valid now")
	default:
		return nil
	}
}

// Accepts returns the principal that a key or certificate, in SSH wire format, may
// sign for in a role at that time. It refuses as the allow-list stage does. Bytes
// that are not a key are Malformed. Accepts does not verify a CA's signature.
func (t *Trust) Accepts(blob []byte, role op.Role, at time.Time) (string, error) {
	if err := t.Blocked(); err != nil {
		return "", err
	}
	s := signature{blob: blob}
	if err := s.parseSigner(); err != nil {
		return "", err
	}
	if s.cert != nil {
		e, err := t.findCertificate(s.cert, role, at)
		return e.Principal, err
	}
	e, err := t.find(s.key, role, at)
	return e.Principal, err
}
