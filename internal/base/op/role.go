package op

import (
	"slices"
	"strings"
)

// Role is the use for which a key is listed. A role is an SSHSIG namespace, so the
// signature format itself carries the role.
type Role string

// The roles (design section 5).
const (
	// Operational signs destructive guest and command steps, force-transfer,
	// release-all and planned key rotation.
	Operational Role = "operational"
	// Coordination signs force-transfer and release-all.
	Coordination Role = "coordination"
	// Recovery signs key rotation only.
	Recovery Role = "recovery"
)

// Roles lists the roles that every gate has. A configuration may name other roles.
// They count only for its own rules.
var Roles = []Role{Operational, Coordination, Recovery}

// Namespace returns the SSHSIG namespace of the role, "<role>@gated".
func (r Role) Namespace() string { return string(r) + "@gated" }

// BuiltIn reports whether every gate has the role.
func (r Role) BuiltIn() bool { return slices.Contains(Roles, r) }

// Valid reports whether r has the form of a role: [a-z][a-z0-9-]{0,31}.
func (r Role) Valid() bool {
	for i, c := range []byte(r) {
		if (c < 'a' || c > 'z') && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return len(r) > 0 && len(r) <= 32
}

// RoleOfNamespace returns the role of a namespace. It compares bytes, so a space or
// another case makes another namespace. It does not check whether a gate has that
// role.
func RoleOfNamespace(ns string) (Role, bool) {
	name, ok := strings.CutSuffix(ns, "@gated")
	if !ok || !Role(name).Valid() {
		return "", false
	}
	return Role(name), true
}
