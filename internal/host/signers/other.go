package signers

import (
	"cmp"
	"slices"
	"strings"

	"gated/internal/authz"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Other is the revocation file that another member of the gate had in force last. Each member has a file of its own, so a
// key that is revoked there may count here.
type Other struct {
	Member string // its name
	Digest string // of the file; empty if no key was revoked, so that any file is in order
}

// insteadOf begins a line of a revocation file in which an operator says that it takes the place of a lost one.
const insteadOf = "# instead of "

// OfAnotherMember returns the file that another member than me had in force last; the zero Other if that was me, or if no
// key was revoked. mine says that the state directory here was the last active one: a new member may have an old name.
func OfAnotherMember(tx *store.Tx, me string, mine bool) (Other, error) {
	var told audit.Entry
	// An entry of a member that refused every signature says nothing about keys: it waits for the file itself.
	started, damaged, err := lastTold(tx, func(e audit.Entry) bool {
		if told.Revokes == nil && e.Kind != audit.Rotated && e.Revokes != nil && e.Revoked != authz.RevokedUnreadable {
			told = e
		}
		return told.Revokes != nil && e.Kind == audit.Started
	})
	switch {
	case err != nil:
		return Other{}, err
	case damaged:
		return Other{cmp.Or(told.Member.Name, "that decided before"), authz.RevokedUnreadable}, nil
	case told.Revokes == nil, !*told.Revokes, mine && started.Member.Name == me:
		return Other{}, nil
	}
	return Other{started.Member.Name, told.Revoked}, nil
}

// inOrder reports whether a file lists what the other member's did, or takes its place.
func (o Other) inOrder(list *authz.Revoked, text []byte) bool {
	return o.Digest == "" || o.Digest == list.Digest() || o.Digest == list.With(list).Digest() ||
		slices.Contains(strings.Split(string(text), "\n"), insteadOf+o.Digest)
}

// refused is the list while the file is not in order.
func (o Other) refused(path string) *authz.Revoked {
	return unreadable("the keys in %s are not those that member %s revoked: copy the file from there. If it is lost, list every revoked key in the file here, "+
		"and add the line %q", path, o.Member, insteadOf+o.Digest)
}
