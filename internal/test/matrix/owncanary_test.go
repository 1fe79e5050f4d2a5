package matrix_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/canary"
	"gated/internal/test/must"
)

// alerted is how cases end in which the canary tells what somebody wanted hidden:
// by an entry of that kind.
const alerted refusal.Code = "canary"

// noAlert is how cases end in which nobody is told what is not so.
const noAlert refusal.Code = "no_alert"

// watching is a world with a canary, and four who ask.
type watching struct {
	*world
	canary *canary.Canary
	asked  int
}

func (w *world) watches() *watching {
	w.reload() // which tells the log what is in force
	return &watching{world: w, canary: canary.New(canary.Config{Store: w.store, Append: w.gate.Append,
		Now:   func() (time.Time, bool) { m := w.gate.Moment(); return m.Now, m.Trusted },
		Rules: canary.Rules{Decisions: 100, Days: 7, Minimum: 15, Floor: 20}, Back: func(_, _ canary.Identity) string { return "back" }})}
}

// steps has the canary count what the log has.
func (c *watching) steps() *canary.State {
	c.t.Helper()
	require.NoError(c.t, c.canary.Step(c.ctx))
	return c.canary.Shown()
}

// good are jobs that are accepted, of four who ask; they withdraw them again.
func (c *watching) good(each int) {
	c.t.Helper()
	for uid := range uint32(4) {
		by := op.Requester{Source: op.SourceAPI, UID: 3000 + uid}
		for range each {
			c.cancel(by, must.Get(c.submit(by, ask("guest.stop", "bystander")))(c.t).ID)
		}
	}
}

// bad are jobs of the same four that are refused, each about something else.
func (c *watching) bad(each int) {
	c.t.Helper()
	for uid := range uint32(4) {
		for range each {
			c.refused(op.Requester{Source: op.SourceAPI, UID: 3000 + uid})
		}
	}
}

func (c *watching) refused(by op.Requester) {
	c.t.Helper()
	c.asked++
	must.Fail(c.submit(by, ask("guest.start", fmt.Sprintf("nothing-%d", c.asked))))(c.t, refusal.UnknownTarget)
	c.pass(time.Second)
}

// change puts another policy in force.
func (c *watching) change() {
	c.t.Helper()
	c.rules.OpenPerSource--
	c.reload()
}

// untold is a row in which a change has everything refused, and somebody does
// something so that nobody is told.
func untold(id, what string, do func(c *watching) *canary.State) attack {
	return attack{id: id, what: "after a change everything is refused, and " + what, want: alerted, run: func(w *world) error {
		c := w.watches()
		c.steps()
		c.good(8)
		require.Empty(w.t, c.steps().Watch)
		w.arm()
		s := do(c)
		require.NotNil(w.t, s.Watch)
		if s.Watch.Verdict != canary.Alert {
			return nil // nobody is told
		}
		return alerted
	}}
}

var ownCanaryRows = []attack{
	untold("X78a", "further changes come in quick succession, so that there is nothing to compare with", func(c *watching) *canary.State {
		for range 4 {
			c.change()
			c.refused(hub)
			c.steps()
		}
		c.bad(8)
		return c.steps()
	}),
	untold("X78b", "the daemon is stopped until the window is over", func(c *watching) *canary.State {
		c.change()
		c.bad(8)
		c.shut()
		c.pass(8 * 24 * time.Hour)
		c.open()
		return c.world.watches().steps()
	}),
	untold("X78c", "one caller floods the window with what is accepted", func(c *watching) *canary.State {
		c.good(12)
		c.change()
		for i := range 45 {
			c.cancel(hub, must.Get(c.submit(hub, ask("guest.stop", "bystander")))(c.t).ID)
			if i%10 == 0 {
				c.steps()
			}
		}
		c.bad(20)
		return c.steps()
	}),
	untold("X78d", "the clock is set so that the window is paused, and back", func(c *watching) *canary.State {
		c.change()
		c.setClock(70 * 365 * 24 * time.Hour)
		c.refused(hub)
		c.steps()
		c.setClock(-70 * 365 * 24 * time.Hour)
		c.steps()
		c.bad(8)
		return c.steps()
	}),
	{id: "X79a", what: "an agent ends an alert over the socket", want: refusal.NotAllowed, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "POST", "/v1/canary/5/accept", "", ""))
	}},
	{id: "X79b", what: "an alert is ended before there is one, to have it pass unseen; or that of another change", want: refusal.UnknownTarget, run: func(w *world) error {
		c := w.watches()
		c.steps()
		c.good(8)
		c.change()
		change := c.steps().Watch.Change
		w.armUnlogged("the daemon's server logs it")
		require.ErrorIs(w.t, c.canary.Accept(w.ctx, "uid:0", change), refusal.UnknownTarget)
		c.bad(8)
		require.Equal(w.t, canary.Alert, c.steps().Watch.Verdict)
		err := c.canary.Accept(w.ctx, "uid:0", change+1)
		require.True(w.t, c.steps().Watch.Open())
		return err
	}},
	{id: "X79c", what: "one caller has everything of its own refused after a change, to have it taken back", want: noAlert, run: func(w *world) error {
		c := w.watches()
		c.steps()
		c.good(8)
		c.change()
		w.armUnlogged("nobody is told of anything")
		for range 40 {
			c.refused(hub)
		}
		c.good(8)
		if s := c.steps(); s.Watch.Verdict == canary.Alert {
			return nil
		}
		return noAlert
	}},
}
