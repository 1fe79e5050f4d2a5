package drivertest

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

var partCases = []spec{
	{"snapshots", true, "", func(c *one) {
		c.made()
		c.has("snapshot")
		inc, before := c.Look(Victim).Incarnation, c.Look(Victim)
		c.unharmed(func() {
			c.Done(Hub, c.ask("snapshot", Victim, "snapshot", "copy"))
			with := c.Look(Victim)
			require.Contains(c.t, with.Snapshots, "copy")
			require.Equal(c.t, inc, with.Incarnation)
			require.NotEqual(c.t, before.Fingerprint, with.Fingerprint, "a signature covers snapshots")
			require.Subset(c.t, with.Storage, before.Storage)
			c.notDone(c.ask("snapshot", Victim, "snapshot", "copy"))
			c.w.Fill(Victim)
			c.signed(c.ask("restore", Victim, "snapshot", "copy"))
			require.Contains(c.t, c.Look(Victim).Snapshots, "copy", "the copy outlives its restore")
			c.signed(c.ask("snapshot-delete", Victim, "snapshot", "copy"))
			require.NotContains(c.t, c.Look(Victim).Snapshots, "copy")
			require.NotEmpty(c.t, c.w.Content(Victim))
		})
	}},
	{"a label that is taken away is gone", true, "", func(c *one) {
		c.made()
		c.w.Change(Victim) // without the gate: it may be a label that the gate did not make
		c.unharmed(func() {
			for _, labels := range []map[string]any{{"stays": "x", "goes": ""}, {"stays": "x"}, {}} {
				s := c.Done(Hub, c.ask("set-config", Victim, "labels", labels))
				have := c.Look(Victim).Labels
				require.True(c.t, maps.Equal(s.Params.Labels("labels"), have), "%v", have)
			}
		})
	}},
	{"a wipe", true, "", func(c *one) {
		c.made()
		c.has("wipe")
		before := c.w.Content(Victim)
		c.unharmed(func() { c.signed(c.ask("wipe", Victim)) })
		require.NotEqual(c.t, before, c.w.Content(Victim))
		require.True(c.t, c.Look(Victim).Present)
	}},
	{"a clone", true, "", func(c *one) {
		c.made()
		c.has("clone")
		before := map[string]seen{}
		for name, s := range c.all() {
			if name != Fresh {
				before[name] = s
			}
		}
		s := c.Done(Builder, c.ask("clone", Fresh, "from", Victim, "scratch", true))
		o, from := c.Look(Fresh), c.Look(Victim)
		require.Equal(c.t, s.Birth, o.Birth)
		require.NotEqual(c.t, from.Incarnation, o.Incarnation)
		require.NotEqual(c.t, from.Birth, o.Birth)
		for _, id := range from.Storage {
			require.NotContains(c.t, o.Storage, id, "it shares storage with what it is a copy of")
		}
		c.Done(Builder, c.w.Taking(Fresh))
		after := c.all()
		for name := range before {
			require.Equal(c.t, before[name], after[name])
		}
	}},
	{"the trash", true, "", func(c *one) {
		c.made()
		c.has("undelete")
		was, content := c.Look(Victim), c.w.Content(Victim)
		c.Done(Hub, c.w.Taking(Victim))
		trash := c.Look(Victim).Trash
		require.True(c.t, slices.ContainsFunc(trash, func(x op.Trashed) bool { return x.Incarnation == was.Incarnation }), "%v", trash)
		c.Done(Hub, c.ask("undelete", Victim, "incarnation", string(was.Incarnation)))
		require.Equal(c.t, content, c.w.Content(Victim))
		require.Equal(c.t, was.Incarnation, c.Look(Victim).Incarnation)
		require.Equal(c.t, was.Fingerprint, c.Look(Victim).Fingerprint)
	}},
	{"the trash, under another name", true, "", func(c *one) {
		c.made()
		c.has("undelete")
		was, content := c.Look(Victim), c.w.Content(Victim)
		c.Done(Hub, c.w.Taking(Victim))
		c.w.Make(Victim) // without the gate
		squatter := c.w.Content(Victim)
		c.unharmed(func() {
			_, err := c.Submit(Hub, c.ask("undelete", Victim, "incarnation", string(was.Incarnation)))
			require.ErrorIs(c.t, err, refusal.Conflict)
			_, err = c.Submit(Hub, c.ask("undelete", Fresh, "incarnation", string(was.Incarnation)))
			require.ErrorIs(c.t, err, refusal.UnknownTarget, "the trash has it by its old name alone")
			c.Done(Hub, c.ask("undelete", Fresh, "from", Victim, "incarnation", string(was.Incarnation)))
		})
		require.Equal(c.t, was.Incarnation, c.Look(Fresh).Incarnation)
		require.Equal(c.t, content, c.w.Content(Fresh))
		require.Equal(c.t, squatter, c.w.Content(Victim))
		require.Empty(c.t, c.Look(Victim).Trash)
	}},
	{"backups", true, "", func(c *one) {
		c.made()
		c.has("backup")
		before := c.Look(Victim).Backups
		c.unharmed(func() {
			c.untouchedBut(func(o *op.Observed) { o.Backups, o.Listed = nil, nil }, func() { c.Done(Hub, c.ask("backup", Victim)) })
			c.Waiting(Hub, c.ask("backup", Victim, "rotate", true))
			made := slices.DeleteFunc(slices.Clone(c.Look(Victim).Backups), func(name string) bool { return slices.Contains(before, name) })
			require.Len(c.t, made, 1)
			c.w.Fill(Victim)
			c.signed(c.ask("backup-delete", Victim, "backup", made[0]))
			require.NotContains(c.t, c.Look(Victim).Backups, made[0])
		})
	}},
}

// has skips a case about an operation that the back end does not have.
func (c *one) has(verb string) {
	c.t.Helper()
	if !c.hasOp(verb) {
		c.t.Skipf("does not apply: the back end has no guest.%s", verb)
	}
}

func (c *one) hasOp(verb string) bool {
	ops := c.Look(Victim).Ops
	return ops == nil || slices.Contains(ops, "guest."+verb)
}

// signed runs a step that needs a signature, and signs it. It does nothing if the back end does
// not have the operation.
func (c *one) signed(a op.Ask) {
	c.t.Helper()
	if ops := c.Look(a.Target.Name).Ops; ops != nil && !slices.Contains(ops, a.Op) {
		return
	}
	r := c.Approved(Hub, a)
	require.NotEmpty(c.t, r.Facts)
	c.Reconcile()
	require.Equal(c.t, op.StateSucceeded, c.Step(r.ID).State, "%s: %s", a.Op, c.Step(r.ID).Detail)
}

// untouchedBut is untouched, but fn may change those parts of the victim that blank clears.
func (c *one) untouchedBut(blank func(*op.Observed), fn func()) {
	c.t.Helper()
	all := func() map[string]seen {
		m := c.all()
		v := m[Victim]
		blank(&v.Look)
		m[Victim] = v
		return m
	}
	before := all()
	fn()
	require.Equal(c.t, before, all(), "something else changed")
}
