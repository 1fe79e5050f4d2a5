package drivertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/test/must"
)

// patience is how long a case waits for a back end that never answers. Then it gives up as the
// daemon does: it ends the call's context.
const patience = 100 * time.Millisecond

var brokenCases = []spec{
	{"a back end that answers no look", false, "Hang", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		c.untouched(func() {
			release := c.w.Hang(AtLook)
			c.impatient(func(ctx context.Context) {
				_, err := c.w.Driver.Observe(ctx, op.At(c.w.Target(Victim)))
				require.Error(c.t, err, "a look that was not answered is no look")
			})
			c.impatient(func(ctx context.Context) {
				must.Err(c.w.Driver.List(ctx))(c.t, "a list that was not answered is no list: nothing would be there")
			})
			c.impatient(func(ctx context.Context) { must.Err(driver.Run(ctx, p, c.w.Driver))(c.t) })
			release()
			require.NotEqual(c.t, op.StateDispatched, c.Step(r.ID).State, "the permit was used for what could not be looked at")
		})
	}},
	{"a back end that goes silent at its work", false, "Hang", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		before := c.w.Content(Victim)
		c.unharmed(func() {
			release := c.w.Hang(AtWork)
			var err error
			// On a busy machine, the time can end at the look before the work, or while the gate writes that the work begins. Then
			// nothing was done, and the gate gives another permit.
			for wait := patience; c.Step(r.ID).State != op.StateDispatched; wait *= 2 {
				require.Less(c.t, wait, time.Minute, "the driver did not begin its work: %v", err)
				p := c.Permitted(r.ID)
				c.impatientFor(wait, func(ctx context.Context) { _, err = driver.Run(ctx, p, c.w.Driver) })
				require.Error(c.t, err)
			}
			cut := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
			require.True(c.t, cut || driver.IsUnknown(err), "it is not known if the work was done, and the driver says %v", err)
			release()
			c.restart()
			c.Reconcile()
		})
		want := op.StateInterrupted
		after := must.Get(c.Driver().Observe(c.t.Context(), c.Step(r.ID).Afterwards()))(c.t)
		if c.w.Content(Victim) != before && after.Lingers == "" {
			want = c.whenLost() // the back end did the work and sent no answer
		}
		require.Equal(c.t, want, c.Step(r.ID).State, c.Step(r.ID).Detail)
		c.onceOnly(r)
	}},
	{"a back end that lies", true, "Lie", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		before := c.w.Content(Victim)
		stop := c.w.Lie()
		c.Reconcile()
		stop()
		require.Equal(c.t, before, c.w.Content(Victim), "the back end was to do nothing")
		require.Contains(c.t, []op.State{op.StateFailed, op.StateInterrupted}, c.Step(r.ID).State, c.Step(r.ID).Detail)
		c.onceOnly(r)
	}},
	{"a back end that lies about a label and a backup", true, "Lie", func(c *one) {
		c.made()
		c.Done(Hub, c.ask("set-config", Victim, "labels", map[string]any{"hold": ""}))
		asks := []op.Ask{c.ask("set-config", Victim, "labels", map[string]any{})}
		if c.hasOp("backup") {
			asks = append(asks, c.ask("backup", Victim), c.ask("backup", Victim, "rotate", true))
		}
		for _, a := range asks {
			before := c.Look(Victim)
			stop := c.w.Lie()
			s := c.Do(Hub, a)
			stop()
			after := c.Look(Victim)
			did := !maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Backups, after.Backups)
			require.Equal(c.t, did, s.State == op.StateSucceeded, "%s %v: %s: %s", a.Op, a.Params, s.State, s.Detail)
		}
	}},
	{"a call whose caller left", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		c.unharmed(func() {
			ctx, cancel := context.WithCancel(c.ctx)
			cancel()
			returns(c.t, "a step whose context has ended", func() {
				did, err := driver.Run(ctx, p, c.w.Driver)
				if err == nil && did.Task != "" {
					require.NoError(c.t, c.SetTask(c.ctx, r.ID, did.Task))
				}
			})
			c.Reconcile()
		})
		require.False(c.t, c.Step(r.ID).State.Open(), c.Step(r.ID).State)
	}},
}

// impatient runs a call whose context ends soon. The call must return.
func (c *one) impatient(call func(context.Context)) {
	c.t.Helper()
	c.impatientFor(patience, call)
}

// impatientFor is impatient with another time.
func (c *one) impatientFor(wait time.Duration, call func(context.Context)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	returns(c.t, "a call whose context has ended", func() { call(ctx) })
	require.Error(c.t, ctx.Err(), "the call came back before its context ended: the back end was to say nothing")
}
