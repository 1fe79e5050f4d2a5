package op

import (
	"slices"
	"strings"
)

// Role is what a key may be listed for. A role is an SSHSIG namespace, so that
// the signature format itself carries what a key was used as.
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

// Roles lists the roles that every gate has. A configuration may name others,
// which sign for nothing but what its own rules ask of them.
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

// RoleOfNamespace returns the role that a namespace stands for. It compares
// bytes: a space or another case is another namespace. Whether a gate has that
// role is another question.
func RoleOfNamespace(ns string) (Role, bool) {
	name, ok := strings.CutSuffix(ns, "@gated")
	if !ok || !Role(name).Valid() {
		return "", false
	}
	return Role(name), true
}
