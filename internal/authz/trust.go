package authz

import (
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"gated/internal/op"
)

// MaxTrust is the largest allowed_signers file in bytes.
const MaxTrust = 1 << 20

// Trust is a parsed allowed_signers file. It never changes. A nil Trust lists
// nobody.
type Trust struct {
	digest  string
	entries []entry
	byKey   map[string][]int // the key's wire encoding → indexes into entries, in the file's order
}

// entry is one key line.
type entry struct {
	Listed
	public ssh.PublicKey
}

// Listed is one key line as people are shown it.
type Listed struct {
	Line      int // from 1
	Principal string
	Key       string    // SHA256 fingerprint
	Roles     []op.Role // in op.Roles' order; empty if its namespaces are none of ours
	KeyType   string
	// Software says that any process which can read the key's file, or reach
	// the agent that holds it, can sign without a person's touch.
	Software bool
	// ValidAfter and ValidBefore are inclusive, in whole seconds, UTC; zero
	// where the line sets no limit.
	ValidAfter, ValidBefore time.Time
}

// LoadTrust parses an allowed_signers file (protocol section 3). It refuses the
// whole file, as Malformed, for the first line that it would have to guess
// about; the detail starts with "line N: " and holds no key material. A file
// without a key line is fine: it lists nobody.
func LoadTrust(data []byte) (*Trust, error) {
	if len(data) > MaxTrust {
		return nil, op.Refuse(op.Malformed, "the allowed_signers file has %d bytes, more than %d", len(data), MaxTrust)
	}
	t := &Trust{digest: op.SHA256(data), byKey: map[string][]int{}}
	for i, text := range strings.Split(string(data), "\n") {
		e, ok, err := parseLine(text)
		if err != nil {
			r := op.AsRefusal(err)
			return nil, op.Refuse(op.Malformed, "line %d: %s", i+1, r.Detail).WithHint("%s", r.Hint)
		}
		if !ok {
			continue
		}
		e.Line = i + 1
		blob := string(e.public.Marshal())
		t.byKey[blob] = append(t.byKey[blob], len(t.entries))
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

// Signers returns every key line in the file's order.
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

// Still returns nil if the key with that SHA256 fingerprint is listed for the
// principal and the role, and valid at that time. Else it refuses with
// SignerExpired if only the time is wrong, with UnknownSigner if not.
func (t *Trust) Still(principal, key string, role op.Role, at time.Time) error {
	var same []entry
	if t != nil {
		for _, e := range t.entries {
			if e.Key == key && e.Principal == principal {
				same = append(same, e)
			}
		}
	}
	_, err := firstAccepting(same, key, role, at)
	return err
}

// find returns the first line that accepts the key for the role at that time.
func (t *Trust) find(key ssh.PublicKey, role op.Role, at time.Time) (entry, error) {
	var same []entry
	if t != nil {
		for _, i := range t.byKey[string(key.Marshal())] {
			same = append(same, t.entries[i])
		}
	}
	return firstAccepting(same, ssh.FingerprintSHA256(key), role, at)
}

// firstAccepting goes through the lines of one key as ssh-keygen does: the
// first whose namespaces and times both fit wins.
func firstAccepting(lines []entry, key string, role op.Role, at time.Time) (entry, error) {
	var expired *op.Refusal
	var others []string
	for _, e := range lines {
		if !e.lists(role) {
			for _, r := range e.Roles {
				others = append(others, r.Namespace())
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
		return entry{}, op.Refuse(op.UnknownSigner, "key %s is not listed for %s, only for %s",
			key, role.Namespace(), strings.Join(others, ", ")).
			WithHint("sign with --role of what the key is listed for, or with another key")
	default:
		return entry{}, op.Refuse(op.UnknownSigner, "key %s is not in allowed_signers for %s", key, role.Namespace()).
			WithHint("sign with a listed key; opsign keys shows yours")
	}
}

func (l Listed) lists(role op.Role) bool {
	for _, r := range l.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// validAt compares whole seconds and both ends inclusively, as ssh-keygen does.
func (l Listed) validAt(at time.Time) *op.Refusal {
	const layout = "2006-01-02T15:04:05Z"
	switch {
	case !l.ValidAfter.IsZero() && at.Unix() < l.ValidAfter.Unix():
		return op.Refuse(op.SignerExpired, "key %s of %s is valid only from %s", l.Key, l.Principal, l.ValidAfter.Format(layout)).
			WithHint("sign with a key that is valid now")
	case !l.ValidBefore.IsZero() && at.Unix() > l.ValidBefore.Unix():
		return op.Refuse(op.SignerExpired, "key %s of %s was valid only until %s", l.Key, l.Principal, l.ValidBefore.Format(layout)).
			WithHint("sign with a key that is valid now")
	default:
		return nil
	}
}
