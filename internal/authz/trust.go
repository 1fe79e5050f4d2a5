package authz

import (
	"bytes"
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
	names := make([]string, len(l.Roles))
	for i, r := range l.Roles {
		names[i] = string(r)
	}
	out := op.ShownName(l.Principal) + " " + strings.Join(names, ",") + " " + l.Key
	if l.CA {
		out += " cert-authority"
	}
	return out
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
