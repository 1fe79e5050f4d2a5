package drivertest

import (
	"sync"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/test/must"
)

var staleCases = []spec{
	{"another incarnation between approval and execution", false, "", func(c *one) { staleAtExecution(c, c.w.Remake) }},
	{"another incarnation between signature and approval", false, "", func(c *one) {
		c.made()
		r := c.Waiting(Hub, c.w.Taking(Victim))
		c.w.Remake(Victim)
		c.untouched(func() { must.Fail(c.Approve(r))(c.t, refusal.StaleTarget) })
		require.NoError(c.t, c.Refresh(c.ctx, c.w.Target(Victim)))
		require.Equal(c.t, op.StateSuperseded, c.Step(r.ID).State)
	}},
	{"another state between approval and execution", false, "", func(c *one) { staleAtExecution(c, c.w.Change) }},
	{"another state between signature and approval", false, "", func(c *one) {
		c.made()
		inc := c.Look(Victim).Incarnation
		r := c.Waiting(Hub, c.w.Taking(Victim))
		c.w.Change(Victim)
		require.Equal(c.t, inc, c.Look(Victim).Incarnation, "Change leaves the incarnation")
		c.untouched(func() { must.Fail(c.Approve(r))(c.t, refusal.StaleTarget) })
		require.NoError(c.t, c.Refresh(c.ctx, c.w.Target(Victim)))
		again := must.Get(c.Request(c.ctx, r.ID))(c.t)
		require.Equal(c.t, op.StatePending, again.Step.State)
		require.NotEqual(c.t, r.Payload, again.Payload, "operators are asked about what is there now")
		must.Get(c.Approve(again))(c.t)
	}},
	{"protection between approval and execution", false, "Protect", func(c *one) {
		staleAtExecution(c, c.w.Protect)
		require.True(c.t, c.Look(Victim).Protected)
	}},
	{"data alone makes nothing stale", false, "", func(c *one) {
		c.made()
		before := c.Look(Victim)
		c.w.Fill(Victim)
		after := c.Look(Victim)
		require.Equal(c.t, before.Incarnation, after.Incarnation)
		require.Equal(c.t, before.Fingerprint, after.Fingerprint)
	}},
	{"a benign step follows no name", true, "", func(c *one) {
		c.made()
		s := c.Ask(Hub, c.harmless(Victim))
		require.Equal(c.t, op.StatePlanned, s.State, s.Verdict.Rule)
		c.w.Remake(Victim)
		c.untouched(func() {
			require.ErrorIs(c.t, c.Execute(s.ID), refusal.StaleTarget)
			require.Equal(c.t, op.StateRefused, c.Step(s.ID).State)
		})
	}},
	{"another incarnation once the permit was used", true, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		var other string
		c.unharmed(func() { c.meanwhile(p, func() { c.w.Remake(Victim); other = c.w.Content(Victim) }) })
		require.NotEmpty(c.t, other, "nothing was dispatched")
		require.Equal(c.t, other, c.w.Content(Victim), "what was destroyed is not what was signed")
		require.True(c.t, c.Look(Victim).Present)
	}},
	{"protection once the permit was used", true, "Protect", func(c *one) {
		c.made()
		p, was := c.Permitted(c.Approved(Hub, c.w.Taking(Victim)).ID), c.w.Content(Victim)
		c.unharmed(func() { c.meanwhile(p, func() { c.w.Protect(Victim) }) })
		require.True(c.t, c.Look(Victim).Protected, "nothing was dispatched, or the step took what was protected")
		require.Equal(c.t, was, c.w.Content(Victim))
		require.NotEqual(c.t, op.StateSucceeded, c.Step(p.Step().ID).State)
	}},
	{"a name that is taken once the permit was used", true, "", func(c *one) {
		c.w.Make(Bystander)
		s := c.Ask(Hub, c.creates(Fresh))
		var others string
		c.unharmed(func() {
			c.meanwhile(c.Permitted(s.ID), func() {
				c.w.Make(Fresh)
				others = c.w.Content(Fresh)
			})
		})
		require.NotEmpty(c.t, others, "nothing was dispatched")
		require.Equal(c.t, others, c.w.Content(Fresh), "a create wrote over what others made")
		// If the back end lets two targets have one name, both have it now, and no look tells
		// which one is meant.
		require.NotEqual(c.t, op.StateSucceeded, c.Step(s.ID).State)
		o, err := c.Driver().Observe(c.ctx, op.At(c.w.Target(Fresh)))
		require.True(c.t, err != nil || o.Birth != s.Birth)
	}},
	{"a name that is taken meanwhile", true, "", func(c *one) {
		c.made()
		s := c.Ask(Hub, c.creates(Fresh))
		require.Equal(c.t, op.StatePlanned, s.State)
		c.w.Make(Fresh)
		c.untouched(func() {
			err := c.Execute(s.ID)
			require.ErrorIs(c.t, err, refusal.Conflict)
			require.Equal(c.t, op.HintExists, refusal.As(err).Hint)
			require.Equal(c.t, op.StateRefused, c.Step(s.ID).State)
		})
	}},
}

// meanwhile runs a permit's step and calls fn in between: after the commit that dispatches the
// step, and before the driver gets it. The driver waits for fn.
func (c *one) meanwhile(p gate.Permit, fn func()) {
	c.t.Helper()
	var once sync.Once
	c.Store.OnCommit(func() { once.Do(fn) })
	did, err := driver.Run(c.ctx, p, c.w.Driver)
	id := p.Step().ID
	if err == nil && did.Task != "" {
		require.NoError(c.t, c.SetTask(c.ctx, id, did.Task))
	}
	c.Reconcile()
}

// staleAtExecution changes a target after its destroy was approved. The target must stay, and
// the approval is spent.
func staleAtExecution(c *one, change func(string)) {
	c.made()
	was := c.covered(Victim)
	r := c.Approved(Hub, c.w.Taking(Victim))
	change(Victim)
	require.NotEqual(c.t, was, c.covered(Victim), "the driver does not see the change")
	c.untouched(func() {
		require.ErrorIs(c.t, c.Execute(r.ID), refusal.StaleTarget)
		require.Equal(c.t, op.StateRefused, c.Step(r.ID).State)
		must.Fail(c.Approve(r))(c.t, refusal.Replayed)
	})
}

// covered is everything that a signature of the target's destructive step covers. For some
// targets it shows only in a look for that step.
func (c *one) covered(name string) [2]string {
	c.t.Helper()
	o, err := c.w.Driver.Observe(c.ctx, op.Step{Op: c.w.Taking(name).Op, Target: c.w.Target(name), Params: c.w.Taking(name).Params}.Look())
	require.NoError(c.t, err)
	return [2]string{string(o.Incarnation), string(o.Fingerprint)}
}
