package local

import (
	"os"
	"path/filepath"
	"testing"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
)

// gated is a world with a real gate in front of the driver.
type gated struct {
	*world
	gate  *gate.Gate
	alice mint.Key
}

func newGated(t *testing.T) *gated {
	t.Helper()
	w := newWorld(t)
	alice := mint.Ed25519(t, "alice")
	rules := policy.Default()
	for name := range testCommands {
		rules.Commands = append(rules.Commands, name)
	}
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	g := gateworld.New(t, s, func() nonce.Reading { return nonce.Reading{Wall: w.clock()} }, gate.Config{Observer: w.d, Host: "host",
		Trust: gateworld.Trust(t, gateworld.Line(alice, op.Operational)), Policy: rules})
	return &gated{world: w, gate: g, alice: alice}
}

var someone = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}

func (g *gated) submit(verb, name string, kv ...any) op.Step {
	g.t.Helper()
	p := gateworld.Params(kv...)
	j := must.Get(g.gate.Submit(g.ctx, op.Submission{Requester: someone, Reason: "test",
		Steps: []op.Ask{{Op: "guest." + verb, Target: target(name), Params: p}}}))(g.t)
	return j.Steps[0]
}

func (g *gated) approve(s op.Step) {
	g.t.Helper()
	require.Equal(g.t, op.StatePending, s.State)
	r := must.Get(g.gate.Request(g.ctx, s.ID))(g.t)
	must.Get(g.gate.Approve(g.ctx, someone, s.ID, gateworld.Signed(g.t, r.Payload, g.alice)))(g.t)
}

// run does with a step what the reconciler does.
func (g *gated) run(s op.Step) op.Step {
	g.t.Helper()
	p := must.Get(g.gate.Permit(g.ctx, s.ID))(g.t)
	_, execErr := driver.Run(g.ctx, p, g.d)
	j := must.Get(g.gate.Job(g.ctx, s.ID.Job))(g.t)
	if j.Steps[0].State != op.StateDispatched {
		s = must.Get(g.gate.Refuse(g.ctx, s.ID, execErr))(g.t)
		return s
	}
	after := must.Get(g.d.Observe(g.ctx, s.Look()))(g.t)
	s = must.Get(g.gate.Record(g.ctx, s.ID, gate.Outcome{Err: execErr, Transient: driver.IsTransient(execErr),
		Unknown: driver.IsUnknown(execErr), After: &after}))(g.t)
	return s
}

func (g *gated) succeed(s op.Step) {
	g.t.Helper()
	s = g.run(s)
	require.Equal(g.t, op.StateSucceeded, s.State, s.Detail)
}

func TestThroughARealGate(t *testing.T) {
	g := newGated(t)
	g.succeed(g.submit("create", "web", "command", "sleep", "memory", int64(64<<10), "state", "running"))
	g.waitUp("web")
	g.succeed(g.submit("set-config", "web", "labels", labels("tier", "test")))
	g.succeed(g.submit("snapshot", "web", "snapshot", "s"))
	g.succeed(g.submit("restart", "web"))
	g.succeed(g.submit("stop", "web"))
	for _, s := range []op.Step{g.submit("restore", "web", "snapshot", "s"), g.submit("wipe", "web"),
		g.submit("snapshot-delete", "web", "snapshot", "s"), g.submit("destroy", "web")} {
		require.NotEmpty(t, must.Get(g.gate.Request(g.ctx, s.ID))(t).Facts)
		require.NoError(t, g.gate.Refresh(g.ctx, s.Target)) // the step before changed it
		g.approve(g.stepNow(s))
		g.succeed(s)
	}
	require.False(t, g.observe("web").Present)
	g.succeed(g.submit("undelete", "web"))
	require.True(t, g.observe("web").Present)
}

func (g *gated) stepNow(s op.Step) op.Step {
	g.t.Helper()
	return must.Get(g.gate.Job(g.ctx, s.ID.Job))(g.t).Steps[0]
}

// TestStaleAfterApproval is B08 and B09: between approval and execution, another guest gets the
// name, or the state changes.
func TestStaleAfterApproval(t *testing.T) {
	for name, between := range map[string]func(g *gated){
		"B08": func(g *gated) { g.do("destroy", "web"); g.do("create", "web"); g.write("x", "web", dataDir, "new") },
		"B09": func(g *gated) { g.do("set-config", "web", "protected", true) },
		"B18": func(g *gated) { g.write(g.content("other", guestFile), "web", guestFile) },
		"P14": func(g *gated) { require.NoError(g.t, os.Mkdir(g.path("web", "disk"), 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t)
			g.succeed(g.submit("create", "web"))
			g.succeed(g.submit("create", "other"))
			g.write("precious", "web", dataDir, "file")
			s := g.submit("destroy", "web")
			g.approve(s)
			between(g)
			before := g.hash()
			p, err := g.gate.Permit(g.ctx, s.ID)
			require.NoError(t, err)
			_, err = driver.Run(g.ctx, p, g.d)
			require.ErrorIs(t, err, refusal.StaleTarget)
			require.Equal(t, before, g.hash())
			s, err = g.gate.Refuse(g.ctx, s.ID, err)
			require.NoError(t, err)
			require.Equal(t, op.StateRefused, s.State)
			require.Equal(t, refusal.StaleTarget, s.Code)
		})
	}
}

// TestB07: the guest is made again between signature and approval.
func TestB07(t *testing.T) {
	g := newGated(t)
	g.succeed(g.submit("create", "web"))
	s := g.submit("destroy", "web")
	r := must.Get(g.gate.Request(g.ctx, s.ID))(t)
	e := gateworld.Signed(t, r.Payload, g.alice)
	g.do("destroy", "web")
	g.do("create", "web")
	before := g.hash()
	must.Fail(g.gate.Approve(g.ctx, someone, s.ID, e))(t, refusal.StaleTarget)
	require.Equal(t, before, g.hash())
}

// TestScratch: an agent may destroy its scratch guest unsigned, until the guest has an object
// that was not made with it.
func TestScratch(t *testing.T) {
	g := newGated(t)
	agent := op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7, Agent: "builder"}
	submit := func(verb, name string, p op.Params) op.Step {
		j, err := g.gate.Submit(g.ctx, op.Submission{Requester: agent, Steps: []op.Ask{{Op: "guest." + verb, Target: target(name), Params: p}}})
		require.NoError(t, err)
		return j.Steps[0]
	}
	for _, name := range []string{"one", "two"} {
		g.succeed(submit("create", name, op.Params{"scratch": true}))
	}
	s := submit("destroy", "one", op.Params{})
	require.Equal(t, op.StatePlanned, s.State)
	g.succeed(s)

	require.NoError(t, os.Mkdir(g.path("two", "foreign"), 0o700)) // P16
	s = submit("destroy", "two", op.Params{})
	require.Equal(t, op.StatePending, s.State)
	require.True(t, g.observe("two").Present)
}
