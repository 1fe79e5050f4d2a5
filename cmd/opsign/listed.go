package main

import (
	"errors"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/op"
)

// listedRole is what a line of allowed_signers lets a key do, or its
// certificate.
type listedRole struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Valid     bool    `json:"valid"` // now
}

// listedRoles finds what a trust file lists a key or a certificate for: as a
// gate would answer, and what it would answer at another time.
func listedRoles(trust *authz.Trust, k key, now time.Time) []listedRole {
	out := []listedRole{}
	for _, role := range rolesIn(trust) {
		principal, err := trust.Accepts(k.blob, role, now)
		switch {
		case err == nil:
			out = append(out, listedRole{principal, role, true})
		case errors.Is(err, op.SignerExpired):
			out = append(out, listedRole{k.owner(trust, role), role, false})
		}
	}
	return out
}

// rolesIn lists the roles of a trust file's lines, in their order.
func rolesIn(trust *authz.Trust) []op.Role {
	var out []op.Role
	for _, l := range trust.Signers() {
		for _, r := range l.Roles {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// owner names whom a line lists that does not accept the key now.
func (k key) owner(trust *authz.Trust, role op.Role) string {
	if k.Certificate != nil && len(k.Certificate.Principals) > 0 {
		return k.Certificate.Principals[0]
	}
	for _, l := range trust.Signers() {
		if !l.CA && l.Key == k.Fingerprint && slices.Contains(l.Roles, role) {
			return l.Principal
		}
	}
	return ""
}

// warning says that a software key may now sign for a role that may destroy, or
// that nobody knows what it is listed for. It is empty without a reason.
func (k key) warning(known bool) string {
	switch {
	case !k.Software || !k.Usable || k.Certificate != nil && !k.Certificate.Valid:
		return ""
	case !known:
		return softwareKey(k, nil)
	}
	var may []op.Role
	for _, l := range k.Listed {
		if l.Valid && mayDestroy(l.Role) {
			may = append(may, l.Role)
		}
	}
	if len(may) == 0 {
		return ""
	}
	return softwareKey(k, may)
}

// mayDestroy reports whether what a role signs can lose data. Coordination moves
// reservations; recovery can list itself for the rest.
func mayDestroy(r op.Role) bool { return r != op.Coordination }
