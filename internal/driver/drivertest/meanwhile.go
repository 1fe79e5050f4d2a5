package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// fieldCases have a hand change fields of a guest after the permit was used and before the driver's work.
var fieldCases = []spec{
	{"a field that a hand changes once the permit of an undo was used", true, "SetMemory", func(c *one) {
		c.made()
		c.w.SetMemory(Victim, 512)
		j := must.Get(c.Submit(Hub, c.ask("set-config", Victim, "memory", int64(600)), c.ask("start", Victim)))(c.t)
		require.NoError(c.t, c.Execute(j.Steps[0].ID))
		set := c.Look(Victim)
		require.Equal(c.t, int64(600), set.Spec.Int("memory"))
		must.Get(c.Record(c.ctx, j.Steps[0].ID, gate.Outcome{After: &set}))(c.t)
		must.Get(c.Refuse(c.ctx, j.Steps[1].ID, refusal.New(refusal.Conflict, "so the job fails")))(c.t)
		c.unharmed(func() {
			undo := op.StepID{Job: j.ID, Index: 3}
			c.meanwhile(c.Permitted(undo), func() { c.w.SetMemory(Victim, 700) })
			c.Reconcile()
			require.Equal(c.t, int64(700), c.Look(Victim).Spec.Int("memory"), "the undo took back what the hand did")
			require.Equal(c.t, op.StateSuperseded, c.Step(undo).State, c.Step(undo).Detail)
		})
	}},
	{"a label that a hand adds once the permit of other labels was used", true, "", func(c *one) {
		c.made()
		s := c.Ask(Hub, c.ask("set-config", Victim, "labels", map[string]any{"mine": "x"}))
		require.Equal(c.t, op.StatePlanned, s.State, s.Verdict.Rule)
		var added map[string]string
		c.unharmed(func() {
			c.meanwhile(c.Permitted(s.ID), func() { c.w.Change(Victim); added = c.Look(Victim).Labels })
			c.Reconcile()
		})
		require.NotEmpty(c.t, added, "Change adds a label")
		for name, value := range added {
			require.Equal(c.t, value, c.Look(Victim).Labels[name], "no operator signed for the end of %s", name)
		}
		require.Equal(c.t, op.StatePending, c.Step(s.ID).State, c.Step(s.ID).Detail)
	}},
}
