package drivertest

import (
	"maps"
	"sync"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var lookCases = []spec{
	{"looks change nothing", false, "", func(c *one) {
		c.made()
		c.untouched(func() {
			for range 2 {
				must.Get(c.w.Driver.List(c.ctx))(c.t)
			}
		})
	}},
	{"a list says what a look says", true, "", func(c *one) {
		c.made()
		list := must.Get(c.w.Driver.List(c.ctx))(c.t)
		found := map[string]op.Observed{}
		for _, o := range list {
			require.NotContains(c.t, found, o.Target.Name, "it is listed twice")
			found[o.Target.Name] = o
		}
		for _, name := range []string{Victim, Bystander} {
			require.Contains(c.t, found, name)
			require.Equal(c.t, listed(c.Look(name)), listed(found[name]))
		}
		require.NotContains(c.t, found, Fresh)
	}},
	{"what is not there", false, "", func(c *one) {
		c.made()
		if c.w.guests() {
			o := c.Look(Fresh)
			require.False(c.t, o.Present)
			require.Equal(c.t, "absent", o.Running)
			require.Empty(c.t, o.Storage)
			must.Fail(c.Submit(Hub, c.w.Taking(Fresh)))(c.t, refusal.UnknownTarget)
		}
		o, err := c.w.Driver.Observe(c.ctx, op.At(op.Target{Kind: "no-such-kind", Name: Victim}))
		require.True(c.t, err != nil || !o.Present, "a target of another kind is there")
		must.Fail(c.w.Driver.Task(c.ctx, "no-such-task"))(c.t, refusal.UnknownTarget)
	}},
	{"a target in which other hands wrote is not as it was made", true, "", func(c *one) {
		c.Done(Hub, c.creates(Fresh))
		as := c.Look(Fresh).Content
		require.Equal(c.t, as, c.Look(Fresh).Content, "a look changes nothing")
		if as == "" {
			return // no token, so a failed job never takes the target back unsigned
		}
		c.w.Fill(Fresh)
		require.NotEqual(c.t, as, c.Look(Fresh).Content)
	}},
	{"running is no part of what is signed", true, "Runs", func(c *one) {
		c.made()
		still := c.Look(Victim)
		require.Equal(c.t, "stopped", still.Running)
		c.Done(Hub, c.ask("start", Victim))
		up := c.Look(Victim)
		require.Equal(c.t, "running", up.Running)
		require.Equal(c.t, still.Incarnation, up.Incarnation)
		require.Equal(c.t, still.Fingerprint, up.Fingerprint)
		c.Done(Hub, c.ask("stop", Victim))
		require.Equal(c.t, "stopped", c.Look(Victim).Running)
		require.Equal(c.t, still.Fingerprint, c.Look(Victim).Fingerprint)
	}},
	{"limits are no part of what is signed", true, "", limitsUncovered},
	{"a restart changes no look", false, "", func(c *one) {
		c.made()
		c.untouched(c.restart)
	}},
	{"many looks at once, and a step among them", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		c.unharmed(func() {
			stop, looks := make(chan struct{}), sync.WaitGroup{}
			for range 4 {
				looks.Go(func() { c.looksUntil(stop) })
			}
			c.Reconcile()
			close(stop)
			looks.Wait()
		})
		require.Equal(c.t, op.StateSucceeded, c.Step(r.ID).State, c.Step(r.ID).Detail)
	}},
}

// looksUntil looks at everything again and again. The driver may refuse a look at a target that
// is being changed. It must never show another target.
func (c *one) looksUntil(stop chan struct{}) {
	for {
		for _, name := range Names() {
			o, err := c.Driver().Observe(c.ctx, op.At(c.w.Target(name)))
			if err == nil && o.Target != c.w.Target(name) {
				c.t.Errorf("a look at %s shows %s", name, o.Target)
			}
		}
		_, _ = c.Driver().List(c.ctx)
		select {
		case <-stop:
			return
		default:
		}
	}
}

// listed removes from a look what a list does not have: facts, the trash and the backups.
func listed(o op.Observed) op.Observed {
	o.Facts, o.Trash, o.Backups, o.Listed = nil, nil, nil, nil
	return o
}

// limitsUncovered changes every limit between a request and its approval, and again before the
// step runs. An agent that changes limits in a loop must not delay a signed step.
func limitsUncovered(c *one) {
	c.made()
	was := c.Look(Victim)
	r := c.Waiting(Hub, c.w.Taking(Victim))
	changed := 0
	change := func() {
		for _, wish := range c.w.Changes {
			if wish.Has("labels") || wish.Has("protected") || wish.Has("command") {
				continue
			}
			changed++
			c.Done(Hub, op.Ask{Op: "guest.set-config", Target: c.w.Target(Victim), Params: maps.Clone(wish)})
			require.Equal(c.t, was.Fingerprint, c.Look(Victim).Fingerprint, "a signature covers %v", wish)
		}
	}
	change()
	require.NotZero(c.t, changed, "the world changes no limit")
	require.NoError(c.t, c.Refresh(c.ctx, c.w.Target(Victim)))
	same := must.Get(c.Request(c.ctx, r.ID))(c.t)
	require.Equal(c.t, r.Payload, same.Payload, "the request was issued anew")
	must.Get(c.Approve(r))(c.t)
	c.Reconcile()
	require.Equal(c.t, op.StateSucceeded, c.Step(r.ID).State, c.Step(r.ID).Detail)
}
