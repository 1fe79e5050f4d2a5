package fsck_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/host/state"
	"gated/internal/log/canary"
	"gated/internal/log/checkpoint"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

const (
	testHost = "pve1"
	testGate = op.GateID("0123456789abcdef0123456789abcdef")
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
	signer ssh.Signer
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
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	w := &world{t: t, path: filepath.Join(t.TempDir(), "gated.db"), wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), id: testGate,
		guests: map[string]op.Observed{}, trash: map[string]op.Observed{}}
	w.signer, err = ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	w.trust, err = authz.LoadTrust([]byte(`alice namespaces="operational@gated" ssh-ed25519 ` +
		base64.StdEncoding.EncodeToString(w.signer.PublicKey().Marshal()) + "\n"))
	require.NoError(t, err)
	w.open()
	return w
}

func (w *world) open() {
	w.store = openStore(w.t, w.path)
	var clock *nonce.Clock
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx *store.Tx) (err error) {
		clock, err = nonce.LoadClock(tx, func() nonce.Reading { return nonce.Reading{Wall: w.wall, Elapsed: w.passed} })
		return err
	}))
	var err error
	w.gate, err = gate.New(gate.Config{Store: w.store, Observer: w, Clock: clock, Host: testHost, ID: w.id, Trust: w.trust, Epoch: w.epoch, Key: w.key,
		Policy: policy.Default(), Quotas: gate.Quotas{JournalBytes: 1 << 40, Snapshots: 100}})
	require.NoError(w.t, err)
}

// migrations is a schema with all that fsck reads, in another order than the
// daemon's.
func migrations() []store.Migration {
	all := append(gate.Migrations(), store.Migration{Name: "agents", SQL: agent.Schema}, store.Migration{Name: "reservations", SQL: reserve.Schema},
		store.Migration{Name: "identity", SQL: state.Schema}, store.Migration{Name: "canary", SQL: canary.Schema})
	for i := range all {
		all[i].Version = i + 1
	}
	return all
}

func openStore(t testing.TB, path string) *store.Store {
	//fsck:none each test runs fsck, and most break something
	s, err := store.Open(t.Context(), path, store.Options{Migrations: migrations()})
	require.NoError(t, err)
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
				o.Fingerprint = r.Handover(w.book.Receiver(l.Params.Str("to")))
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
		id, err := op.ParseReservationID(s.Params.Str("reservation"))
		require.NoError(w.t, err)
		_, err = w.book.ForceTransfer(w.t.Context(), s.ID, name, s.Fingerprint, id, s.Params.Str("to"))
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

func ask(name, target string, kv ...any) op.Ask {
	p := op.Params{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i].(string)] = kv[i+1]
	}
	return op.Ask{Op: name, Target: op.Target{Kind: "guest", Name: target}, Params: p}
}

func (w *world) submit(by op.Requester, asks ...op.Ask) op.Job {
	w.t.Helper()
	j, err := w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Steps: asks, Reason: "test"})
	require.NoError(w.t, err)
	return j
}

// do submits a job and runs the steps that may run.
func (w *world) do(asks ...op.Ask) op.Job {
	j := w.submit(hub, asks...)
	w.run()
	return w.job(j.ID)
}

func (w *world) job(id op.JobID) op.Job {
	j, err := w.gate.Job(w.t.Context(), id)
	require.NoError(w.t, err)
	return j
}

func (w *world) request(id op.RequestID) op.Request {
	r, err := w.gate.Request(w.t.Context(), id)
	require.NoError(w.t, err)
	return r
}

func (w *world) envelope(payload []byte) authz.Envelope {
	sig, err := sshsig.Sign(bytes.NewReader(payload), w.signer, sshsig.HashSHA512, op.Operational.Namespace())
	require.NoError(w.t, err)
	return authz.Envelope{Payload: payload, Signatures: []string{string(sshsig.Armor(sig))}}
}

func (w *world) approve(id op.RequestID) {
	w.t.Helper()
	_, err := w.gate.Approve(w.t.Context(), hub, id, w.envelope(w.request(id).Payload))
	require.NoError(w.t, err)
}

// destroy asks to destroy a guest and returns the request.
func (w *world) destroy(name string) op.RequestID {
	w.t.Helper()
	j := w.submit(hub, ask("guest.destroy", name))
	require.Equal(w.t, op.StatePending, j.State())
	return j.Steps[0].ID
}

func (w *world) reject(id op.RequestID) {
	w.t.Helper()
	b, err := op.Rejection{Gate: w.id, Host: testHost, Request: id, PayloadSHA256: op.SHA256(w.request(id).Payload), Nonce: op.NewNonce(time.Now()),
		IssuedAt: w.wall, ExpiresAt: w.wall.Add(time.Hour), Reason: "no"}.Encode()
	require.NoError(w.t, err)
	_, err = w.gate.Reject(w.t.Context(), hub, id, w.envelope(b))
	require.NoError(w.t, err)
}

// run executes steps until none may run.
func (w *world) run() {
	w.t.Helper()
	for range 100 {
		targets, err := w.gate.OpenTargets(w.t.Context())
		require.NoError(w.t, err)
		ran := false
		for _, t := range targets {
			id, ok, err := w.gate.Runnable(w.t.Context(), t)
			require.NoError(w.t, err)
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
	p, err := w.gate.Permit(w.t.Context(), id)
	require.NoError(w.t, err)
	now, err := w.Observe(w.t.Context(), p.Step().Look())
	require.NoError(w.t, err)
	return p.Step(), p.Use(w.t.Context(), now) == nil
}

func (w *world) execute(id op.StepID) {
	s, ok := w.dispatch(id)
	if ok {
		w.record(id, gate.Outcome{Err: w.act(s), Transient: w.transient, Output: w.prints})
	}
}

func (w *world) record(id op.StepID, out gate.Outcome) {
	after, err := w.Observe(w.t.Context(), op.At(w.targetOf(id)))
	require.NoError(w.t, err)
	out.After = &after
	_, err = w.gate.Record(w.t.Context(), id, out)
	require.NoError(w.t, err)
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
