package drivertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/reconcile"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
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
	{"desired state is reached, and stays", true, "", desiredStays},
	{"a running one is reached in one pass", true, "Runs", func(c *one) {
		c.w.Make(Victim)
		c.Done(Hub, c.ask("start", Victim))
		c.converged(desired.Guest{Name: Victim, State: desired.Running})
		c.Done(Hub, c.ask("stop", Victim))
		c.converged(desired.Guest{Name: Victim, State: desired.Stopped})
	}},
}

// desiredStays lets documents make a guest and change it. Each document leads to one job, and a
// further look at all of them leads to none.
func desiredStays(c *one) {
	if len(c.w.Create) > 0 {
		return // a document cannot give the parameters that this back end needs
	}
	for i, wish := range c.w.Wishes {
		text := "apiVersion: gated/v1\nhost: " + Host + "\nguests:\n  - name: " + Fresh + "\n    state: stopped\n" + document(wish)
		must.Get(c.PutSet(c.ctx, Daemon, "hub", "", []byte(text)))(c.t)
		for range 3 {
			status := c.Reconcile(reconcile.NewAPI(c.Gate.Gate))
			require.True(c.t, status.Sources[0].OK, status.Sources[0].Error)
			require.Empty(c.t, status.Stopped)
			jobs := must.Get(c.Jobs(c.ctx, gate.JobFilter{}))(c.t)
			require.LessOrEqual(c.t, len(jobs), i+1, "%v is wished for again and again", wish)
		}
		want := desired.Guest{Name: Fresh, State: desired.Stopped, Fields: wish}
		c.converged(want)
	}
}

// document writes fields as a document of desired state.
func document(fields op.Params) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[name].(type) {
		case int64:
			unit := map[string]string{"memory": "MiB"}[name]
			fmt.Fprintf(&b, "    %s: %d%s\n", name, v, unit)
		case map[string]any:
			fmt.Fprintf(&b, "    %s:\n", name)
			for _, k := range slices.Sorted(maps.Keys(v)) {
				fmt.Fprintf(&b, "      %s: %q\n", k, v[k])
			}
		default:
			fmt.Fprintf(&b, "    %s: %#v\n", name, v)
		}
	}
	return b.String()
}

// converged requires that a look and a list show nothing left to do for a wish.
func (c *one) converged(want desired.Guest) {
	c.t.Helper()
	require.Empty(c.t, reconcile.Plan(want, c.Look(want.Name)), "a look after %v", want.Fields)
	list := must.Get(c.Driver().List(c.ctx))(c.t)
	for _, o := range list {
		if o.Target == want.Target() {
			require.Empty(c.t, reconcile.Plan(want, o), "a list after %v", want.Fields)
			return
		}
	}
	c.t.Fatalf("%s is not listed", want.Name)
}
