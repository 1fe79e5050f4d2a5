package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// People says which accounts belong to a person: those under which the person works, and those of the person's agents.
// The key is the principal in allowed_signers, byte for byte.
type People map[string][]op.Account

// Of returns the principal to whom an account belongs. No account belongs to two.
func (p People) Of(a op.Account) (principal string, ok bool) {
	for _, who := range slices.Sorted(maps.Keys(p)) {
		if slices.Contains(p[who], a) {
			return who, true
		}
	}
	return "", false
}

// Apart refuses, as NotAllowed, a principal who may be one of the requesters. The gate has to know that the principal did
// not ask, and that another person did:
//   - the principal is one of People, or its accounts are not known;
//   - no requester's account is the principal's, also not as the one that handed in a payload which was signed before;
//   - one requester on the socket is of another person. Desired state is of no person: operators put it, a hub sends it,
//     and the gate does not know who wrote it. A payload that was signed before the gate saw it has no other requester.
func (p People) Apart(principal string, by []op.Requester) error {
	refuse := func(hint, format string, args ...any) error {
		return refusal.New(refusal.NotAllowed, format, args...).At(refusal.StagePolicy).WithHint("%s", hint)
	}
	if _, known := p[principal]; !known {
		return refuse("people in gated.yaml names the accounts of each operator",
			"a rule takes no requester's signature, and the accounts of %s are not known", op.ShownName(principal))
	}
	another := false
	for _, r := range by {
		if r.Source != op.SourceAPI && r.Source != op.SourceOffline {
			continue
		}
		who, known := p.Of(r.Account())
		if who == principal && known {
			return refuse("another operator signs it", "%s asked for this as %s, and a rule takes no requester's signature", op.ShownName(principal), r)
		}
		another = another || known && r.Source == op.SourceAPI
	}
	if !another {
		return refuse("another person asks for the same with gated submit; people in gated.yaml names the accounts of each person. Desired state, and a payload that is signed first, are of no person",
			"a rule takes no requester's signature, and it is not known which other person asked for this")
	}
	return nil
}

// Could reports whether a name of those who could sign (authz.Trust.Could) has a person whom Apart takes. The name of a CA's
// line may be a pattern, which stands for people whom only their certificates name.
func (p People) Could(name string, by []op.Requester) bool {
	name = uncertified(name)
	if !hasPattern(name) {
		return p.Apart(name, by) == nil
	}
	for who := range p {
		if p.Apart(who, by) == nil {
			return true
		}
	}
	return false
}

// uncertified removes what authz.Trust.Could adds to the name of a CA's line.
func uncertified(name string) string { return strings.TrimSuffix(name, " (certificate)") }

// text is the one spelling of the map, and empty without one, so that digests of earlier programs stay.
func (p People) text() string {
	var b strings.Builder
	for _, who := range slices.Sorted(maps.Keys(p)) {
		var accounts []string
		for _, a := range p[who] {
			accounts = append(accounts, a.String())
		}
		slices.Sort(accounts)
		fmt.Fprintf(&b, "person %q %s\n", who, strings.Join(accounts, " "))
	}
	return b.String()
}
