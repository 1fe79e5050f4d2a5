package drivertest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var copyCases = []spec{
	{"what a restore takes is shown", true, "", func(c *one) {
		c.made()
		c.has("snapshot")
		c.Done(Hub, c.ask("snapshot", Victim, "snapshot", "copy"))
		c.w.Fill(Victim)
		for _, verb := range []string{"restore", "snapshot-delete"} {
			c.copyShown(c.ask(verb, Victim, "snapshot", "copy"), verb == "restore")
		}
		require.Nil(c.t, c.Look(Victim).Copy, "a look for no step is about no copy")
	}},
	{"what a restored backup takes is shown", true, "", func(c *one) {
		c.made()
		c.has("backup")
		c.Done(Hub, c.ask("backup", Victim))
		name := c.Look(Victim).Backups[0]
		for _, verb := range []string{"backup-restore", "backup-delete"} {
			c.copyShown(c.ask(verb, Victim, "backup", name), verb == "backup-restore")
		}
	}},
	{"the backups of a target that is gone are not its successor's", true, "", func(c *one) {
		c.made()
		c.has("backup")
		c.Done(Hub, c.ask("backup", Victim, "rotate", true)) // with rotate, a retention counts it
		name := c.Look(Victim).Backups[0]
		c.w.Remake(Victim)
		for range 2 {
			require.NotContains(c.t, c.Look(Victim).Backups, name)
			for _, verb := range []string{"backup-restore", "backup-delete"} {
				must.Fail(c.Submit(Hub, c.ask(verb, Victim, "backup", name)))(c.t, refusal.UnknownTarget, verb)
			}
			must.Fail(c.Submit(Hub, c.ask("backup", Victim, "rotate", true)))(c.t, refusal.Conflict)
			c.Use(c.w.Restart())
		}
	}},
	{"a copy that is not there asks no operator", true, "", func(c *one) {
		c.made()
		for verb, kind := range map[string]string{"restore": "snapshot", "snapshot-delete": "snapshot", "backup-restore": "backup", "backup-delete": "backup"} {
			if c.hasOp(verb) {
				must.Fail(c.Submit(Hub, c.ask(verb, Victim, kind, "none-such")))(c.t, refusal.UnknownTarget, verb)
			}
		}
	}},
}

// copyShown asks for a step that restores or deletes a copy. The facts for people must say who
// made the copy and when, how much it holds, and what a restore overwrites.
func (c *one) copyShown(a op.Ask, restores bool) {
	c.t.Helper()
	o := must.Get(c.Driver().Observe(c.ctx, op.Step{Op: a.Op, Target: a.Target, Params: a.Params}.Look()))(c.t)
	spec := must.Get(op.Lookup(a.Op))(c.t)
	require.NotNil(c.t, o.Copy, a.Op)
	require.Equal(c.t, spec.Copy, o.Copy.Kind)
	require.Equal(c.t, a.Params.Str(spec.Copy), o.Copy.Name)
	require.False(c.t, o.Copy.Made.IsZero())

	r := c.Waiting(Hub, a)
	fact := func(name string) string {
		i := slices.IndexFunc(r.Facts, func(f op.Fact) bool { return f.Name == name })
		require.GreaterOrEqual(c.t, i, 0, "%s does not say %q: %v", a.Op, name, r.Facts)
		return r.Facts[i].Text
	}
	require.Equal(c.t, o.Copy.Name+", taken "+o.Copy.Made.UTC().Truncate(time.Second).Format(time.RFC3339), fact(spec.Copy))
	require.NotEmpty(c.t, fact(spec.Copy+" made by"), "whom it names is the gate's to say")
	require.NotEmpty(c.t, fact(spec.Copy+" holds"))
	if restores {
		require.NotEmpty(c.t, fact(op.FactOverwritten))
	} else {
		require.False(c.t, slices.ContainsFunc(r.Facts, func(f op.Fact) bool { return strings.HasPrefix(f.Name, op.FactOverwritten) }))
	}
	c.takes(r, restores)
	for _, f := range r.Facts {
		require.True(c.t, op.Shows(f.Name+f.Text), f)
	}
	must.Get(c.Cancel(c.ctx, Hub, r.ID.Job))(c.t)
}

// takes checks what the operation's row makes of the facts of a step that restores or deletes a copy. A restore takes what it
// overwrites and leaves the copy; a deletion takes the copy alone.
func (c *one) takes(r op.Request, restores bool) {
	c.t.Helper()
	spec := must.Get(op.Lookup(r.Step.Op))(c.t)
	for _, f := range r.Facts {
		ofCopy := f.Name == spec.Copy || strings.HasPrefix(f.Name, spec.Copy+" ")
		switch fate := spec.Fate(r.Step.Params, f); {
		case f.Name == op.FactOverwritten, ofCopy && !restores:
			require.Equal(c.t, op.Goes, fate, "%s: %v", spec.Name, f)
		case ofCopy:
			require.Equal(c.t, op.Stays, fate, "%s: %v", spec.Name, f)
		case !restores:
			require.NotEqual(c.t, op.Goes, fate, "%s: %v", spec.Name, f)
		}
	}
}
