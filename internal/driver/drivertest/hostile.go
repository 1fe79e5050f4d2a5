package drivertest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// noNames are no valid names. The gate or the driver must refuse them before a back end sees
// them.
var noNames = []string{"", ".", "..", "../" + Victim, "/" + Victim, Victim + "/", Victim + "/../" + Bystander, "-" + Victim,
	"--all", Victim + "\x00", Victim + "\n", " " + Victim, Victim + " ", Victim + "?force=1", Victim + "%2f", Victim + "#", "*", "vic*",
	"$(id)", "`id`", Victim + ";id", "\u202e" + Victim, "ｖictim", "víctim", "\xff", strings.Repeat("a", 129), "<victim/>", `"victim"`}

// otherNames are valid names, but no target has them.
var otherNames = []string{"VICTIM", "Victim", "victi", "victim2", "victim.", "victim-", "victim_", "0", "00", "100", "1e3", "null", "true",
	"default", "all", "a..b", "con", strings.Repeat("v", 128)}

var hostileCases = []spec{
	{"names that are none", false, "", func(c *one) {
		c.made()
		c.untouched(func() {
			for _, name := range noNames {
				o, err := c.w.Driver.Observe(c.ctx, op.At(c.w.Target(name)))
				require.True(c.t, err != nil || !o.Present, "there is a %q", name)
				a := c.w.Taking(Victim)
				a.Target.Name = name
				must.Fail(c.Submit(Hub, a))(c.t, refusal.Malformed, "%q", name)
			}
		})
	}},
	{"names that no target has", false, "", func(c *one) {
		c.made()
		names := otherNames
		if c.w.Aliases != nil {
			aliases := c.w.Aliases(Victim)
			require.NotEmpty(c.t, aliases)
			for _, name := range aliases {
				require.NoError(c.t, op.CheckName(name))
			}
			names = append(aliases, names...)
		}
		c.untouched(func() {
			for _, name := range names {
				o, err := c.w.Driver.Observe(c.ctx, op.At(c.w.Target(name)))
				require.True(c.t, err != nil || !o.Present, "there is a %q", name)
				a := c.w.Taking(Victim)
				a.Target.Name = name
				must.Err(c.Submit(Hub, a))(c.t, "%q", name)
			}
		})
	}},
	{"parts that are not there", true, "", func(c *one) {
		c.made()
		c.untouched(func() {
			for _, a := range []op.Ask{c.ask("snapshot-delete", Victim, "snapshot", "none"), c.ask("restore", Victim, "snapshot", "none"),
				c.ask("disk-delete", Victim, "disk", "none"), c.ask("disk-wipe", Victim, "disk", "none"), c.ask("disk-detach", Victim, "disk", "none"),
				c.ask("backup-delete", Victim, "backup", "none"), c.ask("backup-restore", Victim, "backup", "none"),
				c.ask("clone", Fresh, "from", "nobody"), c.ask("create", Fresh, "template", "none")} {
				c.notDone(a)
			}
		})
	}},
	{"parameters that are none", false, "", func(c *one) {
		c.made()
		c.untouched(func() {
			for _, v := range []any{"--force", "../x", "a\x00b", "a\nb", "\x1b[2J", "\u202e", strings.Repeat("x", 1<<17), int64(-1), true} {
				a := c.w.Taking(Victim)
				p := op.Params{"no-such-parameter": v}
				for k, old := range a.Params {
					p[k] = old
				}
				a.Params = p
				must.Err(c.Submit(Hub, a))(c.t, "%v", v)
			}
		})
	}},
}

// notDone asks for a step on a target that does not exist. The step must not run, and must not
// end as done.
func (c *one) notDone(a op.Ask) {
	c.t.Helper()
	j, err := c.Submit(Hub, a)
	if err != nil {
		return
	}
	s := j.Steps[0]
	if s.State == op.StatePending {
		r := must.Get(c.Request(c.ctx, s.ID))(c.t)
		must.Get(c.Approve(r))(c.t)
	}
	require.Error(c.t, c.Execute(s.ID), a.Op)
	require.Equal(c.t, op.StateRefused, c.Step(s.ID).State, "the permit of %s was used for what is not there", a.Op)
}
