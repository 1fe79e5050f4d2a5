package drivertest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
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
	"gated/internal/people/policy"
	"gated/internal/test/mint"
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
	rules := w.Policy
	if rules.MaxValidity == 0 {
		rules = policy.Default()
	}
	g := &Gate{t: t, ctx: context.WithoutCancel(t.Context()), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		alice: mint.Ed25519(t, "alice"), kind: w.Driver.Kind()}
	g.Use(w.Driver)
	trust, err := authz.LoadTrust([]byte(g.alice.Line("alice@example.com", `namespaces="operational@gated"`)))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "gated.db")
	require.NoError(t, os.WriteFile(path, empty(t), 0o600))
	g.Store = fscktest.Open(t, path, store.Options{Migrations: gate.Migrations()})
	var clock *nonce.Clock
	require.NoError(t, g.Store.View(g.ctx, func(tx *store.Tx) error {
		clock, err = nonce.LoadClock(tx, func() nonce.Reading { return nonce.Reading{Wall: g.now} })
		return err
	}))
	g.Gate, err = gate.New(gate.Config{Store: g.Store, Observer: observer{g}, Clock: clock, Host: Host,
		ID: "0123456789abcdef0123456789abcdef", Trust: trust, Policy: rules, UID: Daemon.UID, Wake: g.woken,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	require.NoError(t, err)
	return g
}

var migrated struct {
	sync.Mutex
	database []byte
}

// empty is a database with its schema and no rows. To make one takes longer than most cases.
func empty(t testing.TB) []byte {
	t.Helper()
	migrated.Lock()
	defer migrated.Unlock()
	if migrated.database == nil {
		path := filepath.Join(t.TempDir(), "empty.db")
		//fsck:none each copy of it ends with fsck
		s, err := store.Open(t.Context(), path, store.Options{Migrations: gate.Migrations()})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		migrated.database, err = os.ReadFile(path)
		require.NoError(t, err)
	}
	return migrated.database
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
		seen.Ops, seen.Missing = nil, ""
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
	j, err := g.Submit(by, a)
	require.NoError(g.t, err, "%s of %s", a.Op, a.Target)
	return j.Steps[0]
}

// Waiting is Ask for a step that must wait for a signature. It returns the step's request.
func (g *Gate) Waiting(by op.Requester, a op.Ask) op.Request {
	g.t.Helper()
	s := g.Ask(by, a)
	require.Equal(g.t, op.StatePending, s.State, "%s of %s was to wait for a signature: %s", a.Op, a.Target, s.Verdict.Rule)
	r, err := g.Request(g.ctx, s.ID)
	require.NoError(g.t, err)
	return r
}

// Envelope is a request's payload with the operator's signature.
func (g *Gate) Envelope(r op.Request) authz.Envelope {
	g.t.Helper()
	sig := mint.Sign(g.t, g.alice, op.Operational.Namespace(), r.Payload)
	return authz.Envelope{Payload: r.Payload, Signatures: []string{sig.Armored()}}
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
	got, err := g.Approve(r)
	require.NoError(g.t, err)
	require.Equal(g.t, op.StateAuthorized, got.Step.State)
	return r
}

// Permitted returns the permit for a step that may run now.
func (g *Gate) Permitted(id op.StepID) gate.Permit {
	g.t.Helper()
	p, err := g.Gate.Permit(g.ctx, id)
	require.NoError(g.t, err)
	return p
}

// Step reads a step from the journal.
func (g *Gate) Step(id op.StepID) op.Step {
	g.t.Helper()
	j, err := g.Job(g.ctx, id.Job)
	require.NoError(g.t, err)
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
		_, refuseErr := g.Refuse(g.ctx, id, err)
		require.NoError(g.t, refuseErr)
	}
	return err
}

// Do asks for a step, signs it if necessary, lets the reconciler run it, and returns the ended
// step.
func (g *Gate) Do(by op.Requester, a op.Ask) op.Step {
	g.t.Helper()
	s := g.Ask(by, a)
	if s.State == op.StatePending {
		r, err := g.Request(g.ctx, s.ID)
		require.NoError(g.t, err)
		_, err = g.Approve(r)
		require.NoError(g.t, err)
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
	o, err := g.Driver().Observe(g.ctx, op.At(op.Target{Kind: g.kind, Name: name}))
	require.NoError(g.t, err)
	return o
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
	o, err := d.Observe(t.Context(), op.At(op.Target{Kind: d.Kind(), Name: name}))
	require.NoError(t, err)
	return o
}
