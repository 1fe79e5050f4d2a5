package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

var permitCases = []spec{
	{"a permit that was used", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		look := must.Get(c.w.Driver.Observe(c.ctx, r.Step.Look()))(c.t)
		require.NoError(c.t, p.Use(c.ctx, look), "the look for a step is one that its permit takes")
		c.untouched(func() {
			did, err := driver.Run(c.ctx, p, c.w.Driver)
			require.ErrorIs(c.t, err, refusal.Conflict)
			require.Empty(c.t, did.Task)
		})
	}},
	{"a permit for one run", false, "", func(c *one) {
		c.made()
		r := c.Approved(Hub, c.w.Taking(Victim))
		p := c.Permitted(r.ID)
		require.NoError(c.t, c.Execute(r.ID))
		c.Reconcile()
		require.Equal(c.t, c.whenLost(), c.Step(r.ID).State, c.Step(r.ID).Detail)
		if c.w.guests() {
			c.w.Make(Victim)
		}
		c.untouched(func() {
			must.Err(driver.Run(c.ctx, p, c.w.Driver))(c.t)
			must.Fail(c.Approve(r))(c.t, refusal.Replayed)
		})
	}},
	{"an operation that the back end does not have", true, "", unlisted},
}

// unlisted asks for every operation of the catalogue that the driver does not list. It asks
// first through the gate, then with a permit of a gate that does not know the driver's list.
func unlisted(c *one) {
	c.made()
	has := map[string]bool{}
	listed := c.Look(Victim).Ops
	for _, name := range listed {
		must.Get(op.Lookup(name))(c.t, "the driver lists %q", name)
		has[name] = true
	}
	if listed == nil {
		return // it has all operations
	}
	for _, s := range op.Catalogue() {
		if s.Kind != c.w.Driver.Kind() || has[s.Name] {
			continue
		}
		a := op.Ask{Op: s.Name, Target: c.w.Target(Victim), Params: sample(s)}
		if s.Creates {
			a.Target = c.w.Target(Fresh)
		}
		must.Err(c.Submit(Hub, a))(c.t, s.Name)
		c.blind.Store(true)
		c.untouched(func() { c.refusedBeforeUse(a) })
		c.blind.Store(false)
	}
}

// refusedBeforeUse asks for a step that the gate would run. The driver must refuse it before it
// uses the permit.
func (c *one) refusedBeforeUse(a op.Ask) {
	c.t.Helper()
	j, err := c.Submit(Hub, a)
	if err != nil {
		return // the back end has no object of that name
	}
	s := j.Steps[0]
	if s.State == op.StatePending {
		r := must.Get(c.Request(c.ctx, s.ID))(c.t)
		must.Get(c.Approve(r))(c.t)
	}
	require.ErrorIs(c.t, c.Execute(s.ID), refusal.UnknownOp, a.Op)
	require.Equal(c.t, op.StateRefused, c.Step(s.ID).State, "%s was dispatched", a.Op)
}

// sample gives each required parameter a value that the catalogue accepts.
func sample(s op.Spec) op.Params {
	p := op.Params{}
	for _, d := range s.Params {
		switch {
		case !d.Required:
		case d.Name == "from":
			p[d.Name] = Victim
		case d.Type == op.TInt:
			p[d.Name] = d.Min
		default:
			p[d.Name] = "sample"
		}
	}
	return p
}
