package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/people/policy"
)

func rotation(t require.TestingT, reserved bool, touched ...op.Role) policy.Subject {
	return policy.Subject{Spec: spec(t, "trust.rotate"), Target: op.Signers, Rotation: &policy.Rotation{Roles: touched, Reserved: reserved}}
}

func TestRecoveryRotatesAlone(t *testing.T) {
	for _, reserved := range []bool{true, false} {
		r := with().Requirement(rotation(t, reserved, op.Operational))
		require.True(t, r.Met(signed(op.Recovery)))
		require.Equal(t, !reserved, r.Met(signed(op.Operational)))
		require.Equal(t, !reserved, r.Accepts(op.Operational))
		require.False(t, r.Met(signed(op.Coordination, manager)))
	}
	// A rotation without details counts as the most serious.
	r := with().Requirement(policy.Subject{Spec: spec(t, "trust.rotate"), Target: op.Signers})
	require.Equal(t, []op.Role{op.Recovery}, r.Roles())
}

// TestAReservedRotationIsForRecovery is the policy's part of matrix row S22.
func TestAReservedRotationIsForRecovery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rotation(t, true, touched.Draw(t, "touched")...)
		r := with(rules.Draw(t, "rules")...).Requirement(s)
		require.Equal(t, []op.Role{op.Recovery}, r.Roles())
		require.Len(t, r.Ways, 1)
		require.Equal(t, op.WayRecovery, r.Ways[0].Name)
	})
}

// TestRecoveryIsRaisedByItsOwnRulesAlone: no rule about guests, and no role of the
// configuration, makes a gate's recovery harder.
func TestRecoveryIsRaisedByItsOwnRulesAlone(t *testing.T) {
	s := rotation(t, false, op.Operational, manager)
	for _, c := range []struct {
		rule policy.Rule
		want int // recovery keys
	}{
		{policy.Rule{Op: "guest.*", Threshold: 3}, 1},
		{policy.Rule{Op: "guest.destroy", Role: manager, Threshold: 3}, 1},
		{policy.Rule{Role: manager, Threshold: 3}, 1},
		{policy.Rule{Role: op.Operational, Threshold: 3}, 1},
		{policy.Rule{Op: "trust.rotate", Role: op.Recovery, Threshold: 2}, 2},
		{policy.Rule{Op: "trust.rotate", Threshold: 2}, 2},
		{policy.Rule{Threshold: 3}, 3},
	} {
		require.NoError(t, with(c.rule).Validate())
		r := with(c.rule).Requirement(s)
		for n := range 4 {
			var roles []op.Role
			for range n {
				roles = append(roles, op.Recovery)
			}
			require.Equal(t, n >= c.want, r.Met(signed(roles...)), "%+v: %d", c.rule, n)
		}
	}
}

// TestAPlannedRotationNeedsTheHighestThresholdOfTheRolesItTouches is matrix row S22.
// Otherwise one of two people could first list a second key of their own.
func TestAPlannedRotationNeedsTheHighestThresholdOfTheRolesItTouches(t *testing.T) {
	two := policy.Rule{Where: "f:1", Op: "guest.destroy", Target: "guest/db-*", Labels: map[string]string{"tier": "prod"}, Threshold: 2}
	three := policy.Rule{Where: "f:2", Op: "guest.wipe", Role: op.Operational, Threshold: 3, Touch: op.TouchPresent}
	managers := policy.Rule{Where: "f:3", Op: "guest.restore", Role: manager, Threshold: 2}
	p := with(two, three, managers)
	require.NoError(t, p.Validate())
	for _, c := range []struct {
		name    string
		policy  policy.Policy
		touched []op.Role
		needed  int
		touch   op.Touch // of the people who are operational
	}{
		{"no rule", with(), []op.Role{op.Operational}, 1, ""},
		{"a rule without a role, of whatever target", with(two), []op.Role{op.Operational}, 2, ""},
		{"the highest of two", with(two, three), []op.Role{op.Operational}, 3, op.TouchPresent},
		{"a role that no rule is for", p, []op.Role{op.Coordination}, 1, ""},
		{"another role's rules", p, []op.Role{"on-call"}, 1, ""},
		{"a role of our own: its people, and as many who rotate", p, []op.Role{manager}, 4, ""},
		{"both", p, []op.Role{manager, op.Operational}, 5, op.TouchPresent},
	} {
		r := c.policy.Requirement(rotation(t, false, c.touched...))
		require.Equal(t, c.needed, r.Needed(), c.name)
		require.Equal(t, c.touch, r.Touch(op.Operational), c.name)
		require.Zero(t, r.CoolOff, c.name)
	}
	r := p.Requirement(rotation(t, false, manager))
	require.True(t, r.Met(signed(op.Operational, op.Operational, manager, manager)))
	require.False(t, r.Met(signed(op.Operational, op.Operational, manager)))
	require.False(t, r.Met(signed(op.Operational, manager, manager, manager)))
}

func TestAPlannedRotationIsNeverEasierThanWhatItOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := with(rules.Draw(t, "rules")...)
		touched := rapid.SampledFrom([]op.Role{op.Operational, manager, "on-call"}).Draw(t, "touched")
		rotate := p.Requirement(rotation(t, false, touched))
		signed := signatures.Filter(func(all []op.Signed) bool { return rotate.Met(all) && !hasRole(all, op.Recovery) }).Draw(t, "signed")
		counted := func(role op.Role, touch op.Touch) (n int) {
			for _, s := range signed {
				if s.Role == role && s.Attested.Touch().Satisfies(touch) {
					n++
				}
			}
			return n
		}
		for _, r := range p.Rules {
			ordinary := r.Role == "" && touched == op.Operational
			if r.Role == touched || ordinary {
				require.GreaterOrEqual(t, counted(op.Operational, r.Touch), r.Threshold, r.Where)
			}
			if r.Role == touched {
				require.GreaterOrEqual(t, counted(touched, r.Touch), r.Threshold, r.Where)
			}
		}
	})
}

func hasRole(all []op.Signed, role op.Role) bool {
	for _, s := range all {
		if s.Role == role {
			return true
		}
	}
	return false
}

func TestTimesOfARuleHoldForEveryWay(t *testing.T) {
	r := with(policy.Rule{Op: "trust.rotate", Role: op.Operational, Threshold: 1, CoolOff: time.Minute, MaxValidity: time.Hour, Window: window(t, "sat 08:00-18:00Z")}).
		Requirement(rotation(t, true, op.Recovery))
	require.Equal(t, time.Minute, r.CoolOff)
	require.Equal(t, time.Hour, r.MaxValidity)
	require.Len(t, r.Windows, 1)
}
