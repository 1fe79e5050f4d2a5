package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

var lostCases = []spec{
	{"a step that a restart cut off from its answer", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		before := c.w.Content(Victim)
		c.unharmed(func() {
			did := must.Get(driver.Run(c.ctx, c.Permitted(r.ID), c.w.Driver))(c.t)
			if did.Task != "" {
				require.NoError(c.t, c.SetTask(c.ctx, r.ID, did.Task))
			}
			require.Equal(c.t, op.StateDispatched, c.Step(r.ID).State)
			c.restart()
			c.Reconcile()
		})
		require.NotEqual(c.t, before, c.w.Content(Victim))
		require.Equal(c.t, c.whenLost(), c.Step(r.ID).State, c.Step(r.ID).Detail)
		c.onceOnly(r)
	}},
	{"a task that goes on through a restart", true, "", func(c *one) {
		s := c.Ask(Hub, c.creates(Fresh))
		did := must.Get(driver.Run(c.ctx, c.Permitted(s.ID), c.w.Driver))(c.t)
		if did.Task != "" {
			require.NoError(c.t, c.SetTask(c.ctx, s.ID, did.Task))
		}
		c.restart()
		if did.Task != "" {
			must.Get(c.w.Driver.Task(c.ctx, did.Task))(c.t, "the task is not found again")
		}
		c.Reconcile()
		require.Equal(c.t, op.StateSucceeded, c.Step(s.ID).State, c.Step(s.ID).Detail)
		require.Equal(c.t, s.Birth, c.Look(Fresh).Birth)
	}},
	{"a step that was cut off before it began", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		look := must.Get(c.w.Driver.Observe(c.ctx, r.Step.Look()))(c.t)
		require.NoError(c.t, p.Use(c.ctx, look))
		c.untouched(func() {
			c.restart()
			c.Reconcile()
			require.Equal(c.t, op.StateInterrupted, c.Step(r.ID).State, "what takes data is not run again")
			c.onceOnly(r)
		})
	}},
	{"an answer that is lost", false, "LoseAnswer", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		before := c.w.Content(Victim)
		c.unharmed(func() {
			c.w.LoseAnswer()
			c.Reconcile()
		})
		require.NotEqual(c.t, before, c.w.Content(Victim), "the back end was to do it")
		require.Equal(c.t, c.whenLost(), c.Step(r.ID).State, c.Step(r.ID).Detail)
		c.onceOnly(r)
	}},
	{"an answer that comes twice", false, "Twice", func(c *one) {
		c.made()
		c.unharmed(func() {
			c.w.Twice()
			c.Done(Hub, c.w.Taking(Victim))
		})
		c.untouched(func() { c.Reconcile() })
		if c.w.guests() {
			c.Done(Hub, c.creates(Fresh))
			require.True(c.t, c.Look(Fresh).Present)
		}
	}},
}

// whenLost is the end of a destructive step that the back end did without an answer. A look
// shows that a guest is gone. No look shows what a command did.
func (c *one) whenLost() op.State {
	if c.w.guests() {
		return op.StateSucceeded
	}
	return op.StateInterrupted
}

// onceOnly requires that nothing runs an ended step again.
func (c *one) onceOnly(r op.Request) {
	c.t.Helper()
	if c.w.guests() && !c.Look(Victim).Present {
		c.w.Make(Victim)
	}
	c.untouched(func() {
		c.Reconcile()
		must.Fail(c.Gate.Gate.Permit(c.ctx, r.ID))(c.t, refusal.Conflict)
		must.Fail(c.Approve(r))(c.t, refusal.Replayed)
	})
}
