package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

var birthCases = []spec{
	{"what the gate made is known as that", true, "", func(c *one) {
		c.w.Make(Bystander)
		s := c.Done(Builder, c.creates(Fresh, "scratch", true))
		o := c.Look(Fresh)
		require.Equal(c.t, s.Birth, o.Birth)
		p := must.Get(c.Provenance(c.ctx, o.Incarnation))(c.t)
		require.NotNil(c.t, p)
		require.True(c.t, p.Made(o.Storage, s.ID.Job), "the journal does not know all that the create made: %v", o.Storage)
		c.restart()
		require.Equal(c.t, s.Birth, c.Look(Fresh).Birth)
		c.unharmed(func() {
			last := c.Ask(Builder, c.w.Taking(Fresh))
			require.Equal(c.t, op.StatePlanned, last.State, "its maker may destroy it unsigned: %s", last.Verdict.Why)
			c.Reconcile()
			require.Equal(c.t, op.StateSucceeded, c.Step(last.ID).State, c.Step(last.ID).Detail)
		})
	}},
	{"what others made under its name is not", true, "", func(c *one) {
		s := c.Done(Builder, c.creates(Fresh, "scratch", true))
		was := c.Look(Fresh)
		c.w.Remake(Fresh)
		now := c.Look(Fresh)
		require.NotEqual(c.t, was.Incarnation, now.Incarnation)
		require.NotEqual(c.t, s.Birth, now.Birth)
		p := must.Get(c.Provenance(c.ctx, now.Incarnation))(c.t)
		require.Nil(c.t, p)
		c.untouched(func() { c.Waiting(Builder, c.w.Taking(Fresh)) })
	}},
	{"two that the gate makes are two", true, "", func(c *one) {
		c.Done(Hub, c.creates(Fresh))
		first := c.Look(Fresh)
		c.Done(Hub, c.w.Taking(Fresh))
		c.Done(Hub, c.creates(Fresh))
		second := c.Look(Fresh)
		require.NotEqual(c.t, first.Incarnation, second.Incarnation)
		c.w.Needs(c.t, "NewIDs")
		for _, id := range second.Storage {
			require.NotContains(c.t, first.Storage, id, "an id of storage was used again")
		}
	}},
}
