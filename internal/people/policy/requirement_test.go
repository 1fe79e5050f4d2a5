package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

var manager = op.Role("manager")

// anyRule draws a rule that Validate accepts by itself.
var anyRule = rapid.Custom(func(t *rapid.T) policy.Rule {
	return policy.Rule{
		Where:       fmt.Sprintf("f:%d", rapid.IntRange(1, 99).Draw(t, "line")),
		Op:          rapid.SampledFrom([]string{"", "*", "guest.*", "guest.destroy", "guest.set-config", "trust.rotate"}).Draw(t, "op"),
		Target:      rapid.SampledFrom([]string{"", "", "guest/*", "guest/db-*", "*-1", "trust/*"}).Draw(t, "target"),
		Labels:      rapid.SampledFrom([]map[string]string{nil, nil, {"tier": "prod"}, {"tier": "pr*", "site": "?"}}).Draw(t, "labels"),
		Role:        rapid.SampledFrom([]op.Role{"", "", op.Operational, op.Recovery, manager, "on-call"}).Draw(t, "role"),
		Threshold:   rapid.IntRange(1, 3).Draw(t, "threshold"),
		Touch:       rapid.SampledFrom([]op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified}).Draw(t, "touch"),
		NoPasskey:   rapid.Bool().Draw(t, "no passkey"),
		Apart:       rapid.Bool().Draw(t, "not requester"),
		CoolOff:     time.Duration(rapid.IntRange(0, 2).Draw(t, "cool-off")) * time.Minute,
		Window:      rapid.SampledFrom([]*op.Window{nil, window(t, "mon-fri 08:00-18:00Z"), window(t, "wed 17:00-02:00Z")}).Draw(t, "window"),
		MaxValidity: time.Duration(rapid.IntRange(0, 2).Draw(t, "validity")) * time.Hour,
	}
}).Filter(func(r policy.Rule) bool { return with(r).Validate() == nil })

// anySigned is anyRule with Signed in the place of Op.
var anySigned = rapid.Custom(func(t *rapid.T) policy.Rule {
	r := anyRule.Draw(t, "rule")
	r.Op = ""
	r.Signed = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"guest.stop", "guest.re*", "*", "guest.destroy", "command.run"}), 1, 3, rapid.ID).Draw(t, "signed")
	return r
}).Filter(func(r policy.Rule) bool { return with(r).Validate() == nil })

var rules = rapid.SliceOfN(rapid.OneOf(anyRule, anySigned), 0, 4)

func with(rules ...policy.Rule) policy.Policy {
	p := policy.Default()
	p.Roles = []op.Role{manager, "on-call"}
	p.Rules = rules
	return p
}

var anyLabels = rapid.SampledFrom([]map[string]string{nil, {}, {"tier": "prod"}, {"tier": "pre", "site": "x"}, {"tier": "prod", "site": "x"}, {"tier": "test"}})

var subject = rapid.Custom(func(t *rapid.T) policy.Subject {
	s := policy.Subject{Spec: rapid.SampledFrom(op.Catalogue()).Draw(t, "op")}
	if s.Spec.Kind == op.KindTrust {
		s.Target = op.Signers
		touched := rapid.SliceOfNDistinct(rapid.SampledFrom([]op.Role{op.Operational, op.Coordination, op.Recovery, manager, "on-call"}), 1, 3, rapid.ID)
		s.Rotation = &policy.Rotation{Roles: touched.Draw(t, "touched")}
		s.Rotation.Reserved = slices.Contains(s.Rotation.Roles, op.Recovery) || rapid.IntRange(0, 4).Draw(t, "reserved") == 0
		return s
	}
	s.Target = op.Target{Kind: s.Spec.Kind, Name: rapid.SampledFrom([]string{"db-1", "web-2"}).Draw(t, "name")}
	s.Labels = anyLabels.Draw(t, "labels")
	if _, ok := s.Spec.Param("labels"); ok && rapid.Bool().Draw(t, "relabels") {
		wished := map[string]any{}
		for k, v := range anyLabels.Draw(t, "wished") {
			wished[k] = v
		}
		s.Params = op.Params{"labels": wished}
	}
	return s
})

// signatures draws signatures, each of another person and key.
var signatures = rapid.Custom(func(t *rapid.T) []op.Signed {
	out := make([]op.Signed, rapid.IntRange(0, 7).Draw(t, "signatures"))
	for i := range out {
		role := rapid.SampledFrom([]op.Role{op.Operational, op.Operational, manager, manager, "on-call", op.Recovery, op.Coordination})
		flags := rapid.SampledFrom([]*op.Attested{nil, {Flags: op.FlagPresent}, {Flags: op.FlagPresent | op.FlagVerified},
			{Flags: op.FlagPresent | op.FlagVerified, Origin: "https://console.example.com"}, {Flags: op.FlagPresent | op.FlagVerified}})
		out[i] = op.Signed{Principal: fmt.Sprintf("p%d@example.com", i), Key: fmt.Sprintf("SHA256:%d", i),
			Role: role.Draw(t, "role"), Attested: flags.Draw(t, "attested")}
	}
	return out
})

var instant = rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(0, 14*24*60*60).Draw(t, "at"), 0) })

func signed(roles ...op.Role) []op.Signed {
	out := make([]op.Signed, len(roles))
	for i, role := range roles {
		out[i] = op.Signed{Principal: fmt.Sprintf("p%d@example.com", i), Key: fmt.Sprintf("SHA256:%d", i), Role: role}
	}
	return out
}

func spec(t require.TestingT, name string) op.Spec { return must.Get(op.Lookup(name))(t) }

func TestWithoutRulesOneSignatureIsEnough(t *testing.T) {
	for _, s := range op.Catalogue() {
		subject := policy.Subject{Spec: s, Target: op.Target{Kind: s.Kind, Name: "signers"}, Rotation: &policy.Rotation{Roles: []op.Role{op.Operational}}}
		if s.Kind != op.KindTrust {
			subject.Rotation = nil
		}
		r := policy.Default().Requirement(subject)
		require.ElementsMatch(t, s.Roles, r.Roles(), s.Name)
		require.Equal(t, 1, r.Needed())
		require.Equal(t, policy.MaxValidity, r.MaxValidity)
		require.Zero(t, r.CoolOff)
		require.Empty(t, r.Windows)
		for _, role := range op.Roles {
			require.Equal(t, s.MayApprove(role), r.Met(signed(role)), "%s %s", s.Name, role)
		}
		require.False(t, r.Met(signed(manager)))
		require.Equal(t, op.BuiltIn, r.Ways[0].Demands[0].Rule)
	}
}

// TestARuleNeverLoosens: signatures that are enough with one more rule are enough
// without it.
func TestARuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fewer, s := rules.Draw(t, "rules"), subject.Draw(t, "step")
		more := slices.Insert(slices.Clone(fewer), rapid.IntRange(0, len(fewer)).Draw(t, "place"), anyRule.Draw(t, "rule"))
		without, and := with(fewer...).Requirement(s), with(more...).Requirement(s)
		signed := signatures.Draw(t, "signed")
		require.True(t, !and.Met(signed) || without.Met(signed))
		require.GreaterOrEqual(t, and.Missing(signed), without.Missing(signed))
		require.GreaterOrEqual(t, and.CoolOff, without.CoolOff)
		require.LessOrEqual(t, and.MaxValidity, without.MaxValidity)
		at := instant.Draw(t, "at")
		require.True(t, !and.Open(at) || without.Open(at))
		for _, role := range without.Roles() {
			require.True(t, and.Accepts(role))
			require.True(t, and.Touch(role).Satisfies(without.Touch(role)), role)
			require.True(t, and.NoPasskey(role) || !without.NoPasskey(role), role)
			require.True(t, and.Apart(role) || !without.Apart(role), role)
		}
	})
}

func TestTheOrderOfRulesMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given, s := rules.Draw(t, "rules"), subject.Draw(t, "step")
		other := rapid.Permutation(given).Draw(t, "other order")
		a, b := with(given...).Requirement(s), with(other...).Requirement(s)
		signed, at := signatures.Draw(t, "signed"), instant.Draw(t, "at")
		require.Equal(t, a.Met(signed), b.Met(signed))
		require.Equal(t, a.Missing(signed), b.Missing(signed))
		require.Equal(t, a.CoolOff, b.CoolOff)
		require.Equal(t, a.MaxValidity, b.MaxValidity)
		require.Equal(t, a.Open(at), b.Open(at))
		require.ElementsMatch(t, a.Roles(), b.Roles())
		for _, role := range a.Roles() {
			require.Equal(t, a.Touch(role), b.Touch(role))
			require.Equal(t, a.NoPasskey(role), b.NoPasskey(role))
			require.Equal(t, a.Apart(role), b.Apart(role))
		}
	})
}

// TestRolesOfDemandsNeverPartlyOverlap: op.Requirement relies on this when it counts
// missing people. It also holds for the stricter of two policies.
func TestRolesOfDemandsNeverPartlyOverlap(t *testing.T) {
	within := func(a, b []op.Role) bool {
		return !slices.ContainsFunc(a, func(r op.Role) bool { return !slices.Contains(b, r) })
	}
	rapid.Check(t, func(t *rapid.T) {
		s := subject.Draw(t, "step")
		if rapid.Bool().Draw(t, "of two roles") { // as in a catalogue with force-transfer
			s.Spec.Roles = append(slices.Clone(s.Spec.Roles), op.Coordination)
		}
		then, now := with(rules.Draw(t, "then")...).Requirement(s), with(rules.Draw(t, "now")...).Requirement(s)
		for _, w := range then.Stricter(now).Ways {
			require.NotEmpty(t, w.Demands)
			for _, a := range w.Demands {
				require.NotEmpty(t, a.Roles)
				for _, b := range w.Demands {
					apart := !slices.ContainsFunc(a.Roles, func(r op.Role) bool { return slices.Contains(b.Roles, r) })
					require.True(t, apart || within(a.Roles, b.Roles) || within(b.Roles, a.Roles), "%v and %v", a.Roles, b.Roles)
				}
			}
		}
	})
}

// TestAnOperatorAndAManager: neither counts as the other, in any number.
func TestAnOperatorAndAManager(t *testing.T) {
	s := policy.Subject{Spec: spec(t, "guest.destroy"), Target: op.Target{Kind: "guest", Name: "db-1"}}
	r := with(policy.Rule{Where: "gated.yaml:12", Role: manager, Threshold: 1}).Requirement(s)
	require.Equal(t, 2, r.Needed())
	require.True(t, r.Met(signed(op.Operational, manager)))
	require.True(t, r.Met(signed(manager, op.Operational)))
	require.False(t, r.Met(signed(manager, manager)))
	require.False(t, r.Met(signed(op.Operational, op.Operational)))
	require.False(t, r.Met(signed(manager, op.Recovery)))
	require.Equal(t, []op.Unmet{{Demand: op.Demand{Rule: "gated.yaml:12", Roles: []op.Role{manager}, Threshold: 1}}},
		r.Unmet(signed(op.Operational)))
}

func TestWhatARuleMatches(t *testing.T) {
	s := policy.Subject{Spec: spec(t, "guest.destroy"), Target: op.Target{Kind: "guest", Name: "db-1"}, Labels: map[string]string{"tier": "prod", "n": "1"}}
	for _, c := range []struct {
		rule policy.Rule
		want int
	}{
		{policy.Rule{}, 2}, {policy.Rule{Op: "guest.*"}, 2}, {policy.Rule{Op: "guest.wipe"}, 1}, {policy.Rule{Target: "guest/db-?"}, 2},
		{policy.Rule{Target: "guest/web-*"}, 1}, {policy.Rule{Labels: map[string]string{"tier": "prod"}}, 2},
		{policy.Rule{Labels: map[string]string{"tier": "p*", "n": "?"}}, 2}, {policy.Rule{Labels: map[string]string{"tier": "prod", "site": "*"}}, 1},
		{policy.Rule{Labels: map[string]string{"tier": "Prod"}}, 1}, {policy.Rule{Op: "guest.destroy", Target: "guest/db-1", Labels: map[string]string{"n": "2"}}, 1},
	} {
		c.rule.Threshold = 2
		require.Equal(t, c.want, with(c.rule).Requirement(s).Needed(), "%+v", c.rule)
	}
}

// TestALabelThatARuleLooksAtIsGuardedByIt: a step that removes the label, or changes
// it so that the rule no longer matches, needs what the rule asks for.
func TestALabelThatARuleLooksAtIsGuardedByIt(t *testing.T) {
	guard := policy.Rule{Where: "f:1", Op: "guest.destroy", Target: "guest/db-*", Labels: map[string]string{"tier": "pr*"}, Threshold: 2, CoolOff: time.Minute}
	for _, c := range []struct {
		name   string
		target string
		params op.Params
		want   int
	}{
		{"taken away", "db-1", op.Params{"labels": map[string]any{"site": "x"}}, 2},
		{"all taken away", "db-1", op.Params{"labels": map[string]any{}}, 2},
		{"changed", "db-1", op.Params{"labels": map[string]any{"tier": "test", "site": "x"}}, 2},
		{"emptied", "db-1", op.Params{"labels": map[string]any{"tier": ""}}, 2},
		{"changed within the pattern", "db-1", op.Params{"labels": map[string]any{"tier": "pre"}}, 1},
		{"another one taken away", "db-1", op.Params{"labels": map[string]any{"tier": "prod"}}, 1},
		{"not touched", "db-1", op.Params{"memory": int64(1)}, 1},
		{"of another target", "web-1", op.Params{"labels": map[string]any{}}, 1},
	} {
		s := policy.Subject{Spec: spec(t, "guest.set-config"), Target: op.Target{Kind: "guest", Name: c.target},
			Params: c.params, Labels: map[string]string{"tier": "prod", "site": "x"}}
		r := with(guard).Requirement(s)
		require.Equal(t, c.want, r.Needed(), c.name)
		require.Equal(t, c.want == 2, r.CoolOff > 0, c.name)
	}
	// Also if the role of the rule is one of the configuration.
	guard.Role, guard.Threshold = manager, 1
	r := with(guard).Requirement(policy.Subject{Spec: spec(t, "guest.set-config"), Target: op.Target{Kind: "guest", Name: "db-1"},
		Params: op.Params{"labels": map[string]any{}}, Labels: map[string]string{"tier": "prod"}})
	require.False(t, r.Met(signed(op.Operational, op.Operational)))
	require.True(t, r.Met(signed(op.Operational, manager)))
}

// TestARestoreKeepsToItsOwnRules: it could bring labels of an earlier time back, but only a rule that says signed asks for
// that.
func TestARestoreKeepsToItsOwnRules(t *testing.T) {
	prod := map[string]string{"tier": "prod"}
	restore := policy.Subject{Spec: spec(t, "guest.restore"), Target: op.Target{Kind: "guest", Name: "db-1"},
		Params: op.Params{"snapshot": "a"}, Labels: prod}
	require.Equal(t, 1, with(policy.Rule{Op: "guest.destroy", Labels: prod, Threshold: 2}).Requirement(restore).Needed())
	require.Equal(t, 2, with(policy.Rule{Signed: []string{"guest.stop"}, Labels: prod, Threshold: 2}).Requirement(restore).Needed())
}

// TestNoWayAroundALabel: labels may be changed first. What was needed to destroy the
// target is still needed, for a change or for the destroy.
func TestNoWayAroundALabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		guard := policy.Rule{Where: "f:1", Op: "guest.destroy", Labels: map[string]string{"tier": "pr*"}, Threshold: rapid.IntRange(1, 3).Draw(t, "threshold"),
			Role: rapid.SampledFrom([]op.Role{"", op.Operational, manager}).Draw(t, "role")}
		p := with(append(rules.Draw(t, "rules"), guard)...)
		target := op.Target{Kind: "guest", Name: "db-1"}
		before, after := anyLabels.Draw(t, "before"), anyLabels.Draw(t, "after")
		wished := map[string]any{}
		for k, v := range after {
			wished[k] = v
		}
		direct := p.Requirement(policy.Subject{Spec: spec(t, "guest.destroy"), Target: target, Labels: before})
		relabel := p.Requirement(policy.Subject{Spec: spec(t, "guest.set-config"), Target: target, Labels: before, Params: op.Params{"labels": wished}})
		destroy := p.Requirement(policy.Subject{Spec: spec(t, "guest.destroy"), Target: target, Labels: after})
		signed := signatures.Draw(t, "signed")
		require.True(t, direct.Met(signed) || !relabel.Met(signed) || !destroy.Met(signed))
		require.LessOrEqual(t, direct.Needed(), relabel.Stricter(destroy).Needed())
		require.LessOrEqual(t, direct.CoolOff, max(relabel.CoolOff, destroy.CoolOff))
	})
}

func TestDelays(t *testing.T) {
	require.False(t, with().Delays())
	require.False(t, with(policy.Rule{Threshold: 2}).Delays())
	require.True(t, with(policy.Rule{Threshold: 1}, policy.Rule{Threshold: 1, CoolOff: time.Second}).Delays())
	require.True(t, with(policy.Rule{Threshold: 1, Window: window(t, "sat 08:00-18:00Z")}).Delays())
}

// TestSignedIsInThePlaceOfOp: of the people, a rule that says signed asks what a rule
// with the same pattern in op asks.
func TestSignedIsInThePlaceOfOp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signed := anySigned.Draw(t, "rule")
		signed.Signed, signed.Labels = signed.Signed[:1], nil
		one := signed
		one.Op, one.Signed = signed.Signed[0], nil
		s := subject.Draw(t, "subject")
		require.Equal(t, with(one).Requirement(s), with(signed).Requirement(s))
		require.Empty(t, with(one).Signs(s), "only signed makes a benign step wait")
	})
}

func TestWhatIsSigned(t *testing.T) {
	prod := map[string]string{"tier": "prod"}
	rule := policy.Rule{Where: "f:1", Signed: []string{"guest.stop", "guest.restart"}, Labels: prod, Threshold: 2}
	for _, c := range []struct {
		op     string
		labels map[string]string
		params op.Params
		want   bool
	}{
		{"guest.stop", prod, nil, true}, {"guest.restart", prod, nil, true}, {"guest.start", prod, nil, false},
		{"guest.stop", nil, nil, false}, {"guest.stop", map[string]string{"tier": "test"}, nil, false},
		{"guest.destroy", prod, nil, false}, {"guest.set-config", prod, op.Params{"memory": int64(1)}, false},
		// The rule would no longer match afterwards.
		{"guest.set-config", prod, op.Params{"labels": map[string]any{}}, true},
		{"guest.set-config", prod, op.Params{"labels": map[string]any{"tier": "prod", "x": "y"}}, false},
		{"guest.restore", prod, op.Params{"snapshot": "a"}, true}, {"guest.backup-restore", prod, op.Params{"backup": "a"}, true},
		{"guest.restore", nil, op.Params{"snapshot": "a"}, false}, {"guest.snapshot-delete", prod, op.Params{"snapshot": "a"}, false},
	} {
		s := policy.Subject{Spec: spec(t, c.op), Target: op.Target{Kind: "guest", Name: "db-1"}, Params: c.params, Labels: c.labels}
		p := with(rule)
		require.Equal(t, c.want, len(p.Signs(s)) > 0, "%s %v %v", c.op, c.labels, c.params)
		require.Equal(t, c.want, p.Requirement(s).Needed() == 2, "%s %v %v", c.op, c.labels, c.params)
	}
}
