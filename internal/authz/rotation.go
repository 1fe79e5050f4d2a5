package authz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Rotation is a checked change of a trust file.
type Rotation struct {
	Trust          *Trust // the new file, with the same revocation list
	Text           []byte // the new file; lines that stay are unchanged
	Added, Removed []Listed
	Roles          []op.Role // the roles of all added and removed lines
	Reserved       bool      // a line of recovery, of break-glass or of a CA changes: only the role recovery may approve that
	owed           []Owed
}

// Owed is a proof of possession that a rotation needs: a signature by the key in the
// role. For a CA's line, the CA's own key signs.
type Owed struct {
	Key  string // SHA256 fingerprint
	Role op.Role
}

// Rotate returns the file without the lines of the keys in remove, by SHA256
// fingerprint, and with the lines of add at the end. It refuses, as BadParams, a
// rotation that changes nothing, and a removed key that is not listed. It refuses an
// added line that would not load, names no role or has ended, or whose key is
// revoked or stays listed. It also refuses to take from a role the last key that is
// valid at that time. It refuses as Blocked does.
func (t *Trust) Rotate(add, remove []string, at time.Time) (Rotation, error) {
	if err := t.Blocked(); err != nil {
		return Rotation{}, err
	}
	if len(add) == 0 && len(remove) == 0 {
		return Rotation{}, refusal.New(refusal.BadParams, "the rotation neither adds nor removes a key")
	}
	var r Rotation
	gone, err := t.remove(&r, remove)
	if err != nil {
		return Rotation{}, err
	}
	if err := t.add(&r, add, gone, at); err != nil {
		return Rotation{}, err
	}
	r.Text = t.rewritten(gone, add)
	after, err := LoadTrust(r.Text)
	if err != nil {
		return Rotation{}, refusal.New(refusal.BadParams, "the file would not load: %s", refusal.As(err).Detail)
	}
	if t != nil {
		after.revoked = t.revoked
	}
	r.Trust = after
	r.touch()
	if err := t.keepsRoles(r, at); err != nil {
		return Rotation{}, err
	}
	return r, nil
}

// remove fills in the removed lines, and returns their numbers.
func (t *Trust) remove(r *Rotation, keys []string) (gone map[int]bool, err error) {
	gone = map[int]bool{}
	for i, key := range keys {
		lines := t.linesOf(key)
		switch {
		case len(lines) == 0:
			return nil, refusal.New(refusal.BadParams, "no line lists the key %.64q", key).
				WithHint("gated trust show lists the keys")
		case slices.Contains(keys[:i], key):
			return nil, refusal.New(refusal.BadParams, "the key %s is to be removed twice", key)
		}
		for _, l := range lines {
			gone[l.Line] = true
			r.Removed = append(r.Removed, l)
		}
	}
	return gone, nil
}

// add fills in the added lines and the proofs that they need. Each key and role
// needs one if the file does not list it for the same use now. If only the principal
// or the time of a line changes, its key's holder need not sign.
func (t *Trust) add(r *Rotation, lines []string, gone map[int]bool, at time.Time) error {
	for i, line := range lines {
		e, err := addition(line)
		if err != nil {
			refused := refusal.As(err)
			return refusal.New(refusal.BadParams, "line %d to add: %s", i+1, refused.Detail).WithHint("%s", refused.Hint)
		}
		before := t.linesOf(e.Key)
		switch {
		case slices.ContainsFunc(before, func(old Listed) bool { return !gone[old.Line] }):
			return refusal.New(refusal.BadParams, "the key %s is listed already", e.Key).
				WithHint("to change its line, remove the key in the same rotation")
		case t != nil && t.revoked.holds(e.Key):
			return refusal.New(refusal.BadParams, "the key %s is revoked", e.Key).WithHint("add another key")
		case !e.ValidBefore.IsZero() && at.Unix() > e.ValidBefore.Unix():
			return refusal.New(refusal.BadParams, "line %d to add: its valid-before has passed", i+1)
		}
		r.Added = append(r.Added, e.Listed)
		for _, role := range e.Roles {
			owed := Owed{Key: e.Key, Role: role}
			proven := slices.ContainsFunc(before, func(old Listed) bool {
				return old.CA == e.CA && old.lists(role) && old.validAt(at) == nil
			})
			if !proven && !slices.Contains(r.owed, owed) {
				r.owed = append(r.owed, owed)
			}
		}
	}
	return nil
}

// addition parses a line that is to be added.
func addition(line string) (entry, error) {
	switch e, ok, err := parseLine(line); {
	case err != nil:
		return entry{}, err
	case !ok || len(e.Roles) == 0:
		return entry{}, refusal.New(refusal.BadParams, "it lists no key for a role")
	default:
		return e, CheckNewPrincipal(e.Principal)
	}
}

// rewritten returns the file without the lines of those numbers, with the added
// lines at the end.
func (t *Trust) rewritten(gone map[int]bool, add []string) []byte {
	var text strings.Builder
	for i, line := range strings.SplitAfter(string(t.Text()), "\n") {
		if !gone[i+1] {
			text.WriteString(line)
		}
	}
	if s := text.String(); len(add) > 0 && s != "" && !strings.HasSuffix(s, "\n") {
		text.WriteByte('\n')
	}
	for _, line := range add {
		text.WriteString(line + "\n")
	}
	return []byte(text.String())
}

func (t *Trust) linesOf(key string) []Listed {
	return slices.DeleteFunc(t.Signers(), func(l Listed) bool { return l.Key != key })
}

// touch fills in the roles that the rotation changes.
func (r *Rotation) touch() {
	for _, l := range slices.Concat(r.Added, r.Removed) {
		for _, role := range l.Roles {
			if !slices.Contains(r.Roles, role) {
				r.Roles = append(r.Roles, role)
			}
			r.Reserved = r.Reserved || role.Reserved()
		}
		r.Reserved = r.Reserved || l.CA
	}
}

// lasting is how long, at least, a role must keep a key. A key that ends in a minute
// is no successor.
const lasting = 24 * time.Hour

// keepsRoles refuses a rotation if a role that had a key has none afterwards, or
// soon will have none. The last key of break-glass may go, because the others go on without it.
func (t *Trust) keepsRoles(r Rotation, at time.Time) error {
	for _, role := range r.Roles {
		now := t.keeps(role, at, at) && !r.Trust.keeps(role, at, at)
		soon := t.keeps(role, at, at.Add(lasting)) && !r.Trust.keeps(role, at, at.Add(lasting))
		if (now || soon) && role != op.BreakGlass {
			return refusal.New(refusal.BadParams, "the last key of the role %s cannot go", role).
				WithHint("add its successor in the same rotation, valid for a day at the least")
		}
	}
	return nil
}

// keeps reports whether a role has a key at both times.
func (t *Trust) keeps(role op.Role, at, later time.Time) bool {
	return t != nil && slices.ContainsFunc(t.entries, func(e entry) bool {
		return e.lists(role) && e.validAt(at) == nil && e.validAt(later) == nil && !t.revoked.holds(e.Key)
	})
}

// Owed returns the proofs of possession that the rotation needs, in the order of the
// added lines.
func (r Rotation) Owed() []Owed { return slices.Clone(r.owed) }

// Effect is what a line that a rotation adds or removes means for the people who can
// sign.
type Effect struct {
	Listed
	Added  bool
	New    bool      // no line names the principal before the rotation
	Before []op.Role // of an added line: the roles of the key under that principal before the rotation
	Batch  []op.Role // the same: in which of them it might sign batches
	Others int       // how many other keys of the principal count after the rotation
	Like   string    // another principal whose name looks like this new one, or ""
}

// Effects returns what a checked rotation means, line by line, with the added lines
// first. If a new line replaces one of the same key and principal, only the added
// line is listed.
func (t *Trust) Effects(r Rotation, at time.Time) []Effect {
	var out []Effect
	for _, l := range r.Added {
		e := Effect{Listed: l, Added: true, New: !slices.ContainsFunc(t.Signers(), func(old Listed) bool { return old.Principal == l.Principal })}
		for _, old := range r.Removed {
			if sameHolder(old, l) {
				e.Before = append(e.Before, old.Roles...)
				e.Batch = append(e.Batch, old.Batches...)
			}
		}
		e.Others = r.Trust.others(l, at)
		if e.New {
			e.Like = r.Trust.like(l.Principal)
		}
		out = append(out, e)
	}
	for _, l := range r.Removed {
		if !slices.ContainsFunc(r.Added, func(n Listed) bool { return sameHolder(n, l) }) {
			out = append(out, Effect{Listed: l, Others: r.Trust.others(l, at)})
		}
	}
	return out
}

func sameHolder(a, b Listed) bool {
	return a.Key == b.Key && a.CA == b.CA && a.Principal == b.Principal
}

// others counts the other keys of a line's principal that are valid at that time,
// not revoked, and have a role.
func (t *Trust) others(l Listed, at time.Time) int {
	keys := map[string]bool{}
	for _, e := range t.entries {
		if e.Principal == l.Principal && e.CA == l.CA && e.Key != l.Key && len(e.Roles) > 0 && e.validAt(at) == nil && !t.revoked.holds(e.Key) {
			keys[e.Key] = true
		}
	}
	return len(keys)
}

// like returns another principal of the file whose name looks like this name.
func (t *Trust) like(name string) string {
	for _, e := range t.entries {
		if e.Principal != name && outline(e.Principal) == outline(name) {
			return e.Principal
		}
	}
	return ""
}

// outline returns the same text for names that look nearly alike in many typefaces.
func outline(name string) string {
	return strings.NewReplacer("rn", "m", "vv", "w", "cl", "d", "1", "l", "i", "l", "|", "l", "0", "o", "5", "s", "_", "-", " ", "").
		Replace(strings.ToLower(name))
}

// Fact returns what people should see of the effect before they sign.
func (e Effect) Fact() op.Fact {
	who, could := op.ShownName(e.Principal), e.roles("sign as "+able(e.Roles, e.Batches))
	if e.Passkey != "" {
		could += ", with a PASSKEY on pages of " + e.Passkey
	}
	switch {
	case e.CA && e.Added && len(e.Before) > 0:
		return op.Fact{Name: "changed authority", Text: fmt.Sprintf("%s for %s: it could certify who signs as %s, until now as %s", e.Key, who,
			able(e.Roles, e.Batches), able(e.Before, e.Batch))}
	case e.CA && e.Added:
		return op.Fact{Name: "NEW authority", Text: fmt.Sprintf("%s: people that it certifies as %s could %s", e.Key, who, could)}
	case e.CA:
		return op.Fact{Name: "authority goes", Text: fmt.Sprintf("%s: people that it certifies as %s could %s", e.Key, who, could)}
	case e.Added && e.New && e.Like != "":
		return op.Fact{Name: "NEW person", Text: fmt.Sprintf("%s, who is NOT %s: no line names them now, and they could %s", who, op.ShownName(e.Like), could)}
	case e.Added && e.New:
		return op.Fact{Name: "NEW person", Text: fmt.Sprintf("%s: no line names them now, and they could %s", who, could)}
	case e.Added && len(e.Before) > 0:
		return op.Fact{Name: "changed key", Text: fmt.Sprintf("%s of %s could %s, until now as %s", e.Key, who, could, able(e.Before, e.Batch))}
	case e.Added && e.Others == 0:
		return op.Fact{Name: "only key", Text: fmt.Sprintf("of %s, who keeps no other: %s could %s", who, e.Key, could)}
	case e.Added:
		return op.Fact{Name: nth(e.Others + 1), Text: fmt.Sprintf("of %s: %s could %s", who, e.Key, could)}
	case e.Others == 0:
		return op.Fact{Name: "LAST key", Text: fmt.Sprintf("of %s goes, who can sign nothing afterwards: %s could %s", who, e.Key, could)}
	default:
		return op.Fact{Name: "key goes", Text: fmt.Sprintf("of %s, who keeps %d: %s could %s", who, e.Others, e.Key, could)}
	}
}

// roles adds the line's times to the text.
func (e Effect) roles(could string) string {
	if !e.ValidAfter.IsZero() {
		could += ", from " + e.ValidAfter.UTC().Format(time.RFC3339)
	}
	if !e.ValidBefore.IsZero() {
		could += ", until " + e.ValidBefore.UTC().Format(time.RFC3339)
	}
	return could
}

func roleList(roles []op.Role) string {
	if len(roles) == 0 {
		return "nothing of this gate"
	}
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// able says in which roles a line may sign, and in which of them many requests at once.
func able(roles, batches []op.Role) string {
	if len(batches) == 0 {
		return roleList(roles)
	}
	return roleList(roles) + ", and a BATCH of requests at once as " + roleList(batches)
}

// nth names a key's place among the keys of its owner.
func nth(n int) string {
	if n == 2 {
		return "second key"
	}
	return fmt.Sprintf("key number %d", n)
}
