package drivertest

import (
	"errors"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var lossCases = []spec{
	{"what would be lost is said before it is signed", false, "", func(c *one) {
		c.made()
		r := c.Waiting(Hub, c.w.Taking(Victim))
		require.NotEmpty(c.t, r.Facts, "operators are told nothing")
		for _, f := range r.Facts {
			require.NotEmpty(c.t, f.Name)
			require.NotEmpty(c.t, f.Text)
			require.NoError(c.t, op.CheckText("a fact", f.Text))
		}
		if !c.w.guests() {
			return
		}
		spec := must.Get(op.Lookup(r.Step.Op))(c.t)
		require.True(c.t, slices.ContainsFunc(r.Facts, func(f op.Fact) bool { return spec.Fate(r.Step.Params, f) == op.Goes }), "none of them goes: %v", r.Facts)
		storage := c.Look(Victim).Storage
		require.NotEmpty(c.t, storage)
		require.Len(c.t, storage, len(slices.Compact(slices.Sorted(slices.Values(storage)))), "an object is named twice")
		for _, id := range c.Look(Bystander).Storage {
			require.NotContains(c.t, storage, id, "two targets claim the same object")
		}
	}},
	{"nothing is said to come back unless something keeps it", true, "", func(c *one) {
		c.made()
		for _, spec := range op.Catalogue() {
			level, words := spec.Undoable(op.Params{}, "any", c.Look(Victim).Facts)
			if level != op.Gone && spec.ByHand == nil {
				require.True(c.t, c.hasOp("undelete"), "%s: %s, and the back end has no trash", spec.Name, words)
			}
		}
	}},
	{"facts have numbers in them", false, "Sizes", func(c *one) {
		c.made()
		r := c.Waiting(Hub, c.w.Taking(Victim))
		require.True(c.t, slices.ContainsFunc(r.Facts, func(f op.Fact) bool { return strings.ContainsAny(f.Text, "0123456789") }), "%v", r.Facts)
	}},
	{"what is signed is done, and nothing else", false, "", func(c *one) {
		c.made()
		before := c.w.Content(Victim)
		c.unharmed(func() {
			c.Done(Hub, c.w.Taking(Victim))
			require.NotEqual(c.t, before, c.w.Content(Victim))
			if c.w.guests() {
				require.Empty(c.t, c.w.Content(Victim), "its data is still there")
				require.False(c.t, c.Look(Victim).Present)
			}
		})
	}},
	{"one that runs is destroyed whole or not at all", true, "Runs", func(c *one) {
		c.made()
		c.Done(Hub, c.ask("start", Victim))
		before := c.w.Content(Victim)
		c.unharmed(func() {
			s := c.Do(Hub, c.w.Taking(Victim))
			if s.State == op.StateSucceeded {
				require.False(c.t, c.Look(Victim).Present)
				require.Empty(c.t, c.w.Content(Victim))
				return
			}
			require.Contains(c.t, []op.State{op.StateRefused, op.StateFailed}, s.State, s.Detail)
			require.Equal(c.t, before, c.w.Content(Victim))
			require.Equal(c.t, "running", c.Look(Victim).Running, "it failed, and left it standing still")
			c.Done(Hub, c.ask("stop", Victim))
		})
	}},
	{"exactly the storage that was named goes", true, "Objects", func(c *one) {
		c.made()
		before, named := c.w.Objects(), c.Look(Victim).Storage
		c.unharmed(func() { c.Done(Hub, c.w.Taking(Victim)) })
		left := slices.DeleteFunc(slices.Clone(before), func(id op.StorageID) bool { return slices.Contains(named, id) })
		require.Len(c.t, left, len(before)-len(named), "the driver names storage that was not there: %v of %v", named, before)
		require.ElementsMatch(c.t, left, c.w.Objects())
	}},
	{"storage that was moved in is seen", true, "MoveDisk", func(c *one) {
		c.made()
		c.Done(Builder, c.creates(Fresh, "scratch", true))
		was := c.Look(Fresh)
		c.w.MoveDisk(Bystander, Fresh)
		now := c.Look(Fresh)
		require.Greater(c.t, len(now.Storage), len(was.Storage), "storage that a destroy would take is not named")
		require.NotEqual(c.t, []any{was.Incarnation, was.Fingerprint}, []any{now.Incarnation, now.Fingerprint})
		c.untouched(func() { c.Waiting(Builder, c.w.Taking(Fresh)) })
	}},
	{"storage that is moved in after an unsigned destroy was let through", true, "MoveDisk", func(c *one) {
		c.made()
		c.Done(Builder, c.creates(Fresh, "scratch", true))
		s := c.Ask(Builder, c.w.Taking(Fresh))
		require.Equal(c.t, op.StatePlanned, s.State, "%s", s.Verdict.Why)
		c.w.MoveDisk(Bystander, Fresh)
		c.untouched(func() {
			err := c.Execute(s.ID)
			if errors.Is(err, refusal.StaleTarget) {
				return // its storage is part of its identity
			}
			require.ErrorIs(c.t, err, refusal.PendingSignature)
			r := must.Get(c.Request(c.ctx, s.ID))(c.t)
			require.NotEmpty(c.t, r.Facts, "operators are told nothing of what is asked for by now")
		})
	}},
	{"storage that was there before is not taken over", true, "Leftover", func(c *one) {
		c.made()
		content := c.w.Leftover(Fresh)
		before := content()
		require.NotEmpty(c.t, before)
		s := c.Do(Builder, c.creates(Fresh, "scratch", true))
		require.Equal(c.t, before, content(), "a create wrote over what was there")
		if s.State == op.StateSucceeded {
			c.Do(Builder, c.w.Taking(Fresh))
			require.Equal(c.t, before, content(), "what was there before was destroyed as scratch")
		}
	}},
	{"a stop that loses something is said to", true, "Volatile", func(c *one) {
		c.w.Make(Bystander)
		c.w.Volatile(Victim)
		require.True(c.t, c.Look(Victim).Volatile)
		c.untouched(func() {
			for _, verb := range []string{"stop", "restart"} {
				if ops := c.Look(Victim).Ops; ops == nil || slices.Contains(ops, "guest."+verb) {
					c.Waiting(Hub, c.ask(verb, Victim))
				}
			}
		})
	}},
}
