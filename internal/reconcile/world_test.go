package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// world is a reconciler over a real gate and store, guests in memory, one
// source that tests set, and a clock that they move. Its queue is worked on by
// the test alone, so that each test sees every step.
type world struct {
	t      testing.TB
	ctx    context.Context
	time   *fakeTime
	gate   *gate.Gate
	store  *store.Store
	fleet  *fleet // unless the world is over another driver
	driver driver.Driver
	source *lines
	r      *Reconciler
	policy policy.Policy
	alice  mint.Key
	path   string
	moved  bool // it was opened on another host than before
}

// newWorld is a world with guests that run and that the gate did not make.
func newWorld(t testing.TB, guests ...string) *world {
	f := newFleet()
	w := newWorldOver(t, f)
	w.fleet = f
	for _, name := range guests {
		f.make(name, running, nil)
	}
	return w
}

func newWorldOver(t testing.TB, d driver.Driver) *world {
	w := &world{t: t, ctx: t.Context(), time: newTime(), driver: d, source: &lines{}, policy: policy.Default(), alice: mint.Ed25519(t, "alice"),
		path: filepath.Join(t.TempDir(), "gated.db")}
	w.policy.Commands = []string{"web"}
	w.open()
	return w
}

func (w *world) open() {
	s := fscktest.Open(w.t, w.path, store.Options{Migrations: gate.Migrations()})
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	w.gate = gateworld.New(w.t, s, func() nonce.Reading {
		now := w.time.now()
		return nonce.Reading{Wall: now, Elapsed: now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	}, gate.Config{Observer: w.driver, Host: "pve1", Trust: gateworld.Trust(w.t, gateworld.Line(w.alice, op.Operational)), Policy: w.policy,
		UID: 4242, Logger: log, Wake: func(t op.Target) { w.r.Wake(t) }, WakeSigned: func(t op.Target) { w.r.WakeSigned(t) }})
	w.store = s
	w.r = New(Config{Gate: w.gate, Drivers: map[string]driver.Driver{"guest": w.driver}, Sources: []Source{w.source},
		Host: "pve1", Moved: w.moved, Now: w.time.now, After: w.time.after, Random: func() float64 { return 0 }, Logger: log})
}

// restart is what a kill and a new start are for everything but the disk.
func (w *world) restart() {
	require.NoError(w.t, w.store.Close())
	w.open()
	require.NoError(w.t, w.r.Recover(w.ctx))
}

// work takes from the queue until it is empty.
func (w *world) work() {
	w.t.Helper()
	for range 10_000 {
		var t op.Target
		ok := true
		switch waiting, looks := w.r.queue.lengths(); {
		case waiting > 0:
			t, ok = w.r.queue.get()
			w.r.process(w.ctx, t, false)
		case looks > 0:
			t, ok = w.r.queue.getLook(nil)
			w.r.lookAgain(w.ctx, t)
		default:
			return
		}
		require.True(w.t, ok)
		w.r.queue.done(t)
	}
	w.t.Fatal("the queue does not come to an end")
}

// lengths returns how many targets wait for work, and how many for a look.
func (q *queue) lengths() (waiting, looks int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), len(q.looks)
}

// look is one round over everything, and the work that it finds.
func (w *world) look() {
	w.t.Helper()
	w.r.look(w.ctx)
	w.work()
}

// wish replaces the only document and reads it.
func (w *world) wish(guests string) {
	w.t.Helper()
	w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: "+guests+"\n")
	w.r.read(w.ctx)
	w.work()
}

func (w *world) submit(asks ...op.Ask) op.Job {
	w.t.Helper()
	j, err := w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: 1000}, Steps: asks})
	require.NoError(w.t, err)
	return j
}

func ask(name, target string, p op.Params) op.Ask {
	return op.Ask{Op: name, Target: guestTarget(target), Params: p}
}

// requests returns the open requests as "op name".
func (w *world) requests() []string {
	w.t.Helper()
	rs := must.Get(w.gate.Requests(w.ctx, ""))(w.t)
	out := []string{}
	for _, r := range rs {
		out = append(out, r.Step.Op+" "+r.Step.Target.Name)
	}
	return out
}

// request returns the one open request.
func (w *world) request() op.Request {
	w.t.Helper()
	rs := must.Get(w.gate.Requests(w.ctx, ""))(w.t)
	require.Len(w.t, rs, 1)
	return rs[0]
}

func (w *world) approve(r op.Request) {
	w.t.Helper()
	must.Get(w.gate.Approve(w.ctx, op.Requester{Source: op.SourceAPI}, r.ID, gateworld.Signed(w.t, r.Payload, w.alice)))(w.t)
}

func (w *world) reject(r op.Request) {
	w.t.Helper()
	no := gateworld.Rejection(w.t, w.gate, r, w.time.now(), w.alice)
	must.Get(w.gate.Reject(w.ctx, op.Requester{Source: op.SourceAPI}, r.ID, no))(w.t)
}

// steps returns all steps of all jobs as "op name state", oldest first.
func (w *world) steps() []string {
	w.t.Helper()
	js := must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{Limit: 10_000}))(w.t)
	out := []string{}
	for _, j := range js {
		for _, s := range j.Steps {
			out = append(out, fmt.Sprintf("%s %s %s", s.Op, s.Target.Name, s.State))
		}
	}
	return out
}
