package drivertest

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// Host is the name of the gate's host, for documents of desired state.
const Host = "host"

// The requesters: a program of some user, two registered agents of the same user, and the
// daemon's own user.
var (
	Hub     = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}
	Builder = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 79, Agent: "builder"}
	Tester  = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 80, Agent: "tester"}
	Daemon  = op.Requester{Source: op.SourceAPI, UID: 4242, PID: 1}
)

// Gate is a real gate over a real store, in front of a driver. fsck checks the store when the
// test ends.
type Gate struct {
	*gate.Gate
	Store *store.Store

	t      testing.TB
	ctx    context.Context
	now    time.Time
	alice  mint.Key // the only operator
	kind   string
	driver atomic.Pointer[driver.Driver]
	wake   atomic.Pointer[func(op.Target)]
	blind  atomic.Bool // looks do not say which operations and parts exist
}

// NewGate returns a gate in front of a World's driver.
func NewGate(t testing.TB, w World) *Gate {
	t.Helper()
	g := &Gate{t: t, ctx: context.WithoutCancel(t.Context()), now: gateworld.Noon,
		alice: mint.Ed25519(t, "alice"), kind: w.Driver.Kind()}
	g.Use(w.Driver)
	path := filepath.Join(t.TempDir(), "gated.db")
	gateworld.Database(t, path, gate.Migrations())
	g.Store = fscktest.Open(t, path, store.Options{Migrations: gate.Migrations()})
	g.Gate = gateworld.New(t, g.Store, func() nonce.Reading { return nonce.Reading{Wall: g.now} }, gate.Config{Observer: observer{g}, Host: Host,
		Trust: gateworld.Trust(t, gateworld.Line(g.alice, op.Operational)), Policy: w.Policy, UID: Daemon.UID, Wake: g.woken,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	return g
}

// Use replaces the gate's driver, for example by one that a restart made.
func (g *Gate) Use(d driver.Driver) { g.driver.Store(&d) }

// Driver returns the gate's current driver.
func (g *Gate) Driver() driver.Driver { return *g.driver.Load() }

// observer looks through the gate's current driver.
type observer struct{ g *Gate }

func (o observer) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	seen, err := o.g.Driver().Observe(ctx, l)
	if o.g.blind.Load() {
		seen.Ops, seen.Missing, seen.Cannot = nil, "", ""
	}
	return seen, err
}

func (g *Gate) woken(t op.Target) {
	if fn := g.wake.Load(); fn != nil {
		(*fn)(t)
	}
}

// Submit submits a job.
func (g *Gate) Submit(by op.Requester, asks ...op.Ask) (op.Job, error) {
	return g.Gate.Submit(g.ctx, op.Submission{Requester: by, Steps: asks, Reason: "conformance"})
}

// Ask submits a job of one step, which the gate must accept.
func (g *Gate) Ask(by op.Requester, a op.Ask) op.Step {
	g.t.Helper()
	j := must.Get(g.Submit(by, a))(g.t, "%s of %s", a.Op, a.Target)
	return j.Steps[0]
}

// Waiting is Ask for a step that must wait for a signature. It returns the step's request.
func (g *Gate) Waiting(by op.Requester, a op.Ask) op.Request {
	g.t.Helper()
	s := g.Ask(by, a)
	require.Equal(g.t, op.StatePending, s.State, "%s of %s was to wait for a signature: %s", a.Op, a.Target, s.Verdict.Rule)
	return must.Get(g.Request(g.ctx, s.ID))(g.t)
}

// Envelope is a request's payload with the operator's signature.
func (g *Gate) Envelope(r op.Request) authz.Envelope {
	g.t.Helper()
	return gateworld.Signed(g.t, r.Payload, g.alice)
}

// Approve submits the operator's signature.
func (g *Gate) Approve(r op.Request) (op.Request, error) {
	g.t.Helper()
	return g.Gate.Approve(g.ctx, Hub, r.ID, g.Envelope(r))
}

// Approved asks for a step that needs a signature, and signs it.
func (g *Gate) Approved(by op.Requester, a op.Ask) op.Request {
	g.t.Helper()
	r := g.Waiting(by, a)
	require.Equal(g.t, op.StateAuthorized, must.Get(g.Approve(r))(g.t).Step.State)
	return r
}

// Permitted returns the permit for a step that may run now.
func (g *Gate) Permitted(id op.StepID) gate.Permit {
	g.t.Helper()
	return must.Get(g.Gate.Permit(g.ctx, id))(g.t)
}

// Step reads a step from the journal.
func (g *Gate) Step(id op.StepID) op.Step {
	g.t.Helper()
	j := must.Get(g.Job(g.ctx, id.Job))(g.t)
	require.GreaterOrEqual(g.t, len(j.Steps), id.Index)
	return j.Steps[id.Index-1]
}

// Execute lets the driver run one step and records a refusal, as the reconciler does. It leaves
// a dispatched step as it is; Reconcile ends it.
func (g *Gate) Execute(id op.StepID) error {
	g.t.Helper()
	did, err := driver.Run(g.ctx, g.Permitted(id), g.Driver())
	switch s := g.Step(id); {
	case s.State == op.StateDispatched && did.Task != "":
		require.NoError(g.t, g.SetTask(g.ctx, id, did.Task))
	case s.State == op.StatePlanned || s.State == op.StateAuthorized:
		require.Error(g.t, err, "the driver says that it did %s, and never used its permit", s.Op)
		if driver.IsTransient(err) || errors.Is(err, refusal.Unavailable) {
			return err
		}
		must.Get(g.Refuse(g.ctx, id, err))(g.t)
	}
	return err
}

// Do asks for a step, signs it if necessary, lets the reconciler run it, and returns the ended
// step.
func (g *Gate) Do(by op.Requester, a op.Ask) op.Step {
	g.t.Helper()
	s := g.Ask(by, a)
	if s.State == op.StatePending {
		r := must.Get(g.Request(g.ctx, s.ID))(g.t)
		must.Get(g.Approve(r))(g.t)
	}
	g.Reconcile()
	return g.Step(s.ID)
}

// Done is Do for a step that must succeed.
func (g *Gate) Done(by op.Requester, a op.Ask) op.Step {
	g.t.Helper()
	s := g.Do(by, a)
	require.Equal(g.t, op.StateSucceeded, s.State, "%s of %s: %s: %s", a.Op, a.Target, s.Code, s.Detail)
	return s
}

// Look looks at a target through the driver.
func (g *Gate) Look(name string) op.Observed {
	g.t.Helper()
	return must.Get(g.Driver().Observe(g.ctx, op.At(op.Target{Kind: g.kind, Name: name})))(g.t)
}

// within waits until ok is true, for at most a minute.
func within(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 2*time.Millisecond, what)
}

// returns calls fn and fails the test if fn does not return.
func returns(t testing.TB, what string, fn func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); fn() }()
	select {
	case <-ended:
		if t.Failed() {
			t.FailNow()
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s does not come back", what)
	}
}

// LookAt looks at a driver's target by name, without a step.
func LookAt(t testing.TB, d driver.Driver, name string) op.Observed {
	t.Helper()
	return must.Get(d.Observe(t.Context(), op.At(op.Target{Kind: d.Kind(), Name: name})))(t)
}
