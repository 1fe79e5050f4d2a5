package authz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
)

// Effect is what a line that a rotation adds or removes means for the people who can
// sign.
type Effect struct {
	Listed
	Added  bool
	New    bool      // no line names the principal before the rotation
	Before []op.Role // of an added line: the roles of the key under that principal before the rotation
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
	who, could := op.ShownName(e.Principal), e.roles("sign as "+roleList(e.Roles))
	switch {
	case e.CA && e.Added && len(e.Before) > 0:
		return op.Fact{Name: "changed authority", Text: fmt.Sprintf("%s for %s: it could certify who signs as %s, until now as %s", e.Key, who,
			roleList(e.Roles), roleList(e.Before))}
	case e.CA && e.Added:
		return op.Fact{Name: "NEW authority", Text: fmt.Sprintf("%s: people that it certifies as %s could %s", e.Key, who, could)}
	case e.CA:
		return op.Fact{Name: "authority goes", Text: fmt.Sprintf("%s: people that it certifies as %s could %s", e.Key, who, could)}
	case e.Added && e.New && e.Like != "":
		return op.Fact{Name: "NEW person", Text: fmt.Sprintf("%s, who is NOT %s: no line names them now, and they could %s", who, op.ShownName(e.Like), could)}
	case e.Added && e.New:
		return op.Fact{Name: "NEW person", Text: fmt.Sprintf("%s: no line names them now, and they could %s", who, could)}
	case e.Added && len(e.Before) > 0:
		return op.Fact{Name: "changed key", Text: fmt.Sprintf("%s of %s could %s, until now as %s", e.Key, who, could, roleList(e.Before))}
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

// nth names a key's place among the keys of its owner.
func nth(n int) string {
	if n == 2 {
		return "second key"
	}
	return fmt.Sprintf("key number %d", n)
}
