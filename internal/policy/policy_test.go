package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/op"
	"gated/internal/policy"
)

func TestBoundsAtBelowAndAbove(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*policy.Policy)
		ok     bool
	}{
		"default":              {func(*policy.Policy) {}, true},
		"validity at the top":  {func(p *policy.Policy) { p.MaxValidity = policy.MaxValidity }, true},
		"validity above":       {func(p *policy.Policy) { p.MaxValidity = policy.MaxValidity + 1 }, false},
		"validity at 1s":       {func(p *policy.Policy) { p.MaxValidity = time.Second }, true},
		"validity below 1s":    {func(p *policy.Policy) { p.MaxValidity = time.Second - 1 }, false},
		"validity zero":        {func(p *policy.Policy) { p.MaxValidity = 0 }, false},
		"validity negative":    {func(p *policy.Policy) { p.MaxValidity = -time.Hour }, false},
		"scratch at the top":   {func(p *policy.Policy) { p.ScratchMaxAge = policy.ScratchMaxAge }, true},
		"scratch above":        {func(p *policy.Policy) { p.ScratchMaxAge = policy.ScratchMaxAge + 1 }, false},
		"no scratch":           {func(p *policy.Policy) { p.ScratchMaxAge = 0 }, true},
		"scratch negative":     {func(p *policy.Policy) { p.ScratchMaxAge = -1 }, false},
		"requests at the top":  {func(p *policy.Policy) { p.OpenPerSource = policy.OpenPerSource }, true},
		"requests above":       {func(p *policy.Policy) { p.OpenPerSource = policy.OpenPerSource + 1 }, false},
		"one request":          {func(p *policy.Policy) { p.OpenPerSource = 1 }, true},
		"no request":           {func(p *policy.Policy) { p.OpenPerSource = 0 }, false},
		"the zero policy":      {func(p *policy.Policy) { *p = policy.Policy{} }, false},
		"commands change none": {func(p *policy.Policy) { p.Commands = []string{"web"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy.Default()
			c.change(&p)
			err := p.Validate()
			if c.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, op.BadParams)
			}
		})
	}
}

func TestOnlyNamedCommands(t *testing.T) {
	require.False(t, policy.Default().MayCommand("web"), "nothing is allowed by itself")
	p := policy.Policy{Commands: []string{"web"}}
	require.True(t, p.MayCommand("web"))
	for _, other := range []string{"", "we", "web ", "Web", "webs"} {
		require.False(t, p.MayCommand(other), "%q", other)
	}
}

func TestRequirementIsTheCatalogues(t *testing.T) {
	for _, spec := range op.Catalogue() {
		r := policy.Default().Requirement(spec)
		require.Equal(t, spec.Roles, r.Roles)
		require.Equal(t, 1, r.Threshold)
		require.Equal(t, policy.MaxValidity, r.MaxValidity)
		require.False(t, r.Accepts(op.Recovery), "%s: recovery signs key rotation only", spec.Name)
	}
	require.False(t, policy.Requirement{}.Accepts(op.Operational), "no role is not any role")
}

func requirement() *rapid.Generator[policy.Requirement] {
	return rapid.Custom(func(t *rapid.T) policy.Requirement {
		return policy.Requirement{
			Roles:       rapid.SliceOfDistinct(rapid.SampledFrom(op.Roles), rapid.ID).Draw(t, "roles"),
			Threshold:   rapid.IntRange(0, 3).Draw(t, "threshold"),
			MaxValidity: time.Duration(rapid.Int64Range(0, int64(policy.MaxValidity)).Draw(t, "validity")),
		}
	})
}

func sameRequirement(a, b policy.Requirement) bool {
	slices.Sort(a.Roles)
	slices.Sort(b.Roles)
	return slices.Equal(a.Roles, b.Roles) && a.Threshold == b.Threshold && a.MaxValidity == b.MaxValidity
}

func TestStricterIsNeverLooser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := requirement().Draw(t, "a"), requirement().Draw(t, "b"), requirement().Draw(t, "c")
		s := a.Stricter(b)
		for _, role := range op.Roles {
			if s.Accepts(role) != (a.Accepts(role) && b.Accepts(role)) {
				t.Fatalf("the role %s", role)
			}
		}
		if s.Threshold < a.Threshold || s.Threshold < b.Threshold || s.MaxValidity > a.MaxValidity || s.MaxValidity > b.MaxValidity {
			t.Fatalf("%+v is looser than %+v or %+v", s, a, b)
		}
		if !sameRequirement(s, b.Stricter(a)) || !sameRequirement(a.Stricter(a), a) ||
			!sameRequirement(s.Stricter(c), a.Stricter(b.Stricter(c))) {
			t.Fatal("it depends on the order, or changes what is the same")
		}
	})
}
