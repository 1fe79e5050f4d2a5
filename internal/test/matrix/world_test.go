package matrix_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/log/checkpoint"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"
)

const testHost = "pve1"

// world is one host: a state directory, a gate on it, and the local driver over
// real files, with a clock that the case moves.
type world struct {
	t     testing.TB // the case that runs
	owner testing.TB // whose end is the host's
	ctx   context.Context
	dir   string // the state directory
	root  string // of the guests
	trust string // allowed_signers
	rules policy.Policy

	revoked *authz.Revoked // keys that count no more
	key     checkpoint.Key // that signs the heads of the log, where a row has one
	uids    local.UIDRange // of guests; the zero one: they have none of their own
	quotas  gate.Quotas    // none, if it is the zero one
	room    gate.Room      // on the disk; nil: no limit

	*host // an empty one while the daemon is down

	alice, bob, carol, rita, mallory key // operators, coordinator, recovery, nobody

	mu      sync.Mutex
	wall    time.Time
	elapsed time.Duration
	boot    string // "" is a machine that boots before each start

	wake atomic.Pointer[func(op.Target)] // where the gate's wakes go

	meanwhile atomic.Pointer[func(op.Target)] // what happens while the gate looks

	seconds []vote // who signs beside alice where something is approved for real

	late   func(*world) // what a row prepares last
	before *snapshot
	allow  expectations
}

var (
	hub     = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}
	other   = op.Requester{Source: op.SourceAPI, UID: 2000, PID: 78}
	builder = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 79, Agent: "builder"}
	tester  = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 80, Agent: "tester"}
	admin   = op.Requester{Source: op.SourceAPI, UID: 0, PID: 81} // an operator on the socket
)

func matrixPolicy() policy.Policy {
	p := policy.Default()
	p.Commands = []string{"idle", "deaf", "program", "hostile", "forks"}
	return p
}

const daemonUID = 4242

// newWorld makes a host with two guests that hold files: victim, which is
// attacked, and bystander, which is nobody's business.
func newWorld(t testing.TB) *world {
	w := bareWorld(t)
	w.makeGuests()
	return w
}

func (w *world) makeGuests() {
	w.t.Helper()
	w.makeGuest("victim")
	w.makeGuest("bystander")
}

func bareWorld(t testing.TB) *world { return bareWorldIn(t, t) }

// bareWorldIn makes a host that is there until owner ends, which may be later
// than t.
func bareWorldIn(owner, t testing.TB) *world {
	base := owner.TempDir()
	return bareWorldAt(owner, t, filepath.Join(base, "state"), filepath.Join(base, "guests"))
}

// bareWorldAt makes a host whose state and guests are in these directories.
func bareWorldAt(owner, t testing.TB, dir, root string) *world {
	w := &world{t: t, owner: owner, ctx: owner.Context(), dir: dir, root: root,
		wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), rules: matrixPolicy(), alice: keyOf(t, "alice"),
		bob: keyOf(t, "bob"), carol: keyOf(t, "carol"), rita: keyOf(t, "rita"), mallory: keyOf(t, "mallory")}
	w.trust = w.alice.line("operational@gated,git") + w.bob.line("operational@gated") +
		w.carol.line("coordination@gated") + w.rita.line("recovery@gated")
	if os.Geteuid() == 0 { // whose own uid runs no guests
		w.uids.First, w.uids.Last = spareuids.Next(owner.Cleanup)
	}
	h := must.Get(initHost(w.ctx, w.config()))(t)
	w.host = h
	owner.Cleanup(w.shutDown)
	return w
}

// open does what the daemon does at its start.
func (w *world) open() {
	w.t.Helper()
	w.free()
	require.NoError(w.t, w.tryOpen())
}

func (w *world) tryOpen() error {
	h, err := openHost(w.ctx, w.config())
	if err == nil {
		w.host = h
	}
	return err
}

func (w *world) config() hostConfig {
	log := slog.New(slog.NewTextHandler(w.owner.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	return hostConfig{dir: w.dir, root: w.root, trust: w.trust, revoked: w.revoked, rules: w.rules, read: w.read, wake: w.woken,
		rotated: w.rotated, looked: w.atLook, log: log, grace: time.Second, key: w.key, uids: w.uids, quotas: w.quotas, room: w.room}
}

// shut ends what open began, as a clean stop would.
func (w *world) shut() {
	if w.store == nil {
		return
	}
	require.NoError(w.t, w.host.close())
	w.host = &host{}
	w.free()
}

// free waits until a daemon could start.
func (w *world) free() {
	w.t.Helper()
	w.unlocked(filepath.Join(w.dir, "lock"))
	w.unlocked(w.root)
}

// unlocked waits until nobody holds a lock: a process that another case is just
// starting has, between fork and exec, a copy of every descriptor of this one.
func (w *world) unlocked(path string) {
	w.t.Helper()
	f := must.Get(os.Open(path))(w.t)
	defer f.Close()
	require.Eventually(w.t, func() bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil },
		time.Minute, time.Millisecond)
	require.NoError(w.t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
}

func (w *world) restart() {
	w.t.Helper()
	w.shut()
	w.open()
}

// shutDown also ends the guests' processes, through the driver that owns them.
func (w *world) shutDown() {
	if w.store == nil {
		return
	}
	w.ctx = context.Background()
	for _, name := range w.running() {
		_ = w.runJob(hub, ask("guest.stop", name))
	}
	if left := w.running(); len(left) > 0 { // by the row's own rules nobody stops them unsigned
		w.rules = matrixPolicy()
		w.restart()
		for _, name := range left {
			_ = w.runJob(hub, ask("guest.stop", name))
		}
		require.Empty(w.t, w.running(), "they would go on after the test")
	}
	w.shut()
}

// running are the guests that run.
func (w *world) running() (names []string) {
	for _, o := range must.Get(w.driver.List(w.ctx))(w.t) {
		if o.Running == local.Running {
			names = append(names, o.Target.Name)
		}
	}
	return names
}

func (w *world) read() nonce.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nonce.Reading{Wall: w.wall, Elapsed: w.elapsed, Boot: w.boot}
}

func (w *world) now() time.Time { return w.read().Wall }

// pass lets time go by on both clocks.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wall, w.elapsed = w.wall.Add(d), w.elapsed+d
}

// setClock moves the wall clock alone.
func (w *world) setClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wall = w.wall.Add(d)
}

// path is a file in the guests' root.
func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.root}, elem...)...)
}

func (w *world) write(content string, elem ...string) {
	w.t.Helper()
	path := w.path(elem...)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(content), 0o640))
}

// makeGuest creates a guest through the gate and fills it.
func (w *world) makeGuest(name string, kv ...any) {
	w.t.Helper()
	w.makeFor(hub, name, kv...)
}

func (w *world) makeFor(by op.Requester, name string, kv ...any) {
	w.t.Helper()
	require.NoError(w.t, w.runJob(by, ask("guest.create", name, kv...)))
	w.write("the only copy of "+name, name, "data", "precious.txt")
	w.write(strings.Repeat(name, 1000), name, "data", "deep", "er", "more")
}

func ask(name, target string, kv ...any) op.Ask { return gateworld.Ask(name, target, kv...) }

func guest(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

func labels(kv ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func (w *world) submit(by op.Requester, asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks, Reason: "matrix"})
}

// request submits a step that waits, and returns its request.
func (w *world) request(a op.Ask) op.Request {
	w.t.Helper()
	return w.requestBy(hub, a)
}

func (w *world) requestBy(by op.Requester, a op.Ask) op.Request {
	w.t.Helper()
	j := must.Get(w.submit(by, a))(w.t)
	require.Equal(w.t, op.StatePending, j.State(), "it was to wait")
	return w.reread(j.Steps[0].ID)
}

// destroyRequest is the request that most cases are about.
func (w *world) destroyRequest() op.Request {
	w.t.Helper()
	return w.request(ask("guest.destroy", "victim"))
}

// destroyBecause is destroyRequest for another reason, because an operator may have rejected it before.
func (w *world) destroyBecause(reason string) op.Request {
	w.t.Helper()
	j := must.Get(w.says(hub, reason, ask("guest.destroy", "victim")))(w.t)
	return w.reread(j.Steps[0].ID)
}

func (w *world) reread(id op.RequestID) op.Request {
	w.t.Helper()
	return must.Get(w.gate.Request(w.ctx, id))(w.t)
}

func (w *world) stepOf(id op.StepID) op.Step {
	w.t.Helper()
	j := must.Get(w.gate.Job(w.ctx, id.Job))(w.t)
	require.GreaterOrEqual(w.t, len(j.Steps), id.Index)
	return j.Steps[id.Index-1]
}

func (w *world) observe(name string) op.Observed {
	w.t.Helper()
	return must.Get(w.driver.Observe(w.ctx, op.At(guest(name))))(w.t)
}

// approve approves for real, as alice with opsign would.
func (w *world) approve(r op.Request) (op.Request, error) {
	w.t.Helper()
	e := authz.Envelope{Payload: r.Payload, Signatures: []string{w.alice.sign(w.t, op.Operational, r.Payload)}}
	for _, v := range w.seconds {
		e.Signatures = append(e.Signatures, v(w.t, r.Payload))
	}
	return w.gate.Approve(w.ctx, hub, r.ID, e)
}

func (w *world) mustApprove(r op.Request) {
	w.t.Helper()
	require.Equal(w.t, op.StateAuthorized, must.Get(w.approve(r))(w.t).Step.State)
}

// send hands in an envelope for a request and returns how it was refused.
func (w *world) send(id op.RequestID, e authz.Envelope) error {
	return failure(w.gate.Approve(w.ctx, hub, id, e))
}

func (w *world) sendOffline(e authz.Envelope) error {
	return failure(w.gate.ApproveOffline(w.ctx, hub, e))
}

// altered returns the request's payload with one thing changed.
func (w *world) altered(r op.Request, change func(*op.Payload)) []byte {
	w.t.Helper()
	p := must.Get(op.DecodePayload(r.Payload))(w.t)
	change(&p)
	return must.Get(p.Encode())(w.t)
}

// rejection returns a signed rejection of a request.
func (w *world) rejection(r op.Request, by key) authz.Envelope {
	w.t.Helper()
	now := w.now().UTC().Truncate(time.Second)
	b, err := op.Rejection{Gate: w.gate.ID(), Host: w.gate.Host(), Request: r.ID, PayloadSHA256: op.SHA256(r.Payload),
		Nonce: op.NewNonce(time.Now()), IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "no"}.Encode()
	require.NoError(w.t, err)
	return authz.Envelope{Payload: b, Signatures: []string{by.sign(w.t, op.Operational, b)}}
}

// rotated is told of each rotation, as the daemon is, which writes the file out.
func (w *world) rotated(context.Context) { w.trust = string(w.gate.Trust().Text()) }

// atLook lets something happen while the gate looks at a target.
func (w *world) atLook(t op.Target) {
	if fn := w.meanwhile.Load(); fn != nil {
		(*fn)(t)
	}
}

// woken passes a wake on to whoever reconciles now.
func (w *world) woken(t op.Target) {
	if fn := w.wake.Load(); fn != nil {
		(*fn)(t)
	}
}

// waits turns a job that waits for a signature into that, as a code; a job that
// does not is nil and thus accepted.
func (w *world) waits(j op.Job, err error) error {
	w.t.Helper()
	if err != nil {
		return err
	}
	if j.State() == op.StatePending {
		return refusal.New(refusal.PendingSignature, "%s waits", j.ID)
	}
	return nil
}

// cleanup runs fn when the case is over, before the host is shut down.
func (w *world) cleanup(fn func()) { w.t.(*testing.T).Cleanup(fn) }
