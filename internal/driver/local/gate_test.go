package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/people/sign"

	"github.com/stretchr/testify/require"
)

// gated is a world with a real gate in front of the driver.
type gated struct {
	*world
	gate  *gate.Gate
	alice sign.Signer
}

const keys = "../../../testdata/keys"

func newGated(t *testing.T) *gated {
	t.Helper()
	w := newWorld(t)
	pub, err := os.ReadFile(keys + "/alice.pub")
	require.NoError(t, err)
	key := strings.Fields(string(pub))
	trust, err := authz.LoadTrust([]byte(`alice namespaces="operational@gated" ` + key[0] + " " + key[1] + "\n"))
	require.NoError(t, err)
	// The signer needs a key file that no other user can read, as ssh does.
	private, err := os.ReadFile(keys + "/alice")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alice")
	require.NoError(t, os.WriteFile(file, private, 0o600))
	alice, err := sign.KeyFile(file, nil)
	require.NoError(t, err)
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	var clock *nonce.Clock
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		clock, err = nonce.LoadClock(tx, func() nonce.Reading { return nonce.Reading{Wall: w.clock()} })
		return err
	}))
	rules := policy.Default()
	for name := range testCommands {
		rules.Commands = append(rules.Commands, name)
	}
	g, err := gate.New(gate.Config{Store: s, Observer: w.d, Clock: clock, Host: "host", ID: "0123456789abcdef0123456789abcdef",
		Trust: trust, Policy: rules})
	require.NoError(t, err)
	return &gated{world: w, gate: g, alice: alice}
}

var someone = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}

func (g *gated) submit(verb, name string, kv ...any) op.Step {
	g.t.Helper()
	p := op.Params{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i].(string)] = kv[i+1]
	}
	j, err := g.gate.Submit(g.ctx, op.Submission{Requester: someone, Reason: "test",
		Steps: []op.Ask{{Op: "guest." + verb, Target: target(name), Params: p}}})
	require.NoError(g.t, err)
	return j.Steps[0]
}

func (g *gated) approve(s op.Step) {
	g.t.Helper()
	require.Equal(g.t, op.StatePending, s.State)
	r, err := g.gate.Request(g.ctx, s.ID)
	require.NoError(g.t, err)
	armor, err := g.alice.Sign(g.ctx, op.Operational, r.Payload)
	require.NoError(g.t, err)
	_, err = g.gate.Approve(g.ctx, someone, s.ID, authz.Envelope{Payload: r.Payload, Signatures: []string{armor}})
	require.NoError(g.t, err)
}

// run does with a step what the reconciler does.
func (g *gated) run(s op.Step) op.Step {
	g.t.Helper()
	p, err := g.gate.Permit(g.ctx, s.ID)
	require.NoError(g.t, err)
	_, execErr := driver.Run(g.ctx, p, g.d)
	j, err := g.gate.Job(g.ctx, s.ID.Job)
	require.NoError(g.t, err)
	if j.Steps[0].State != op.StateDispatched {
		s, err = g.gate.Refuse(g.ctx, s.ID, execErr)
		require.NoError(g.t, err)
		return s
	}
	after, err := g.d.Observe(g.ctx, s.Look())
	require.NoError(g.t, err)
	s, err = g.gate.Record(g.ctx, s.ID, gate.Outcome{Err: execErr, Transient: driver.IsTransient(execErr),
		Unknown: driver.IsUnknown(execErr), After: &after})
	require.NoError(g.t, err)
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
		r, err := g.gate.Request(g.ctx, s.ID)
		require.NoError(t, err)
		require.NotEmpty(t, r.Facts)
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
	j, err := g.gate.Job(g.ctx, s.ID.Job)
	require.NoError(g.t, err)
	return j.Steps[0]
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
	r, err := g.gate.Request(g.ctx, s.ID)
	require.NoError(t, err)
	armor, err := g.alice.Sign(g.ctx, op.Operational, r.Payload)
	require.NoError(t, err)
	g.do("destroy", "web")
	g.do("create", "web")
	before := g.hash()
	_, err = g.gate.Approve(g.ctx, someone, s.ID, authz.Envelope{Payload: r.Payload, Signatures: []string{armor}})
	require.ErrorIs(t, err, refusal.StaleTarget)
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
