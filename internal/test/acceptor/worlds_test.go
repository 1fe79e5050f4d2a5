package acceptor_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/acceptor"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// guests is a back end whose guests stay as they are, so that nothing but the gate keeps a step from running.
type guests struct{}

func (guests) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	return op.Observed{Target: l.Target, Present: true, Incarnation: op.Incarnation(l.Target.Name + "-1"), Running: "stopped",
		Fingerprint: op.FingerprintOf([]byte(l.Target.Name)), Labels: map[string]string{}, Spec: op.Params{}}, nil
}

// world is a gate that a test has do what the model has it do.
type world struct {
	gateworld.Clock
	t          testing.TB
	store      *store.Store
	gate       *gate.Gate
	alice, bob mint.Key
	policy     policy.Policy
}

func newWorld(t testing.TB, rules ...policy.Rule) *world {
	w := &world{t: t, alice: mint.Ed25519(t, "alice"), bob: mint.Ed25519(t, "bob"), policy: policy.Default()}
	w.policy.Rules = rules
	path := filepath.Join(t.TempDir(), "gated.db")
	gateworld.Database(t, path, gate.Migrations())
	w.store = fscktest.Open(t, path, store.Options{Migrations: gate.Migrations()})
	w.open(gateworld.ID)
	return w
}

// open has a gate of that id go on with the store, as a restored one does.
func (w *world) open(id op.GateID) {
	trust := gateworld.Trust(w.t, gateworld.Line(w.alice, op.Operational)+gateworld.Line(w.bob, op.Operational))
	w.gate = gateworld.New(w.t, w.store, w.Read, gate.Config{Observer: guests{}, Host: "pve1", ID: id, Trust: trust, Policy: w.policy})
}

// asked submits a job that destroys guests, and returns its requests.
func (w *world) asked(names ...string) (out []op.Request) {
	w.t.Helper()
	var asks []op.Ask
	for _, name := range names {
		asks = append(asks, gateworld.Ask("guest.destroy", name))
	}
	by := op.Requester{Source: op.SourceAPI, UID: 1000}
	job := must.Get(w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Reason: "test", Steps: asks}))(w.t)
	for _, s := range job.Steps {
		out = append(out, must.Get(w.gate.Request(w.t.Context(), s.ID))(w.t))
	}
	return out
}

func (w *world) approve(r op.Request, keys ...mint.Key) {
	w.t.Helper()
	must.Get(w.gate.Approve(w.t.Context(), op.Requester{Source: op.SourceAPI, UID: 1000}, r.ID, gateworld.Signed(w.t, r.Payload, keys...)))(w.t)
}

// use asks for the permit of a step, and uses it.
func (w *world) use(r op.Request) error {
	p, err := w.gate.Permit(w.t.Context(), r.ID)
	if err != nil {
		return err
	}
	o := must.Get(guests{}.Observe(w.t.Context(), r.Step.Look()))(w.t)
	return p.Use(w.t.Context(), o)
}

// accepted asks for what the model does not allow of the log, before the test asks for anything else: with a planted fault the
// acceptor is what has to find it.
func (w *world) accepted() {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx *store.Tx) error {
		found, err := acceptor.Replay(tx)
		for _, v := range found {
			w.t.Errorf("the log has what the model does not allow: %s", v)
		}
		return err
	}))
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// TestWorlds has the gate do what the model's planted faults would let it do.
func TestWorlds(t *testing.T) {
	t.Run("a step that was approved before a restore", func(t *testing.T) {
		w := newWorld(t)
		r := w.asked("web")[0]
		w.approve(r, w.alice)
		w.open("fedcba9876543210fedcba9876543210")
		require.NoError(t, w.gate.Log(t.Context(), audit.Entry{Kind: audit.Restored}))
		err := w.use(r)
		w.accepted()
		require.ErrorIs(t, err, refusal.BindingMismatch)
	})
	t.Run("a step whose cool-off is not over", func(t *testing.T) {
		w := newWorld(t, policy.Rule{Where: "test", Threshold: 1, CoolOff: 10 * time.Minute})
		r := w.asked("web")[0]
		w.approve(r, w.alice)
		early := w.use(r)
		w.accepted()
		require.ErrorIs(t, early, refusal.Unavailable)
		w.Pass(10 * time.Minute)
		require.NoError(t, w.use(r))
		w.accepted()
	})
	t.Run("a step before the one before it", func(t *testing.T) {
		w := newWorld(t)
		all := w.asked("web", "db")
		w.approve(all[0], w.alice)
		w.approve(all[1], w.alice)
		err := w.use(all[1])
		w.accepted()
		require.ErrorIs(t, err, refusal.Conflict)
	})
	t.Run("two steps on one target", func(t *testing.T) {
		w := newWorld(t)
		first, second := w.asked("web")[0], w.askedToWipe("web")
		w.approve(first, w.alice)
		w.approve(second, w.alice)
		require.NoError(t, w.use(first))
		err := w.use(second)
		w.accepted()
		require.ErrorIs(t, err, refusal.Unavailable)
	})
	t.Run("one person of two", func(t *testing.T) {
		w := newWorld(t, policy.Rule{Where: "test", Threshold: 2})
		r := w.asked("web")[0]
		w.approve(r, w.alice)
		err := w.use(r)
		w.accepted()
		require.ErrorIs(t, err, refusal.Conflict)
		w.approve(r, w.bob)
		require.NoError(t, w.use(r))
		w.accepted()
	})
	t.Run("a signed step that met an error that may pass", func(t *testing.T) {
		w := newWorld(t)
		r := w.asked("web")[0]
		w.approve(r, w.alice)
		require.NoError(t, w.use(r))
		s, err := w.gate.Record(t.Context(), r.ID, gate.Outcome{Err: refusal.New(refusal.Unavailable, "busy"), Transient: true})
		w.accepted()
		require.NoError(t, err)
		require.Equal(t, op.StateFailed, s.State)
	})
}

// askedToWipe asks for another destructive step on a guest.
func (w *world) askedToWipe(name string) op.Request {
	w.t.Helper()
	by := op.Requester{Source: op.SourceAPI, UID: 1000}
	asks := []op.Ask{gateworld.Ask("guest.wipe", name)}
	job := must.Get(w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Reason: "test", Steps: asks}))(w.t)
	return must.Get(w.gate.Request(w.t.Context(), job.Steps[0].ID))(w.t)
}
