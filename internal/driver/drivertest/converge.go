package drivertest

import (
	"maps"

	"github.com/stretchr/testify/require"

	"gated/internal/desired"
	"gated/internal/op"
	"gated/internal/reconcile"
)

var convergeCases = []spec{
	{"a wish is reached in one pass", true, "", func(c *one) {
		for _, wish := range c.w.Wishes {
			kv := []any{"state", "stopped"}
			for k, v := range wish {
				kv = append(kv, k, v)
			}
			c.Done(Hub, c.creates(Fresh, kv...))
			c.converged(desired.Guest{Name: Fresh, State: desired.Stopped, Fields: wish})
			c.Done(Hub, c.w.Taking(Fresh))
		}
	}},
	{"a changed wish is reached in one pass", true, "", func(c *one) {
		c.Done(Hub, c.creates(Fresh))
		before := c.Look(Fresh)
		for _, wish := range c.w.Changes {
			c.Done(Hub, op.Ask{Op: "guest.set-config", Target: c.w.Target(Fresh), Params: maps.Clone(wish)})
			c.converged(desired.Guest{Name: Fresh, Fields: wish})
			require.Equal(c.t, before.Incarnation, c.Look(Fresh).Incarnation, "%v made another of it", wish)
		}
		require.NotEqual(c.t, before.Fingerprint, c.Look(Fresh).Fingerprint)
	}},
	{"a running one is reached in one pass", true, "Runs", func(c *one) {
		c.w.Make(Victim)
		c.Done(Hub, c.ask("start", Victim))
		c.converged(desired.Guest{Name: Victim, State: desired.Running})
		c.Done(Hub, c.ask("stop", Victim))
		c.converged(desired.Guest{Name: Victim, State: desired.Stopped})
	}},
}

// converged holds where nothing is left to do for a wish, in a look and in a list.
func (c *one) converged(want desired.Guest) {
	c.t.Helper()
	require.Empty(c.t, reconcile.Plan(want, c.Look(want.Name)), "a look after %v", want.Fields)
	list, err := c.Driver().List(c.ctx)
	require.NoError(c.t, err)
	for _, o := range list {
		if o.Target == want.Target() {
			require.Empty(c.t, reconcile.Plan(want, o), "a list after %v", want.Fields)
			return
		}
	}
	c.t.Fatalf("%s is not listed", want.Name)
}
