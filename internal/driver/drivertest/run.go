package drivertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/gateworld"
)

// one is one running case of the suite, with its own World and a gate in front of it.
type one struct {
	*Gate
	w World
	t *testing.T
}

// spec is one case of the suite.
type spec struct {
	name   string
	guests bool   // only for a kind that a gate can make and destroy
	needs  string // an ability, or ""
	run    func(*one)
}

// Run runs the suite. It calls world once for each case, with the case's own T. The Worlds may
// share one back end, because the cases run one after the other.
func Run(t *testing.T, world func(*testing.T) World) {
	for _, c := range slices.Concat(permitCases, staleCases, fieldCases, lookCases, lossCases, shareCases, partCases, copyCases, diskCases, birthCases, convergeCases, lostCases, brokenCases, hostileCases) {
		t.Run(c.name, func(t *testing.T) {
			w := world(t)
			w.complete(t)
			if c.guests && !w.guests() {
				t.Skipf("does not apply: a %s is not made and destroyed through a gate", w.Driver.Kind())
			}
			if c.needs != "" {
				w.Needs(t, c.needs)
			}
			c.run(&one{Gate: NewGate(t, w), w: w, t: t})
		})
	}
}

// complete fails if a field is missing that every World needs.
func (w World) complete(t testing.TB) {
	t.Helper()
	require.NotNil(t, w.Driver)
	for what, missing := range map[string]bool{"Restart": w.Restart == nil, "Make": w.Make == nil, "Remake": w.Remake == nil,
		"Change": w.Change == nil, "Fill": w.Fill == nil, "Content": w.Content == nil,
		"Wishes": w.guests() && len(w.Wishes) == 0, "Changes": w.guests() && len(w.Changes) == 0,
		"Take": !w.guests() && w.Take == nil} {
		require.False(t, missing, "the world has no %s", what)
	}
}

// restart does to a driver what a restart of the daemon does.
func (c *one) restart() {
	c.t.Helper()
	c.w.Driver = c.w.Restart()
	c.Use(c.w.Driver)
}

// made makes a victim and a bystander without the gate.
func (c *one) made() {
	c.t.Helper()
	for _, name := range []string{Victim, Bystander} {
		c.w.Make(name)
		c.w.Fill(name)
		require.NotEmpty(c.t, c.w.Content(name), "Make makes %s with something in it", name)
	}
}

// seen is everything that must not change: a target's identity, state and content.
type seen struct {
	Look    op.Observed
	Content string
}

// all looks at every target of the case. It leaves out facts, because they are for people and
// may contain times.
func (c *one) all() map[string]seen {
	c.t.Helper()
	out := map[string]seen{}
	for _, name := range Names() {
		out[name] = c.see(name)
	}
	return out
}

func (c *one) see(name string) seen {
	c.t.Helper()
	o := c.Look(name)
	o.Facts = nil
	return seen{o, c.w.Content(name)}
}

// untouched runs fn. After that every target must be as it was.
func (c *one) untouched(fn func()) {
	c.t.Helper()
	before := c.all()
	fn()
	require.Equal(c.t, before, c.all(), "something changed")
}

// unharmed runs fn, which may change every target except the bystander.
func (c *one) unharmed(fn func()) {
	c.t.Helper()
	before := c.see(Bystander)
	fn()
	require.Equal(c.t, before, c.see(Bystander), "the bystander was changed")
}

// ask makes an Ask, with parameters as names and values.
func (c *one) ask(verb, name string, kv ...any) op.Ask {
	return op.Ask{Op: c.w.Driver.Kind() + "." + verb, Target: c.w.Target(name), Params: gateworld.Params(kv...)}
}

// creates is the step that makes a guest, with the parameters that the back end needs.
func (c *one) creates(name string, kv ...any) op.Ask {
	a := c.ask("create", name, kv...)
	for k, v := range c.w.Create {
		if !a.Params.Has(k) {
			a.Params[k] = v
		}
	}
	return a
}

// harmless is a step on a target that needs no signature.
func (c *one) harmless(name string) op.Ask {
	return op.Ask{Op: "guest.set-config", Target: c.w.Target(name), Params: c.w.Changes[0]}
}
