package gate_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"bytes"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/audit"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// world is a gate with a back end in memory and a clock that tests move.
type world struct {
	t        testing.TB
	ctx      context.Context
	gate     *gate.Gate
	store    *store.Store
	path     string
	clock    *nonce.Clock
	back     *backend // nil on another back end
	observer op.Observer
	trust    *authz.Trust
	revoked  *authz.Revoked
	id       op.GateID
	quotas   gate.Quotas // for the next open
	room     gate.Room

	gateworld.Clock
	mu    sync.Mutex
	woken map[op.Target]bool
	held  func() error // whether this daemon may act
}

const (
	testHost = "pve1"
	testGate = gateworld.ID
)

// alice is an operator, carol a coordinator, rita holds a recovery key; mallory
// is not listed.
var alice, carol, rita, mallory = newKey("alice"), newKey("carol"), newKey("rita"), newKey("mallory")

type key struct {
	name   string
	signer ssh.Signer
}

func newKey(name string) key {
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	s, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		panic(err)
	}
	return key{name, s}
}

func (k key) line(namespaces string) string {
	pub := k.signer.PublicKey()
	return k.name + ` namespaces="` + namespaces + `" ` + pub.Type() + " " + base64.StdEncoding.EncodeToString(pub.Marshal()) + "\n"
}

func (k key) sign(t testing.TB, namespace string, payload []byte) string {
	sig := must.Get(sshsig.Sign(bytes.NewReader(payload), k.signer, sshsig.HashSHA512, namespace))(t)
	return string(sshsig.Armor(sig))
}

func (k key) envelope(t testing.TB, payload []byte) authz.Envelope {
	return authz.Envelope{Payload: payload, Signatures: []string{k.sign(t, op.Operational.Namespace(), payload)}}
}

// newWorld is a world with guests that were made outside of the gate.
func newWorld(t *testing.T, guests ...string) *world {
	t.Parallel()
	back := newBackend()
	w := newWorldOn(t, back)
	w.back = back
	for _, name := range guests {
		back.put(name)
	}
	return w
}

// newRequest is newWorld with a guest, and the request to destroy that guest.
func newRequest(t *testing.T, guest string) (*world, op.Request) {
	t.Helper()
	w := newWorld(t, guest)
	return w, w.request(ask("guest.destroy", guest))
}

// newWorldOn is newWorld over another back end.
func newWorldOn(t testing.TB, back op.Observer) *world {
	w := &world{t: t, ctx: t.Context(), observer: back, id: testGate,
		path: filepath.Join(t.TempDir(), "gated.db")}
	w.trust = must.Get(authz.LoadTrust([]byte(alice.line("operational@gated,git") + carol.line("coordination@gated") +
		rita.line("recovery@gated"))))(t)
	gateworld.Database(t, w.path, gate.Migrations())
	w.open()
	return w
}

func (w *world) open() {
	s := fscktest.Open(w.t, w.path, store.Options{Migrations: gate.Migrations()})
	p := policy.Default()
	p.Commands = []string{"web"}
	w.clock = gateworld.LoadClock(w.t, s, w.Read)
	w.gate = must.Get(gate.New(gate.Config{Store: s, Observer: w.observer, Clock: w.clock, Host: testHost, ID: w.id, Trust: w.trust, Policy: p,
		UID: 4242, Wake: w.wake, Quotas: w.quotas, Room: w.room, Held: w.held, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil))}))(w.t)
	w.store = s
	w.told()
}

func (w *world) wake(t op.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken == nil {
		w.woken = map[op.Target]bool{}
	}
	w.woken[t] = true
}

// wakes returns which guests were woken since the last call.
func (w *world) wakes(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.woken[op.Target{Kind: "guest", Name: name}]
	w.woken = nil
	return woken
}

// restart closes the store and opens it again, as a daemon would.
func (w *world) restart() {
	require.NoError(w.t, w.store.Close())
	w.open()
}

var hub = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}

func ask(name, target string, kv ...any) op.Ask { return gateworld.Ask(name, target, kv...) }

func (w *world) submit(asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: asks, Reason: "test"})
}

func (w *world) mustSubmit(asks ...op.Ask) op.Job {
	w.t.Helper()
	return must.Get(w.submit(asks...))(w.t)
}

// request submits a step that waits and returns its request.
func (w *world) request(a op.Ask) op.Request {
	w.t.Helper()
	j := w.mustSubmit(a)
	require.Equal(w.t, op.StatePending, j.State())
	return must.Get(w.gate.Request(w.ctx, j.Steps[0].ID))(w.t)
}

func (w *world) approve(r op.Request) (op.Request, error) {
	return w.gate.Approve(w.ctx, hub, r.ID, alice.envelope(w.t, r.Payload))
}

// run executes all steps that may run, as reconcile would.
func (w *world) run() {
	w.t.Helper()
	for range 100 {
		targets := must.Get(w.gate.OpenTargets(w.ctx))(w.t)
		ran := false
		for _, t := range targets {
			id, ok := must.Two(w.gate.Runnable(w.ctx, t))(w.t)
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

// execute does what a driver and reconcile do with one step.
func (w *world) execute(id op.StepID) error {
	p := must.Get(w.gate.Permit(w.ctx, id))(w.t)
	used, err := w.back.execute(w.ctx, p)
	if !used {
		return err
	}
	after := must.Get(w.back.Observe(w.ctx, p.Step().Look()))(w.t)
	must.Get(w.gate.Record(w.ctx, id, gate.Outcome{Err: err, After: &after}))(w.t)
	return err
}

func (w *world) job(id op.JobID) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Job(w.ctx, id))(w.t)
}

// kinds returns the kinds of all audit entries, in order.
func (w *world) kinds() []audit.Kind {
	es := must.Get(w.gate.Events(w.ctx, 0, 10000))(w.t)
	var out []audit.Kind
	for _, e := range es {
		out = append(out, e.Kind)
	}
	return out
}

// lastRefusal returns the newest refusal in the audit log.
func (w *world) lastRefusal() audit.Entry {
	es := must.Get(w.gate.Events(w.ctx, 0, 10000))(w.t)
	for i := len(es) - 1; i >= 0; i-- {
		if es[i].Kind == audit.Refused {
			return es[i]
		}
	}
	w.t.Fatal("no refusal in the audit log")
	return audit.Entry{}
}

func (w *world) verifyLog() {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		_, err := audit.Verify(tx, nil)
		return err
	}))
}

// backend has guests in memory. fail, if set, is called before each operation takes
// effect.
type backend struct {
	mu     sync.Mutex
	guests map[string]op.Observed
	trash  map[string]op.Observed
	count  int
	fail   func(op.Step) error
	done   []done
}

// done is one thing that the back end did.
type done struct {
	step   op.Step
	before op.Observed
}

func newBackend() *backend {
	return &backend{guests: map[string]op.Observed{}, trash: map[string]op.Observed{}}
}

// put makes a guest outside the gate.
func (b *backend) put(name string) op.Observed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.make(name, "", op.Params{})
}

func (b *backend) make(name, birth string, p op.Params) op.Observed {
	b.count++
	id := name + "-" + strings.Repeat("x", b.count%100) + strconv.Itoa(b.count/100)
	o := op.Observed{Target: op.Target{Kind: "guest", Name: name}, Present: true, Incarnation: op.Incarnation(id), Birth: birth,
		Running: "stopped", Content: "nothing", Backups: []string{}, Storage: []op.StorageID{op.StorageID("data:" + id)}, Labels: map[string]string{}, Spec: op.Params{}}
	b.set(o, p)
	return b.guests[name]
}

func (b *backend) set(o op.Observed, p op.Params) {
	spec := op.Params{}
	for k, v := range o.Spec {
		spec[k] = v
	}
	for k, v := range p {
		if k != "state" && k != "scratch" {
			spec[k] = v
		}
	}
	o.Spec = spec
	o.Protected = spec.Bool("protected")
	o.Labels = spec.Labels("labels")
	o.Facts = []op.Fact{{Name: "files", Text: "3"}}
	o.Fingerprint = op.FingerprintOf(append(spec.Canonical(), strings.Join(o.Snapshots, ",")...))
	b.guests[o.Target.Name] = o
}

// change changes a guest outside the gate.
func (b *backend) change(name string, fn func(*op.Observed)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.guests[name]
	fn(&o)
	b.set(o, op.Params{})
}

func (b *backend) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.guests, name)
}

// did returns what was done, as "op name".
func (b *backend) did() (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.done {
		out = append(out, d.step.Op+" "+d.step.Target.Name)
	}
	return out
}

func (b *backend) get(name string) op.Observed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.guests[name]
}

func (b *backend) has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.guests[name]
	return ok
}

func (b *backend) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.guests[t.Name]; ok {
		return o, nil
	}
	o := op.Observed{Target: t, Running: "absent"}
	if d, ok := b.trash[l.TrashName()]; ok {
		o.Trash = []op.Trashed{{Incarnation: d.Incarnation}}
	}
	return o, nil
}

func (b *backend) execute(ctx context.Context, p gate.Permit) (used bool, err error) {
	s := p.Step()
	now, err := b.Observe(ctx, s.Look())
	if err != nil {
		return false, err
	}
	if err := p.Use(ctx, now); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		if err := b.fail(s); err != nil {
			return true, err
		}
	}
	name := s.Target.Name
	o := b.guests[name]
	b.done = append(b.done, done{s, now})
	switch s.Op {
	case "guest.create", "guest.clone":
		b.make(name, s.Birth, s.Params)
	case "guest.destroy":
		b.trash[name] = o
		delete(b.guests, name)
	case "guest.undelete":
		back := b.trash[s.Look().TrashName()]
		back.Target = s.Target
		b.guests[name] = back
		delete(b.trash, s.Look().TrashName())
	case "guest.start":
		o.Running, o.Content = "running", ""
		b.guests[name] = o
	case "guest.stop":
		o.Running, o.Content = "stopped", "nothing"
		b.guests[name] = o
	case "guest.set-config":
		b.set(o, s.Params)
	case "guest.wipe":
		b.count++
		o.Storage = []op.StorageID{op.StorageID(fmt.Sprintf("data:wiped:%d", b.count))}
		b.set(o, op.Params{})
	case "guest.snapshot-delete":
		gone := s.Params.Str("snapshot")
		o.Snapshots = slices.DeleteFunc(slices.Clone(o.Snapshots), func(name string) bool { return name == gone })
		o.Storage = slices.DeleteFunc(slices.Clone(o.Storage), func(id op.StorageID) bool { return id == op.StorageID("snapshot:"+gone) })
		b.set(o, op.Params{})
	case "guest.backup":
		b.count++
		o.Backups = append(slices.Clip(o.Backups), fmt.Sprintf("backup-%d", b.count))
		b.set(o, op.Params{})
	case "guest.snapshot":
		o.Snapshots = append(o.Snapshots, s.Params.Str("snapshot"))
		o.Storage = append(o.Storage, op.StorageID("snapshot:"+s.Params.Str("snapshot")))
		b.set(o, op.Params{})
	}
	return true, nil
}

// nonceOf returns the record of a nonce.
func (w *world) nonceOf(n string) (r nonce.Record, ok bool) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) {
		r, ok, err = nonce.Lookup(tx, n)
		return err
	}))
	return r, ok
}
