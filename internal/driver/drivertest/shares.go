package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// shareCases have a hand give a disk of one guest to another one.
var shareCases = []spec{
	{"scratch whose disk another guest has waits", true, "Share", func(c *one) {
		c.scratch()
		before := c.w.Content(Fresh)
		apart := c.w.Share(Fresh, Bystander)
		for range 2 {
			c.othersShown(c.w.Taking(Fresh))
			c.untouched(func() {
				r := c.Waiting(Builder, c.w.Taking(Fresh))
				require.Equal(c.t, "cascade", r.Step.Verdict.Rule)
				must.Get(c.Cancel(c.ctx, Builder, r.ID.Job))(c.t)
			})
			c.restart()
		}
		apart()
		require.Equal(c.t, before, c.w.Content(Fresh))
		require.Empty(c.t, c.lookFor(c.w.Taking(Fresh)).Dependent)
		c.Done(Builder, c.w.Taking(Fresh)) // it is scratch again
	}},
	{"a disk that another guest got after an unsigned destroy was let through", true, "Share", func(c *one) {
		c.scratch()
		s := c.Ask(Builder, c.w.Taking(Fresh))
		require.Equal(c.t, op.StatePlanned, s.State, "%s", s.Verdict.Why)
		c.w.Share(Fresh, Bystander)
		c.untouched(func() {
			require.ErrorIs(c.t, c.Execute(s.ID), refusal.PendingSignature)
			require.Equal(c.t, op.StatePending, c.Step(s.ID).State)
		})
	}},
	{"a disk that another guest gets once the permit of an unsigned destroy was used", true, "Share", func(c *one) {
		c.scratch()
		s := c.Ask(Builder, c.w.Taking(Fresh))
		before := c.w.Content(Fresh)
		c.meanwhile(c.Permitted(s.ID), func() { c.w.Share(Fresh, Bystander) })
		c.Reconcile()
		require.Equal(c.t, before, c.w.Content(Fresh), "%s: %s", c.Step(s.ID).State, c.Step(s.ID).Detail)
	}},
	{"what takes a disk says who else has it", true, "Share", func(c *one) {
		c.made()
		c.has("snapshot")
		c.Done(Hub, c.ask("snapshot", Victim, "snapshot", "copy"))
		c.w.Share(Victim, Bystander)
		require.True(c.t, c.othersShown(c.w.Taking(Victim)), "no look showed it")
		for _, verb := range []string{"restore", "snapshot-delete"} {
			if c.hasOp(verb) {
				c.othersShown(c.ask(verb, Victim, "snapshot", "copy"))
			}
		}
	}},
	{"a disk of another guest stays", true, "Share", func(c *one) {
		c.scratch()
		before := c.w.Content(Bystander)
		c.w.Share(Bystander, Fresh)
		c.Done(Hub, c.w.Taking(Fresh))
		require.False(c.t, c.Look(Fresh).Present)
		require.Equal(c.t, before, c.w.Content(Bystander))
	}},
}

// scratch makes the guest Fresh as scratch of the builder, beside the others.
func (c *one) scratch() {
	c.t.Helper()
	c.made()
	c.Done(Builder, c.creates(Fresh, "scratch", true))
}

// lookFor is the driver's look for a step.
func (c *one) lookFor(a op.Ask) op.Observed {
	c.t.Helper()
	return must.Get(c.Driver().Observe(c.ctx, op.Step{Op: a.Op, Target: a.Target, Params: a.Params}.Look()))(c.t)
}

// othersShown asks that a look for a step that takes a disk names the bystander, who has it, too, unless it foresees that the driver refuses the step. It says whether
// a look was asked.
func (c *one) othersShown(a op.Ask) bool {
	c.t.Helper()
	o := c.lookFor(a)
	if o.Cannot == "" {
		require.Equal(c.t, []op.Target{c.w.Target(Bystander)}, o.Dependent, a.Op)
	}
	return o.Cannot == ""
}
