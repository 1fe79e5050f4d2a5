package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/people/policy"
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
		"no hold":              {func(p *policy.Policy) { p.RejectHolds = 0 }, true},
		"a negative hold":      {func(p *policy.Policy) { p.RejectHolds = -1 }, false},
		"a hold at the top":    {func(p *policy.Policy) { p.RejectHolds = policy.MaxRejectHolds }, true},
		"a hold above":         {func(p *policy.Policy) { p.RejectHolds = policy.MaxRejectHolds + 1 }, false},
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
				require.ErrorIs(t, err, refusal.BadParams)
			}
		})
	}
}

func TestOnlyNamedCommands(t *testing.T) {
	require.False(t, policy.Default().MayCommand("web", "g"), "nothing is allowed by itself")
	p := policy.Policy{Commands: []string{"web"}}
	require.True(t, p.MayCommand("web", "g"))
	for _, other := range []string{"", "we", "web ", "Web", "webs"} {
		require.False(t, p.MayCommand(other, "g"), "%q", other)
	}
}
