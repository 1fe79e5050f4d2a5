package drivertest

import (
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// The sizes of a case's disk, in MiB.
const (
	small int64 = 64
	large int64 = 128
)

var diskCases = []spec{
	{"disks are named with their storage", true, "NewDisk", func(c *one) {
		c.made()
		o := c.Look(Victim)
		require.NotEmpty(c.t, o.Disks)
		for _, d := range o.Disks {
			require.NoError(c.t, op.CheckName(d.Name))
			require.Contains(c.t, o.Storage, d.ID, d.Name)
			require.Positive(c.t, d.Size, d.Name)
		}
		_, there := o.Disk(c.w.NewDisk)
		require.False(c.t, there)
	}},
	{"the life of a disk", true, "NewDisk", func(c *one) {
		c.made()
		c.has("disk-create")
		before := c.Look(Victim)
		on := func(verb string, kv ...any) op.Ask {
			return c.ask(verb, Victim, append([]any{"disk", c.w.NewDisk}, kv...)...)
		}
		c.unharmed(func() {
			c.Done(Hub, on("disk-create", "size", small))
			d := c.disk(small)
			require.NotContains(c.t, before.Storage, d.ID)
			require.Contains(c.t, c.Look(Victim).Storage, d.ID)
			require.NotEqual(c.t, before.Fingerprint, c.Look(Victim).Fingerprint)
			c.notDone(on("disk-create", "size", small))
			if c.hasOp("disk-resize") {
				c.Done(Hub, on("disk-resize", "size", large))
				c.disk(large)
				smaller := on("disk-resize", "size", small)
				l := op.Step{Op: smaller.Op, Target: smaller.Target, Params: smaller.Params}.Look()
				if now := must.Get(c.Driver().Observe(c.ctx, l))(c.t); now.Cannot != "" {
					must.Fail(c.Submit(Hub, smaller))(c.t, now.CannotCode)
				} else {
					c.Waiting(Hub, smaller)
				}
			}
			c.signed(on("disk-wipe"))
			if c.hasOp("disk-delete") {
				c.signed(on("disk-delete"))
				_, there := c.Look(Victim).Disk(c.w.NewDisk)
				require.False(c.t, there)
				require.ElementsMatch(c.t, before.Storage, c.Look(Victim).Storage)
			}
		})
	}},
	{"a disk of another incarnation", true, "NewDisk", func(c *one) {
		c.made()
		c.has("disk-wipe")
		a := c.ask("disk-wipe", Victim, "disk", c.Look(Victim).Disks[0].Name)
		r := c.Approved(Hub, a)
		c.w.Remake(Victim)
		c.untouched(func() {
			require.ErrorIs(c.t, c.Execute(r.ID), refusal.StaleTarget)
			require.Equal(c.t, op.StateRefused, c.Step(r.ID).State)
		})
	}},
}

// disk returns the victim's new disk, which must have so many MiB.
func (c *one) disk(size int64) op.Disk {
	c.t.Helper()
	d, there := c.Look(Victim).Disk(c.w.NewDisk)
	require.True(c.t, there, "%v", c.Look(Victim).Disks)
	require.Equal(c.t, size<<20, d.Size)
	return d
}
