package gate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// rows returns all that the store holds, but for its own counter of groups and the audit log.
func (w *world) rows() []string {
	w.t.Helper()
	var out strings.Builder
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		return storetest.Rows(&out, tx, func(table string) bool { return slices.Contains([]string{"store_meta", "audit", "audit_head"}, table) })
	}))
	return strings.Split(out.String(), "\n")
}

// attempt is an operation on a world that is ready for it.
type attempt struct {
	world *world
	do    func() error
	// done checks that the gate decided it, and runs what may run. A guest that is destroyed must be so by a signature.
	done func()
	ran  []string // all that the back end was asked to do by then
	// made, if set, reports whether the decision was made although the operation failed: it makes others, too.
	made func() bool
}

// waitingRequest is a world with a request to destroy the guest a.
func waitingRequest(t *testing.T) (*world, op.Request) {
	back := newBackend()
	w := newWorldOn(t, back)
	w.back = back
	back.put("a")
	return w, w.request(ask("guest.destroy", "a"))
}

func (w *world) stateOf(r op.Request) op.State {
	w.t.Helper()
	return must.Get(w.gate.Request(w.ctx, r.ID))(w.t).Step.State
}

// attempts are the operations that change what may run.
var attempts = map[string]func(*testing.T) attempt{
	"submit": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		var j op.Job
		return attempt{world: w, do: func() (err error) {
			j, err = w.submit(ask("guest.create", "b"), ask("guest.wipe", "a"))
			return err
		}, done: func() {
			require.Equal(t, []op.State{op.StatePlanned, op.StatePending}, w.states(j.ID))
			require.NotEqual(t, r.ID.Job, j.ID)
			w.run() // nothing may, because the job waits
		}}
	},
	"approve": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		e := alice.envelope(t, r.Payload)
		return attempt{world: w, do: func() error { _, err := w.gate.Approve(w.ctx, hub, r.ID, e); return err }, done: func() {
			require.Equal(t, op.StateAuthorized, w.stateOf(r))
			require.Equal(t, nonce.Used, w.fate(r.Nonce))
			must.Fail(w.gate.Approve(w.ctx, hub, r.ID, e))(t, refusal.Replayed)
			w.run()
		}, ran: []string{"guest.destroy a"}}
	},
	"reject": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		e := w.rejection(r, alice)
		return attempt{world: w, do: func() error { _, err := w.gate.Reject(w.ctx, hub, r.ID, e); return err }, done: func() {
			require.Equal(t, op.StateRejected, w.stateOf(r))
			must.Fail(w.approve(r))(t, refusal.Rejected)
			w.run()
		}}
	},
	"dispatch": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		must.Get(w.approve(r))(t)
		return attempt{world: w, do: func() error {
			p, err := w.gate.Permit(w.ctx, r.ID)
			if err != nil {
				return err
			}
			return p.Use(w.ctx, w.back.get("a"))
		}, done: func() {
			require.Equal(t, op.StateDispatched, w.stateOf(r))
			must.Fail(w.gate.Permit(w.ctx, r.ID))(t, refusal.Conflict)
			w.run()
		}}
	},
	"record": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		must.Get(w.approve(r))(t)
		must.Get(w.back.execute(w.ctx, must.Get(w.gate.Permit(w.ctx, r.ID))(t)))(t)
		after := must.Get(w.back.Observe(w.ctx, r.Step.Look()))(t)
		return attempt{world: w, do: func() error { _, err := w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &after}); return err }, done: func() {
			require.Equal(t, op.StateSucceeded, w.stateOf(r))
			w.run()
		}, ran: []string{"guest.destroy a"}}
	},
	"expire": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		w.Pass(w.gate.Policy().MaxValidity + 2*gate.Skew)
		return attempt{world: w, do: func() error { return w.gate.Tick(w.ctx) }, done: func() {
			again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
			require.NotEqual(t, r.Nonce, again.Nonce)
			require.Equal(t, nonce.Expired, w.fate(r.Nonce))
			_, err := w.approve(r)
			require.Error(t, err, "the old payload")
			w.run()
		}, made: func() bool {
			again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
			return again.Nonce != r.Nonce || again.Step.State != op.StatePending || w.fate(r.Nonce) != ""
		}}
	},
	"cancel": func(t *testing.T) attempt {
		w, r := waitingRequest(t)
		must.Get(w.approve(r))(t)
		return attempt{world: w, do: func() error { _, err := w.gate.Cancel(w.ctx, hub, r.ID.Job); return err }, done: func() {
			require.Equal(t, op.StateCancelled, w.stateOf(r))
			w.run()
		}}
	},
	"rotate": func(t *testing.T) attempt {
		w := rotating(t)
		dave := newKey("dave")
		r := w.request(rotate(2, []string{dave.line("operational@gated")}, []string{bob.print()}))
		must.Get(w.approveAs(r, op.Operational, alice, dave))(t)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
		require.NoError(t, p.Use(w.ctx, must.Get(w.observer.Observe(w.ctx, op.At(signers)))(t)))
		return attempt{world: w, do: func() error {
			_, err := w.gate.Rotate(w.ctx, p)
			if err != nil {
				require.Equal(t, int64(1), w.gate.Epoch())
			}
			return err
		}, done: func() {
			require.Equal(t, int64(2), w.gate.Epoch())
			must.Fail(w.gate.Rotate(w.ctx, p))(t, refusal.BadParams)
		}}
	},
}

// TestEveryStatementThatFails has each operation fail at its first statement, then at its second, until none is left. A
// failure must be told and leave every row as it was, so the next attempt is a retry. A failure after the decision may
// also go untold. fsck runs when the test has ended.
func TestEveryStatementThatFails(t *testing.T) {
	t.Parallel()
	for name, prepare := range attempts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := prepare(t)
			before, entries := a.world.rows(), len(a.world.kinds())
			failures, later := 0, 0
			for n := int64(1); ; n++ {
				came, err := a.world.fault.During(n, a.do)
				if err != nil {
					require.True(t, came, "statement %d: %v", n, err)
					require.ErrorIs(t, err, refusal.Unavailable, "statement %d", n)
					failures++
				}
				if err != nil && a.made == nil {
					require.Equal(t, before, a.world.rows(), "statement %d", n)
					a.world.onlyRefused(t, entries)
					continue
				}
				if err != nil && !a.made() {
					continue
				}
				a.done()
				require.Equal(t, a.ran, a.world.back.did(), "statement %d", n)
				a.world.verifyLog()
				if !came {
					break
				}
				later++
				a = prepare(t)
				before, entries = a.world.rows(), len(a.world.kinds())
			}
			require.Greater(t, failures, 5, "the operation has more statements than that")
			t.Logf("%d failures were told; after %d of all the decision was made", failures, later)
		})
	}
}

// onlyRefused checks that the log got no entry since, but that the operation was refused because of the machine.
func (w *world) onlyRefused(t *testing.T, since int) {
	for _, e := range must.Get(w.gate.Events(w.ctx, int64(since), 10000))(t) {
		require.Equal(t, audit.Refused, e.Kind)
		require.Equal(t, refusal.Unavailable, e.Code)
	}
}

// keyed is a submission that a caller repeats.
var keyed = op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.start", "a")}, Reason: "test", IdempotencyKey: "k"}

// reads are the questions that the gate answers from its store.
func (w *world) reads(r op.Request) map[string]func() error {
	g, target, now := w.gate, r.Step.Target, w.back.get("a")
	read := func(_ any, err error) error { return err }
	return map[string]func() error{
		"job":         func() error { return read(g.Job(w.ctx, r.ID.Job)) },
		"shown job":   func() error { return read(g.ShownJob(w.ctx, r.ID.Job)) },
		"jobs":        func() error { return read(g.Jobs(w.ctx, gate.JobFilter{Limit: 10})) },
		"request":     func() error { return read(g.Request(w.ctx, r.ID)) },
		"shown":       func() error { return read(g.Shown(w.ctx, r.ID)) },
		"requests":    func() error { return read(g.Requests(w.ctx, op.StatePending)) },
		"page":        func() error { return read(g.RequestPage(w.ctx, gate.RequestFilter{State: op.StatePending, Limit: 10})) },
		"provenance":  func() error { return read(g.Provenance(w.ctx, now.Incarnation)) },
		"counts":      func() error { return read(g.Counts(w.ctx)) },
		"targets":     func() error { return read(g.OpenTargets(w.ctx)) },
		"open":        func() error { return read(g.Open(w.ctx, target)) },
		"dispatched":  func() error { return read(g.Dispatched(w.ctx)) },
		"events":      func() error { return read(g.Events(w.ctx, 0, 10)) },
		"event texts": func() error { return read(g.EventTexts(w.ctx, 0, 10, 1000)) },
		"head":        func() error { return read(g.AuditHead(w.ctx)) },
		"set heads":   func() error { return read(g.SetHeads(w.ctx)) },
		"sets":        func() error { return read(g.Sets(w.ctx)) },
		"known":       func() error { _, _, err := g.KnownPayload(w.ctx, r.Payload); return err },
		"next":        func() error { _, _, err := g.Next(w.ctx, target); return err },
		"runnable":    func() error { _, _, err := g.Runnable(w.ctx, target); return err },
		"signed":      func() error { return read(g.SignedTargets(w.ctx)) },
		"refresh":     func() error { return g.Refresh(w.ctx, target) },
		"keyed":       func() error { return read(g.Submit(w.ctx, keyed)) },
		"want":        func() error { return read(g.Want(w.ctx, "fleet", ask("guest.wipe", "a"))) },
		"verdict":     func() error { return read(g.Verdict(w.ctx, hub, r.Step, now)) },
		"explain":     func() error { _, _, err := g.Explain(w.ctx, hub, ask("guest.wipe", "a")); return err },
		"can go":      func() error { return read(g.CanGo(w.ctx, now)) },
		"wanted":      func() error { return read(g.Wanted(w.ctx, target, now.Incarnation)) },
		"incidents":   func() error { return read(g.Incidents(w.ctx)) },
	}
}

// TestEveryReadThatFails: the gate does not answer with a part of what it has. If a statement of a question fails, so does
// the question.
func TestEveryReadThatFails(t *testing.T) {
	t.Parallel()
	w, r := waitingRequest(t)
	w.mustSubmit(ask("guest.start", "a"), ask("guest.wipe", "a"))
	must.Get(w.gate.Submit(w.ctx, keyed))(t)
	must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.wipe", "a")))(t)
	before := w.rows()
	w.fault.EachFails(t, w.reads(r), refusal.Unavailable)
	require.Equal(t, before, w.rows())
}
