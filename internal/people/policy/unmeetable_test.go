package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/people/policy"
)

func TestUnmeetable(t *testing.T) {
	listed := map[op.Role][]string{
		op.Operational: {"alice@example.com", "bob@example.com"},
		op.Recovery:    {"carol@example.com"},
		manager:        {"alice@example.com"},
		"on-call":      {"*@example.com"},
	}
	could := func(role op.Role, _ op.Touch, _ bool) []string { return listed[role] }
	for _, c := range []struct {
		rule policy.Rule
		want []string
	}{
		{policy.Rule{Op: "guest.*", Threshold: 2}, nil},
		{policy.Rule{Op: "guest.*", Threshold: 3}, []string{"f:1: the rule needs 3 in the role operational, and 2 could sign"}},
		{policy.Rule{Role: op.Operational, Threshold: 3}, []string{"f:1: the rule needs 3 in the role operational, and 2 could sign"}},
		{policy.Rule{Threshold: 2}, []string{"f:1: the rule needs 2 in the role recovery, and 1 could sign"}},
		{policy.Rule{Op: "trust.rotate", Role: op.Recovery, Threshold: 1}, nil},
		{policy.Rule{Op: "trust.rotate", Role: op.Recovery, Threshold: 2}, []string{"f:1: the rule needs 2 in the role recovery, and 1 could sign"}},
		{policy.Rule{Role: manager, Threshold: 1}, nil},
		{policy.Rule{Role: manager, Threshold: 2}, []string{"f:1: the rule needs 2 in the role manager, and 1 could sign"}},
		{policy.Rule{Role: "on-call", Threshold: 16}, nil}, // a CA's line counts as any number of people
	} {
		c.rule.Where = "f:1"
		require.NoError(t, with(c.rule).Validate())
		require.Equal(t, c.want, with(c.rule).Unmeetable(could), "%+v", c.rule)
	}
	require.Empty(t, with().Unmeetable(func(op.Role, op.Touch, bool) []string { return nil }), "an empty list is reported elsewhere")

	soft := func(role op.Role, touch op.Touch, _ bool) []string {
		if touch != op.TouchNone {
			return nil
		}
		return listed[role]
	}
	require.Equal(t, []string{"f:1: the rule needs 1 in the role operational, and 0 could sign with a security key"},
		with(policy.Rule{Where: "f:1", Op: "guest.*", Threshold: 1, Touch: op.TouchPresent}).Unmeetable(soft))

	paged := func(role op.Role, _ op.Touch, noPasskey bool) []string {
		if noPasskey {
			return nil
		}
		return listed[role]
	}
	require.Equal(t, []string{"f:1: the rule needs 1 in the role operational, and 0 could sign with a key that is no passkey"},
		with(policy.Rule{Where: "f:1", Op: "guest.*", Threshold: 1, NoPasskey: true}).Unmeetable(paged))
	require.Equal(t, []string{"f:1: the rule needs 1 in the role operational, and 0 could sign with a security key that is no passkey"},
		with(policy.Rule{Where: "f:1", Op: "guest.*", Threshold: 1, Touch: op.TouchPresent, NoPasskey: true}).Unmeetable(paged))

	apart := with(policy.Rule{Where: "f:1", Op: "guest.destroy", Role: manager, Threshold: 1, Apart: true})
	require.Equal(t, []string{"f:1: the rule needs 1 in the role manager, and 0 could sign of those that people in gated.yaml names"}, apart.Unmeetable(could))
	apart.People = policy.People{listed[manager][0]: {{UID: 1000}}}
	require.Equal(t, []string{"f:1: the rule takes no requester's signature, and people in gated.yaml names one person alone"}, apart.Unmeetable(could))
	apart.People["zoe@example.com"] = []op.Account{{UID: 1009}}
	require.Empty(t, apart.Unmeetable(could))
	require.Empty(t, apart.Unmeetable(func(op.Role, op.Touch, bool) []string { return []string{"zoe@example.com (certificate)", "mona"} }), "named by a CA's line")

	// One person never counts as two, in any roles.
	listed[op.Operational] = []string{"alice@example.com"}
	rule := policy.Rule{Where: "f:1", Op: "guest.destroy", Role: manager, Threshold: 1}
	require.Equal(t, []string{"f:1: the rule needs 1 in the role manager and another person in the role operational, and 1 could sign in all"},
		with(rule).Unmeetable(could))
	listed[manager] = append(listed[manager], "dave@example.com")
	require.Empty(t, with(rule).Unmeetable(could))
}
