package op

import "strings"

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

// Roles lists every role.
var Roles = []Role{Operational, Coordination, Recovery}

// Namespace returns the SSHSIG namespace of the role, "<role>@gated".
func (r Role) Namespace() string { return string(r) + "@gated" }

// RoleOfNamespace returns the role that a namespace stands for. It compares
// bytes: a space or another case is another namespace.
func RoleOfNamespace(ns string) (Role, bool) {
	name, ok := strings.CutSuffix(ns, "@gated")
	if !ok {
		return "", false
	}
	for _, r := range Roles {
		if string(r) == name {
			return r, true
		}
	}
	return "", false
}
