package authz

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// MaxTrust is the largest allowed_signers file in bytes.
const MaxTrust = 1 << 20

// Trust is a parsed allowed_signers file, with its list of revoked keys. It never
// changes. A nil Trust lists no signer.
type Trust struct {
	text    []byte
	digest  string
	entries []entry
	byKey   map[string][]int // a key line's key → indexes into entries, in the file's order
	byCA    map[string][]int // the same for a CA's lines; keys are in wire encoding
	revoked *Revoked
}

// entry is one line, of a key or of a CA.
type entry struct {
	Listed
	public     ssh.PublicKey
	namespaces []string // all different, in the line's order
}

// Listed is one line as people see it.
type Listed struct {
	Line      int       // from 1
	Principal string    // of a CA's line, the patterns that a certificate's principal must match
	CA        bool      // the line is a CA's
	Key       string    // SHA256 fingerprint
	Roles     []op.Role // built-in ones in op.Roles' order, then others by name; empty if no namespace is a role's
	Batches   []op.Role // those of Roles in which the line may sign batches too, in the same order
	KeyType   string
	// Software says that a process which can read the key's file, or reach its
	// agent, can sign without a person's touch. It is true for every CA, because a
	// CA may certify such keys.
	Software bool
	// ValidAfter and ValidBefore are inclusive, in whole seconds, UTC. Zero means
	// that the line sets no limit.
	ValidAfter, ValidBefore time.Time
}

// String names the line's owner, roles and key, without the key itself. It escapes
// all but ASCII in the owner's name, because letters of other scripts look like
// ASCII.
func (l Listed) String() string {
	out := op.ShownName(l.Principal) + " " + joined(l.Roles) + " " + l.Key
	if len(l.Batches) > 0 {
		out += " batch=" + joined(l.Batches)
	}
	if l.CA {
		out += " cert-authority"
	}
	return out
}

func joined(roles []op.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ",")
}

// LoadTrust parses an allowed_signers file (protocol section 3). If it would have to
// guess about a line, it refuses the whole file as Malformed. The detail starts with
// "line N: " and has no key material. A file without a key line is valid and lists
// no signer.
func LoadTrust(data []byte) (*Trust, error) {
	if len(data) > MaxTrust {
		return nil, refusal.New(refusal.Malformed, "the allowed_signers file has %d bytes, more than %d", len(data), MaxTrust)
	}
	t := &Trust{text: bytes.Clone(data), digest: op.SHA256(data), byKey: map[string][]int{}, byCA: map[string][]int{}}
	for i, text := range strings.Split(string(data), "\n") {
		e, ok, err := parseLine(text)
		if err != nil {
			r := refusal.As(err)
			return nil, refusal.New(refusal.Malformed, "line %d: %s", i+1, r.Detail).WithHint("%s", r.Hint)
		}
		if !ok {
			continue
		}
		e.Line = i + 1
		lines, blob := t.byKey, string(e.public.Marshal())
		if e.CA {
			lines = t.byCA
		}
		lines[blob] = append(lines[blob], len(t.entries))
		t.entries = append(t.entries, e)
	}
	return t, nil
}

// Digest returns the SHA-256 of the file's bytes in lower-case hex.
func (t *Trust) Digest() string {
	if t == nil {
		return ""
	}
	return t.digest
}

// Text returns the file's bytes.
func (t *Trust) Text() []byte {
	if t == nil {
		return nil
	}
	return bytes.Clone(t.text)
}

// Signers returns every line, revoked or not, in the file's order.
func (t *Trust) Signers() []Listed {
	if t == nil {
		return nil
	}
	out := make([]Listed, len(t.entries))
	for i, e := range t.entries {
		out[i] = e.Listed
		out[i].Roles = append([]op.Role(nil), e.Roles...)
		out[i].Batches = append([]op.Role(nil), e.Batches...)
	}
	return out
}

// Print returns the file in its canonical form. It has no comments or blank lines,
// one blank between fields, and quotes only around a principal that needs them. The
// options are in the order cert-authority, namespaces, valid-after, valid-before,
// and times are as short as possible. If it is loaded again, it has the same
// Signers, except for their line numbers, and prints the same.
func (t *Trust) Print() []byte {
	if t == nil {
		return nil
	}
	var b strings.Builder
	for _, e := range t.entries {
		b.WriteString(e.print())
	}
	return []byte(b.String())
}

func (e entry) print() string {
	principal := e.Principal
	if strings.ContainsAny(principal, blanks) || principal[0] == '#' {
		principal = `"` + principal + `"`
	}
	var options []string
	if e.CA {
		options = append(options, "cert-authority")
	}
	options = append(options, `namespaces="`+strings.Join(e.namespaces, ",")+`"`)
	if !e.ValidAfter.IsZero() {
		options = append(options, `valid-after="`+printTime(e.ValidAfter)+`"`)
	}
	if !e.ValidBefore.IsZero() {
		options = append(options, `valid-before="`+printTime(e.ValidBefore)+`"`)
	}
	return principal + " " + strings.Join(options, ",") + " " + string(ssh.MarshalAuthorizedKey(e.public))
}

// printTime writes the shortest of the three forms, so that printing never makes a
// file longer.
func printTime(at time.Time) string {
	switch h, m, s := at.Clock(); {
	case s != 0:
		return at.Format("20060102150405Z")
	case h != 0 || m != 0:
		return at.Format("200601021504Z")
	default:
		return at.Format("20060102Z")
	}
}

// find returns the first line that accepts a plain key for the use at that time. It
// refuses a revoked key before it looks for lines.
func (t *Trust) find(key ssh.PublicKey, u use, at time.Time) (entry, error) {
	return t.findKey(key.Marshal(), ssh.FingerprintSHA256(key), u, at)
}

func (t *Trust) findKey(blob []byte, key string, u use, at time.Time) (entry, error) {
	if t == nil {
		return firstAccepting(nil, "key "+key, u, at)
	}
	if err := t.checkRevoked(key, ""); err != nil {
		return entry{}, err
	}
	return firstAccepting(t.pick(t.byKey[string(blob)], ""), "key "+key, u, at)
}

// findCertificate returns the first line that accepts a certificate for the use at
// that time. The returned line has the certified key and the one principal.
func (t *Trust) findCertificate(c *certificate, u use, at time.Time) (entry, error) {
	if t == nil {
		return firstAccepting(nil, "the CA "+c.caPrint, u, at)
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
		return entry{}, refusal.New(refusal.UnknownSigner, "the CA %s is not listed for the principal %s",
			c.caPrint, quotedName(principal)).
			WithHint("the certificate's principal has to match the patterns of the CA's line")
	}
	e, err := firstAccepting(lines, "the CA "+c.caPrint, u, at)
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
func firstAccepting(lines []entry, what string, u use, at time.Time) (entry, error) {
	var expired *refusal.Refusal
	var others, flags []string
	for _, e := range lines {
		if !e.allows(u) {
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
	case u.batch && len(others) > 0:
		return entry{}, refusal.New(refusal.UnknownSigner, "no line lists %s for both %s and %s, so it signs no batch", what, u.role.Namespace(),
			u.namespace()).WithHint("sign each request alone; or have a rotation add the namespace %s to the line", u.namespace())
	case len(others) > 0:
		return entry{}, refusal.New(refusal.UnknownSigner, "%s is not listed for %s, only for %s",
			what, u.namespace(), strings.Join(others, ", ")).
			WithHint("sign as what the key is listed for, if that may sign this: %s; or with another key", strings.Join(flags, " or "))
	default:
		return entry{}, refusal.New(refusal.UnknownSigner, "%s is not in allowed_signers for %s", what, u.namespace()).
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
	u := use{s.Role, s.Batch != nil}
	if t == nil {
		_, err := firstAccepting(nil, "key "+s.Key, u, at)
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
	_, err := firstAccepting(same, "key "+s.Key, u, at)
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
	e, err := t.findCertificate(parsed.cert, use{s.Role, s.Batch != nil}, at)
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

// allows reports whether the line's namespaces have the use. A batch needs two of them.
func (l Listed) allows(u use) bool {
	return l.lists(u.role) && (!u.batch || slices.Contains(l.Batches, u.role))
}

// validAt compares whole seconds as ssh-keygen does. Both ends are valid.
func (l Listed) validAt(at time.Time) *refusal.Refusal {
	const layout = "2006-01-02T15:04:05Z"
	switch {
	case !l.ValidAfter.IsZero() && at.Unix() < l.ValidAfter.Unix():
		return refusal.New(refusal.SignerExpired, "key %s of %s is valid only from %s",
			l.Key, op.ShownName(l.Principal), l.ValidAfter.Format(layout)).
			WithHint("sign with a key that is valid now")
	case !l.ValidBefore.IsZero() && at.Unix() > l.ValidBefore.Unix():
		return refusal.New(refusal.SignerExpired, "key %s of %s was valid only until %s",
			l.Key, op.ShownName(l.Principal), l.ValidBefore.Format(layout)).
			WithHint("sign with a key that is valid now")
	default:
		return nil
	}
}

// Accepts returns the principal that a key or certificate, in SSH wire format, may
// sign for in a role at that time, or sign the role's batches. It refuses as the allow-list stage does. Bytes
// that are not a key are Malformed. Accepts does not verify a CA's signature.
func (t *Trust) Accepts(blob []byte, role op.Role, batch bool, at time.Time) (string, error) {
	if err := t.Blocked(); err != nil {
		return "", err
	}
	s := signature{blob: blob}
	if err := s.parseSigner(); err != nil {
		return "", err
	}
	if s.cert != nil {
		e, err := t.findCertificate(s.cert, use{role, batch}, at)
		return e.Principal, err
	}
	e, err := t.find(s.key, use{role, batch}, at)
	return e.Principal, err
}
