package op_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

func TestNamespaceNamesItsRole(t *testing.T) {
	for _, role := range []op.Role{op.Operational, op.Coordination, op.Recovery, "manager", "a", "on-call-2", op.Role(strings.Repeat("m", 32))} {
		require.True(t, role.Valid(), role)
		got, ok := op.RoleOfNamespace(role.Namespace())
		require.True(t, ok, role)
		require.Equal(t, role, got)
	}
	require.True(t, op.Recovery.BuiltIn())
	require.False(t, op.Role("manager").BuiltIn())
	require.False(t, op.Role("").BuiltIn())
}

// TestNamespacesOfNoRole is the part of matrix row S05 that the bytes alone decide.
func TestNamespacesOfNoRole(t *testing.T) {
	for _, ns := range []string{"", "git", "file", "@gated", "gated", "operational", "operational@", "operational@gated ", " operational@gated",
		"Operational@gated", "OPERATIONAL@gated", "operational@Gated", "operational@gated@gated", "operational@@gated", "operational@gated.org",
		"operational@gated\n", "operational@gated\x00", "oper\x00ational@gated", "opérational@gated", "оperational@gated", "*@gated", "?@gated",
		"!operational@gated", "operational,recovery@gated", "operational recovery@gated", "2fa@gated", "-a@gated", "a_b@gated", "a.b@gated",
		strings.Repeat("m", 33) + "@gated"} {
		role, ok := op.RoleOfNamespace(ns)
		require.False(t, ok, "%q", ns)
		require.Empty(t, role, "%q", ns)
	}
}

func TestRoleHasOneForm(t *testing.T) {
	form := regexp.MustCompile(`\A[a-z][a-z0-9-]{0,31}\z`)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{0,34}`), rapid.String()).Draw(t, "role")
		require.Equal(t, form.MatchString(s), op.Role(s).Valid(), "%q", s)
	})
}

func TestRolesAreNamespacesByTheByte(t *testing.T) {
	for _, r := range op.Roles {
		got, ok := op.RoleOfNamespace(r.Namespace())
		require.True(t, ok)
		require.Equal(t, r, got)
	}
	require.Equal(t, "operational@gated", op.Operational.Namespace())
	// Matrix row S05.
	for _, ns := range []string{"", "git", "file", "operational", "@gated", "operational@gated ", " operational@gated",
		"Operational@gated", "operational@Gated", "operational@gated@gated", "operational@gated\x00"} {
		_, ok := op.RoleOfNamespace(ns)
		require.False(t, ok, "%q", ns)
	}
}
