package fsck_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	_ "gated/internal/host/fsck/book" // agents and reservations, too
	"gated/internal/host/state"
	"gated/internal/log/canary"
	"gated/internal/log/checkpoint"
	"gated/internal/nonce"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const (
	testHost = "pve1"
	testGate = gateworld.ID
)

var (
	hub   = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}
	other = op.Requester{Source: op.SourceAPI, UID: 1001, PID: 78}
)

// world is a gate with guests in memory and a clock that tests move.
type world struct {
	t      testing.TB
	path   string
	store  *store.Store
	gate   *gate.Gate
	alice  mint.Key
	trust  *authz.Trust
	wall   time.Time
	passed time.Duration
	id     op.GateID
	epoch  int64 // of the trust file
	key    checkpoint.Signer

	book *reserve.Book // the agents' reservations, or nil

	guests, trash map[string]op.Observed
	made          int
	rotatedBy     op.StepID // the last rotation
	fail          error     // of the next operation
	prints        string
	transient     bool
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "gated.db"), wall: gateworld.Noon, id: testGate, alice: mint.Ed25519(t, "alice"),
		guests: map[string]op.Observed{}, trash: map[string]op.Observed{}}
	w.trust = gateworld.Trust(t, gateworld.Line(w.alice, op.Operational))
	w.open()
	return w
}

func (w *world) open() {
	w.store = openStore(w.t, w.path)
	w.gate = gateworld.New(w.t, w.store, func() nonce.Reading { return nonce.Reading{Wall: w.wall, Elapsed: w.passed} },
		gate.Config{Observer: w, Host: testHost, ID: w.id, Trust: w.trust, Epoch: w.epoch, Key: w.key,
			Quotas: gate.Quotas{JournalBytes: 1 << 40, Snapshots: 100}})
}

// migrations is a schema with all that fsck reads, in another order than the
// daemon's.
func migrations() []store.Migration {
	all := append(gate.Migrations(), store.Migration{Name: "agents", SQL: agent.Schema + agent.SchemaMembers}, store.Migration{Name: "reservations", SQL: reserve.Schema + reserve.SchemaMembers},
		store.Migration{Name: "identity", SQL: state.Schema}, store.Migration{Name: "canary", SQL: canary.Schema})
	for i := range all {
		all[i].Version = i + 1
	}
	return all
}

func openStore(t testing.TB, path string) *store.Store {
	//fsck:none each test runs fsck, and most break something
	s := must.Get(store.Open(t.Context(), path, store.Options{Migrations: migrations()}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *world) pass(d time.Duration) { w.wall, w.passed = w.wall.Add(d), w.passed+d }

func (w *world) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if t == signersFile {
		state := op.FingerprintOf(append(strconv.AppendInt(nil, w.gate.Epoch(), 10), w.gate.Trust().Text()...))
		return op.Observed{Target: t, Present: true, Incarnation: op.Incarnation(w.id), Fingerprint: state,
			Spec: op.Params{"epoch": w.gate.Epoch(), "made_by": w.rotatedBy.String()}}, nil
	}
	if t.Kind == op.KindScope {
		v, err := w.book.View(w.t.Context(), t.Name)
		o := op.Observed{Target: t, Present: true, Incarnation: v.Scope.Incarnation(), Fingerprint: v.Fingerprint(),
			Spec: op.Params{"last_step": v.Last}}
		for _, r := range v.Reservations {
			if l.Op == op.ForceTransfer && r.ID.String() == l.Params.Str("reservation") {
				to, _ := w.book.Receiver(w.t.Context(), r.ID, l.Params.Str("to")) // a step that the book refuses is one of fsck's, too
				o.Fingerprint = r.Handover(to)
			}
		}
		return o, err
	}
	if o, ok := w.guests[t.Name]; ok {
		return o, nil
	}
	o := op.Observed{Target: t, Running: "absent"}
	if d, ok := w.trash[t.Name]; ok {
		o.Trash = []op.Trashed{{Incarnation: d.Incarnation}}
	}
	return o, nil
}

// act does what a driver does with a dispatched step.
func (w *world) act(s op.Step) error {
	if err := w.fail; err != nil {
		w.fail = nil
		return err
	}
	name := s.Target.Name
	switch s.Op {
	case op.ReleaseAll:
		_, err := w.book.ForceRelease(w.t.Context(), s.ID, name, s.Fingerprint)
		return err
	case op.ForceTransfer:
		id := must.Get(op.ParseReservationID(s.Params.Str("reservation")))(w.t)
		_, err := w.book.ForceTransfer(w.t.Context(), s.ID, name, s.Fingerprint, id, s.Params.Str("to"))
		return err
	case "guest.create":
		w.made++
		inc := op.Incarnation(name + "-" + strconv.Itoa(w.made))
		w.guests[name] = op.Observed{Target: s.Target, Present: true, Incarnation: inc, Birth: s.Birth, Running: "stopped", Content: "nothing",
			Fingerprint: op.FingerprintOf([]byte(inc)), Storage: []op.StorageID{op.StorageID("data:" + inc)}, Spec: op.Params{}}
	case "guest.destroy":
		w.trash[name] = w.guests[name]
		delete(w.guests, name)
	case "guest.undelete":
		w.guests[name] = w.trash[name]
		delete(w.trash, name)
	case "guest.snapshot":
		o := w.guests[name]
		o.Snapshots = append(slices.Clone(o.Snapshots), s.Params.Str("snapshot"))
		w.guests[name] = o
	case "guest.set-config":
		o := w.guests[name]
		o.Spec = maps.Clone(o.Spec)
		maps.Copy(o.Spec, s.Params)
		w.guests[name] = o
	}
	return nil
}

// change changes a guest outside the gate.
func (w *world) change(name string) {
	o := w.guests[name]
	o.Fingerprint = op.FingerprintOf([]byte(o.Fingerprint))
	w.guests[name] = o
	require.NoError(w.t, w.gate.Refresh(w.t.Context(), o.Target))
}

func ask(name, target string, kv ...any) op.Ask { return gateworld.Ask(name, target, kv...) }

func (w *world) submit(by op.Requester, asks ...op.Ask) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Steps: asks, Reason: "test"}))(w.t)
}

// do submits a job and runs the steps that may run.
func (w *world) do(asks ...op.Ask) op.Job {
	j := w.submit(hub, asks...)
	w.run()
	return w.job(j.ID)
}

func (w *world) job(id op.JobID) op.Job { return must.Get(w.gate.Job(w.t.Context(), id))(w.t) }

func (w *world) request(id op.RequestID) op.Request {
	return must.Get(w.gate.Request(w.t.Context(), id))(w.t)
}

func (w *world) envelope(payload []byte) authz.Envelope {
	return gateworld.Signed(w.t, payload, w.alice)
}

func (w *world) approve(id op.RequestID) {
	w.t.Helper()
	must.Get(w.gate.Approve(w.t.Context(), hub, id, w.envelope(w.request(id).Payload)))(w.t)
}

// destroy asks to destroy a guest and returns the request.
func (w *world) destroy(name string) op.RequestID {
	w.t.Helper()
	j := w.submit(hub, ask("guest.destroy", name))
	require.Equal(w.t, op.StatePending, j.State())
	return j.Steps[0].ID
}

// waiting makes a guest, asks to destroy it, and returns the request.
func (w *world) waiting(name string) op.RequestID {
	w.t.Helper()
	w.do(ask("guest.create", name))
	return w.destroy(name)
}

func (w *world) reject(id op.RequestID) {
	w.t.Helper()
	must.Get(w.gate.Reject(w.t.Context(), hub, id, gateworld.Rejection(w.t, w.gate, w.request(id), w.wall, w.alice)))(w.t)
}

// run executes steps until none may run.
func (w *world) run() {
	w.t.Helper()
	for range 100 {
		targets := must.Get(w.gate.OpenTargets(w.t.Context()))(w.t)
		ran := false
		for _, t := range targets {
			id, ok := must.Two(w.gate.Runnable(w.t.Context(), t))(w.t)
			if ok {
				w.execute(id)
				ran = true
			}
		}
		if !ran {
			return
		}
	}
	w.t.Fatal("steps go on for ever")
}

// dispatch uses the permit of a step and reports whether it may act.
func (w *world) dispatch(id op.StepID) (op.Step, bool) {
	p := must.Get(w.gate.Permit(w.t.Context(), id))(w.t)
	now := must.Get(w.Observe(w.t.Context(), p.Step().Look()))(w.t)
	return p.Step(), p.Use(w.t.Context(), now) == nil
}

func (w *world) execute(id op.StepID) {
	s, ok := w.dispatch(id)
	if ok {
		w.record(id, gate.Outcome{Err: w.act(s), Transient: w.transient, Output: w.prints})
	}
}

func (w *world) record(id op.StepID, out gate.Outcome) {
	after := must.Get(w.Observe(w.t.Context(), op.At(w.targetOf(id))))(w.t)
	out.After = &after
	must.Get(w.gate.Record(w.t.Context(), id, out))(w.t)
}

func (w *world) targetOf(id op.StepID) op.Target { return w.job(id.Job).Steps[id.Index-1].Target }

// schemaOf is the schema that the migrations make, made once.
var schemaOf = sync.OnceValues(func() ([]store.Object, error) { return store.Schema(context.Background(), migrations()) })

// check runs fsck beside the open store, as the program does.
func check(t testing.TB, path string) (r fsck.Report) {
	s, err := store.OpenReadOnly(t.Context(), path, store.Options{Migrations: migrations()})
	require.NoError(t, err)
	schema, err := schemaOf()
	require.NoError(t, err)
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error { r, err = fsck.Checker{Schema: schema}.Run(tx); return err }))
	require.NoError(t, s.Close())
	note(r)
	return r
}
