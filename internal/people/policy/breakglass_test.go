package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func section(change func(*policy.BreakGlass)) *policy.BreakGlass {
	b := &policy.BreakGlass{Where: "f:9", Ops: []string{"*"}, Threshold: 1, Delay: 15 * time.Minute, AtMost: 2}
	if change != nil {
		change(b)
	}
	return b
}

// TestBreakGlassChangesNoOtherWay: with the section and any rules, what operators and recovery need stays as it was. The way
// is never open for signers and reviews, and no other signature counts for it.
func TestBreakGlassChangesNoOtherWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, s := with(rules.Draw(t, "rules")...), subject.Draw(t, "subject")
		before := p.Requirement(s)
		p.BreakGlass = section(func(b *policy.BreakGlass) { b.Threshold = rapid.IntRange(1, 3).Draw(t, "threshold") })
		after := p.Requirement(s)
		require.Equal(t, before.Ways, after.Ways[:len(before.Ways)])
		require.Equal(t, []any{before.CoolOff, before.Windows, before.MaxValidity, before.Single}, []any{after.CoolOff, after.Windows, after.MaxValidity, after.Single})
		if s.Spec.Kind == op.KindTrust || s.Spec.Kind == op.KindIncident || s.Spec.Kind == op.KindDrill {
			require.Equal(t, before, after)
			return
		}
		require.Len(t, after.Ways, len(before.Ways)+1)
		way := after.Ways[len(before.Ways)]
		require.Equal(t, op.WayBreakGlass, way.Name)
		require.Equal(t, 15*time.Minute, way.Delay)
		for _, d := range way.Demands {
			require.Equal(t, []op.Role{op.BreakGlass}, d.Roles)
			require.False(t, d.Apart, "one person is there")
		}
		alone := op.Requirement{Ways: []op.Way{way}}
		require.False(t, alone.Met(signed(op.Operational, op.Coordination, op.Recovery, manager, "on-call")))
		require.Equal(t, p.BreakGlass.Threshold, alone.Needed())
		require.False(t, after.TakesBatch(op.BreakGlass))
		for _, r := range p.Rules { // what a rule asks of keys is asked of every key
			if r.Op == "" && r.Target == "" && len(r.Labels) == 0 && len(r.Signed) == 0 {
				require.True(t, after.Touch(op.BreakGlass).Satisfies(r.Touch))
				require.True(t, after.NoPasskey(op.BreakGlass) || !r.NoPasskey)
			}
		}
	})
}

func TestBreakGlassIsForItsOperations(t *testing.T) {
	p := with()
	p.BreakGlass = section(func(b *policy.BreakGlass) { b.Ops = []string{"guest.stop", "guest.d*"} })
	for _, s := range op.Catalogue() {
		want := s.Name == "guest.stop" || s.Name == "guest.destroy" || s.Name == "guest.disk-create" || s.Name == "guest.disk-delete" ||
			s.Name == "guest.disk-detach" || s.Name == "guest.disk-resize" || s.Name == "guest.disk-wipe"
		r := p.Requirement(policy.Subject{Spec: s, Target: op.Target{Kind: s.Kind, Name: "x"}})
		require.Equal(t, want, r.Accepts(op.BreakGlass), s.Name)
	}
}

func TestFaultsOfBreakGlass(t *testing.T) {
	for want, c := range map[string]struct {
		change func(*policy.BreakGlass)
		rules  []policy.Rule
	}{
		"the threshold is 0, not 1 to 16":                        {func(b *policy.BreakGlass) { b.Threshold = 0 }, nil},
		"the threshold is 17, not 1 to 16":                       {func(b *policy.BreakGlass) { b.Threshold = 17 }, nil},
		"the delay is 59s, not 1m0s or more":                     {func(b *policy.BreakGlass) { b.Delay = 59 * time.Second }, nil},
		"the delay is 1m0.5s, not 1m0s or more in whole seconds": {func(b *policy.BreakGlass) { b.Delay = time.Minute + time.Second/2 }, nil},
		"the delay of 24h0m0s is no shorter than the policy's":   {func(b *policy.BreakGlass) { b.Delay = 24 * time.Hour }, nil},
		"at_most is 0, not 1 to 16":                              {func(b *policy.BreakGlass) { b.AtMost = 0 }, nil},
		"at_most is 17, not 1 to 16":                             {func(b *policy.BreakGlass) { b.AtMost = 17 }, nil},
		"ops has 0 patterns, not 1 to 32":                        {func(b *policy.BreakGlass) { b.Ops = nil }, nil},
		"ops has 33 patterns, not 1 to 32":                       {func(b *policy.BreakGlass) { b.Ops = stars(33) }, nil},
		`the pattern "" is empty or there twice`:                 {func(b *policy.BreakGlass) { b.Ops = []string{""} }, nil},
		`the pattern "guest.*" is empty or there twice`:          {func(b *policy.BreakGlass) { b.Ops = []string{"guest.*", "guest.*"} }, nil},
		`"guest.{a}" is not a pattern`:                           {func(b *policy.BreakGlass) { b.Ops = []string{"guest.{a}"} }, nil},
		`the pattern "trust.*" matches no operation`:             {func(b *policy.BreakGlass) { b.Ops = []string{"trust.*"} }, nil},
		`the pattern "incident.review" matches no operation`:     {func(b *policy.BreakGlass) { b.Ops = []string{"incident.review"} }, nil},
		`the pattern "drill.sign" matches no operation`:          {func(b *policy.BreakGlass) { b.Ops = []string{"drill.sign"} }, nil},
		"no shorter than the max_validity of 15m0s at f:3":       {nil, []policy.Rule{{Where: "f:3", Threshold: 1, MaxValidity: 15 * time.Minute}}},
	} {
		p := with(c.rules...)
		p.BreakGlass = section(c.change)
		f := p.BreakGlass.Fault(p)
		require.NotNil(t, f, want)
		require.Contains(t, f.Why, want)
		require.ErrorContains(t, p.Validate(), want)
	}
	p := with(policy.Rule{Where: "f:3", Op: "trust.*", Threshold: 1, MaxValidity: time.Minute})
	p.BreakGlass = section(nil)
	require.NoError(t, p.Validate(), "the rule is about what break-glass is never for")
	p = with(policy.Rule{Where: "f:3", Op: "guest.destroy", Labels: map[string]string{"tier": "prod"}, Threshold: 1, MaxValidity: time.Minute})
	p.BreakGlass = section(func(b *policy.BreakGlass) { b.Ops = []string{"guest.restore"} })
	require.NoError(t, p.Validate(), "a restore matches a rule about destroy only if the rule says signed")
	p = with()
	p.BreakGlass = section(func(b *policy.BreakGlass) { b.Ops = stars(policy.MaxBreakGlassOps) })
	require.NoError(t, p.Validate(), "as many patterns as there may be")
	p.Roles = append(p.Roles, op.BreakGlass)
	require.ErrorContains(t, p.Validate(), "the role breakglass is built in")
}

func TestUnmeetableBreakGlass(t *testing.T) {
	could := func(role op.Role, _ op.Touch, _ bool) []string {
		return map[op.Role][]string{op.BreakGlass: {"greta"}, op.Operational: {"alice"}}[role]
	}
	p := with()
	p.BreakGlass = section(nil)
	require.Empty(t, p.Unmeetable(could))
	p.BreakGlass.Threshold = 2
	require.Equal(t, []string{"f:9: break-glass needs 2 in the role breakglass, and 1 could sign"}, p.Unmeetable(could))
}

// TestALineOfBreakGlassIsForRecovery: operators could give themselves a way past their own rules.
func TestALineOfBreakGlassIsForRecovery(t *testing.T) {
	require.True(t, op.BreakGlass.Reserved())
	require.False(t, op.BreakGlass.SignsBatches())
	_, ok := op.RoleOfBatchNamespace("breakglass@batch.gated")
	require.False(t, ok)
	r := must.Get(op.Lookup(op.Rotate))(t)
	require.False(t, r.MayApprove(op.BreakGlass))
}
