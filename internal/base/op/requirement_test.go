package op_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

// families are lists of roles. Of each two, they are equal, disjoint, or one
// contains the other, as for rules (internal/people/policy has that test).
var families = [][]op.Role{{op.Operational}, {op.Coordination}, {op.Operational, op.Coordination}, {op.Coordination, op.Operational},
	{"manager"}, {"on-call"}, {op.Coordination, op.Operational, "manager"}}

var signingRoles = []op.Role{op.Operational, op.Coordination, "manager", "on-call"}

var anyTouch = rapid.SampledFrom([]op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified})

func attested(touch op.Touch) *op.Attested {
	switch touch {
	case op.TouchPresent:
		return &op.Attested{Flags: op.FlagPresent, Counter: 1}
	case op.TouchVerified:
		return &op.Attested{Flags: op.FlagPresent | op.FlagVerified, Counter: 1}
	default:
		return nil
	}
}

var anyDemand = rapid.Custom(func(t *rapid.T) op.Demand {
	return op.Demand{Rule: rapid.StringMatching(`f:[1-9]`).Draw(t, "rule"), Roles: rapid.SampledFrom(families).Draw(t, "roles"),
		Threshold: rapid.IntRange(1, 3).Draw(t, "threshold"), Touch: anyTouch.Draw(t, "touch")}
})

// signatures draws signatures, each of another person and key.
var signatures = rapid.Custom(func(t *rapid.T) []op.Signed {
	out := make([]op.Signed, rapid.IntRange(0, 5).Draw(t, "signatures"))
	for i := range out {
		out[i] = op.Signed{Principal: fmt.Sprintf("p%d@example.com", i), Key: fmt.Sprintf("SHA256:%d", i),
			Role: rapid.SampledFrom(append(signingRoles, op.Recovery, op.BreakGlass)).Draw(t, "role"), Attested: attested(anyTouch.Draw(t, "attested"))}
	}
	return out
})

var anyRequirement = rapid.Custom(func(t *rapid.T) op.Requirement {
	r := op.Requirement{CoolOff: time.Duration(rapid.IntRange(0, 3).Draw(t, "cool-off")) * time.Minute,
		MaxValidity: time.Duration(rapid.IntRange(1, 3).Draw(t, "validity")) * time.Hour}
	for _, s := range rapid.SliceOfN(anyWindow, 0, 2).Draw(t, "windows") {
		r.Windows = append(r.Windows, parseWindow(t, s))
	}
	if rapid.Bool().Draw(t, "ordinary") {
		r.Ways = append(r.Ways, op.Way{Demands: rapid.SliceOfN(anyDemand, 1, 4).Draw(t, "demands")})
	}
	if rapid.Bool().Draw(t, "recovery") {
		d := op.Demand{Roles: []op.Role{op.Recovery}, Threshold: rapid.IntRange(1, 2).Draw(t, "threshold"), Touch: anyTouch.Draw(t, "touch")}
		r.Ways = append(r.Ways, op.Way{Name: op.WayRecovery, Demands: []op.Demand{d}})
	}
	if rapid.Bool().Draw(t, "break-glass") {
		d := op.Demand{Roles: []op.Role{op.BreakGlass}, Threshold: rapid.IntRange(1, 2).Draw(t, "threshold"), Touch: anyTouch.Draw(t, "touch")}
		r.Ways = append(r.Ways, op.Way{Name: op.WayBreakGlass, Delay: time.Duration(rapid.IntRange(1, 5).Draw(t, "delay")) * time.Minute, Demands: []op.Demand{d}})
	}
	return r
})

func ordinary(d ...op.Demand) op.Requirement { return op.Requirement{Ways: []op.Way{{Demands: d}}} }

func signedIn(role op.Role, touch op.Touch) op.Signed {
	return op.Signed{Principal: "alice@example.com", Key: "SHA256:a", Role: role, Attested: attested(touch)}
}

func TestTouchSatisfies(t *testing.T) {
	order := []op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified}
	for i, have := range order {
		require.True(t, have.Valid())
		for j, need := range order {
			require.Equal(t, i >= j, have.Satisfies(need), "%q for %q", have, need)
		}
	}
	for _, other := range []op.Touch{"none", "Touch", "present", "touch "} {
		require.False(t, other.Valid())
		for _, known := range order {
			require.False(t, known.Satisfies(other), "what is not known is not met")
			require.False(t, other.Satisfies(known))
		}
	}
}

func TestTouchOfFlags(t *testing.T) {
	var software *op.Attested
	require.Equal(t, op.TouchNone, software.Touch())
	for flags, want := range map[byte]op.Touch{0: op.TouchNone, op.FlagPresent: op.TouchPresent, op.FlagVerified: op.TouchNone,
		op.FlagPresent | op.FlagVerified: op.TouchVerified, 0x40: op.TouchNone, 0x81: op.TouchPresent, 0xff: op.TouchVerified, 0xfe: op.TouchNone} {
		require.Equal(t, want, (&op.Attested{Flags: flags}).Touch(), "%#x", flags)
	}
}

func TestNothingToMeetIsNeverMet(t *testing.T) {
	alice := []op.Signed{signedIn(op.Operational, op.TouchVerified)}
	for name, r := range map[string]op.Requirement{
		"no way":                        {},
		"a way that asks for nothing":   {Ways: []op.Way{{}}},
		"a demand without a role":       ordinary(op.Demand{Threshold: 1}),
		"another's role":                ordinary(op.Demand{Roles: []op.Role{op.Recovery}, Threshold: 1}),
		"a touch that no key can prove": ordinary(op.Demand{Roles: []op.Role{op.Operational}, Threshold: 1, Touch: "retina"}),
	} {
		require.False(t, r.Met(nil), name)
		require.False(t, r.Met(alice), name)
	}
	// A threshold that no rule can have still counts as at least one.
	for _, n := range []int{0, -1} {
		r := ordinary(op.Demand{Roles: []op.Role{op.Operational}, Threshold: n})
		require.False(t, r.Met(nil))
		require.Equal(t, 1, r.Needed())
		require.True(t, r.Met(alice))
	}
	require.Equal(t, 1, ordinary(op.Demand{Threshold: 1}).Needed())
}

// TestMissingIsTheFewest compares with all lists of people who could sign.
func TestMissingIsTheFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ordinary(rapid.SliceOfN(anyDemand, 1, 4).Draw(t, "demands")...)
		signed := signatures.Draw(t, "signed")
		n := 0
		for !metWith(r, signed, n, 0) {
			n++
		}
		require.Equal(t, n, r.Missing(signed))
		require.Equal(t, n == 0, r.Met(signed))
		require.Equal(t, n == 0, len(r.Unmet(signed)) == 0)
		for _, u := range r.Unmet(signed) {
			require.Less(t, u.Have, u.Threshold)
		}
	})
}

// metWith reports whether n more people, in the roles from that one on, would be
// enough.
func metWith(r op.Requirement, signed []op.Signed, n, from int) bool {
	if n == 0 {
		return r.Met(signed)
	}
	for i := from; i < len(signingRoles); i++ {
		more := op.Signed{Role: signingRoles[i], Attested: attested(op.TouchVerified)}
		if metWith(r, append(signed[:len(signed):len(signed)], more), n-1, i) {
			return true
		}
	}
	return false
}

func TestUnmetIsOfTheWayThatSomebodyBegan(t *testing.T) {
	two := op.Demand{Rule: "f:1", Roles: []op.Role{op.Operational}, Threshold: 2}
	recovery := op.Demand{Rule: "built-in", Roles: []op.Role{op.Recovery}, Threshold: 1}
	r := op.Requirement{Ways: []op.Way{{Demands: []op.Demand{two}}, {Name: op.WayRecovery, Demands: []op.Demand{recovery}}}}

	require.Equal(t, []op.Unmet{{Demand: two}}, r.Unmet(nil), "the ordinary way, though recovery alone would be quicker")
	require.Equal(t, 2, r.Needed())
	require.Equal(t, []op.Unmet{{Demand: two, Have: 1}}, r.Unmet([]op.Signed{signedIn(op.Operational, "")}))
	require.True(t, r.Met([]op.Signed{signedIn(op.Recovery, "")}))
	require.Empty(t, r.Unmet([]op.Signed{signedIn(op.Recovery, "")}))

	recovery.Threshold = 2
	r.Ways[1].Demands[0] = recovery
	require.Equal(t, []op.Unmet{{Demand: recovery, Have: 1}}, r.Unmet([]op.Signed{signedIn(op.Recovery, "")}))
	require.Equal(t, 1, r.Missing([]op.Signed{signedIn(op.Recovery, "")}))
	require.False(t, r.Met([]op.Signed{signedIn(op.Recovery, ""), signedIn(op.Operational, "")}), "two halves are no whole")
}

func TestRolesAndTouch(t *testing.T) {
	r := op.Requirement{Ways: []op.Way{
		{Demands: []op.Demand{
			{Roles: []op.Role{op.Operational}, Threshold: 2, Touch: op.TouchPresent},
			{Roles: []op.Role{op.Operational}, Threshold: 1, Touch: op.TouchVerified},
			{Roles: []op.Role{"manager"}, Threshold: 1}}},
		{Name: op.WayRecovery, Demands: []op.Demand{{Roles: []op.Role{op.Recovery}, Threshold: 1, Touch: op.TouchPresent}}}}}
	require.Equal(t, []op.Role{op.Operational, "manager", op.Recovery}, r.Roles())
	require.True(t, r.Accepts("manager"))
	require.False(t, r.Accepts(op.Coordination))
	require.False(t, r.Accepts(""))
	require.Equal(t, op.TouchVerified, r.Touch(op.Operational), "what one demand asks of a role is asked of all who sign in it")
	require.Equal(t, op.TouchNone, r.Touch("manager"))
	require.Equal(t, op.TouchPresent, r.Touch(op.Recovery))
	require.Equal(t, op.TouchNone, r.Touch(op.Coordination))
}

// TestStricterIsNeverLooser: signatures that meet the stricter requirement meet a
// way of both.
func TestStricterIsNeverLooser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequirement.Draw(t, "a"), anyRequirement.Draw(t, "b")
		signed := signatures.Draw(t, "signed")
		s := a.Stricter(b)

		both := false
		for _, x := range a.Ways {
			for _, y := range b.Ways {
				both = both || x.Name == y.Name && alone(x).Met(signed) && alone(y).Met(signed)
			}
		}
		require.Equal(t, both, s.Met(signed))
		require.Equal(t, both, b.Stricter(a).Met(signed), "the order makes no difference")
		require.Equal(t, a.Met(signed), a.Stricter(a).Met(signed))
		require.Equal(t, s.Missing(signed), b.Stricter(a).Missing(signed))
		require.Equal(t, s, s.Stricter(s), "nothing is said twice")

		require.Equal(t, max(a.CoolOff, b.CoolOff), s.CoolOff)
		require.Equal(t, min(a.MaxValidity, b.MaxValidity), s.MaxValidity)
		at := time.Unix(rapid.Int64Range(0, 14*24*60*60).Draw(t, "at"), 0)
		require.Equal(t, a.Open(at) && b.Open(at), s.Open(at))
		require.Equal(t, s.Open(at), b.Stricter(a).Open(at))
	})
}

func alone(w op.Way) op.Requirement { return op.Requirement{Ways: []op.Way{w}} }

// TestStricterAsksForNoLessTouch: also if one demand replaces another.
func TestStricterAsksForNoLessTouch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := ordinary(rapid.SliceOfN(anyDemand, 1, 4).Draw(t, "a")...)
		b := ordinary(rapid.SliceOfN(anyDemand, 1, 4).Draw(t, "b")...)
		s := a.Stricter(b)
		for _, role := range signingRoles {
			require.True(t, s.Touch(role).Satisfies(a.Touch(role)) && s.Touch(role).Satisfies(b.Touch(role)), role)
			require.Equal(t, a.Accepts(role) || b.Accepts(role), s.Accepts(role), role)
		}
	})
}

func TestStricterLeavesOutWhatIsImplied(t *testing.T) {
	demand := func(rule string, threshold int, touch op.Touch, roles ...op.Role) op.Demand {
		return op.Demand{Rule: rule, Roles: roles, Threshold: threshold, Touch: touch}
	}
	one := demand("built-in", 1, "", op.Operational)
	wide := demand("f:3", 1, op.TouchPresent, op.Operational, op.Coordination)
	turned := demand("f:4", 1, op.TouchPresent, op.Coordination, op.Operational)
	two := demand("f:1", 2, "", op.Operational)
	touched := demand("f:2", 1, op.TouchPresent, op.Operational)
	moved := demand("f:9", 2, "", op.Operational)
	require.Equal(t, ordinary(two), ordinary(one).Stricter(ordinary(two)))
	require.Equal(t, ordinary(two), ordinary(two).Stricter(ordinary(one)))
	require.Equal(t, ordinary(two, touched), ordinary(two).Stricter(ordinary(touched)), "neither is more than the other")
	require.Equal(t, ordinary(two, wide), ordinary(two).Stricter(ordinary(wide)), "a touch of the other role is not forgotten")
	require.Equal(t, ordinary(wide), ordinary(wide).Stricter(ordinary(turned)))
	require.Equal(t, ordinary(two), ordinary(two).Stricter(ordinary(moved)), "that its line moved makes it no other demand")
}

// TestTheDelayOfAWayHolds: of any signatures, the wait is the cool-off, or the longer delay of a way that one of them counts for.
// The stricter of two requirements never waits for less than either.
func TestTheDelayOfAWayHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s, signed := anyRequirement.Draw(t, "one"), anyRequirement.Draw(t, "another"), signatures.Draw(t, "signed")
		wait := r.Wait(signed)
		require.GreaterOrEqual(t, wait, r.CoolOff)
		require.LessOrEqual(t, wait, r.Longest())
		both := r.Stricter(s)
		if both.Met(signed) {
			for _, one := range []op.Requirement{r, s} {
				require.True(t, one.Met(signed))
				require.GreaterOrEqual(t, both.Wait(signed), one.CoolOff)
			}
		}
		for _, w := range r.Ways {
			if w.Name == op.WayBreakGlass && r.Met(signed) && !(op.Requirement{Ways: r.Ways[:len(r.Ways)-1]}).Met(signed) {
				require.GreaterOrEqual(t, wait, w.Delay, "only break-glass is met")
			}
		}
	})
}

func TestNoSecurityKeyIsNoPasskey(t *testing.T) {
	require.False(t, (*op.Attested)(nil).Passkey())
	require.False(t, (&op.Attested{}).Passkey())
	require.True(t, (&op.Attested{Origin: "https://a.example"}).Passkey())
	require.Equal(t, op.TouchNone, (*op.Attested)(nil).Touch())
	require.False(t, op.Passkeys{Synced: true}.Any())
	require.True(t, op.Passkeys{Origins: []string{"https://a.example"}}.Any())
}
