package retention_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/retention"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

var hub = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}

// world is a gate with guests in memory, a clock that tests move, and a keeper that archives what is a day old.
type world struct {
	t      testing.TB
	path   string
	store  *store.Store
	gate   *gate.Gate
	keeper *retention.Keeper
	dir    *archive.Dir
	alice  mint.Key
	key    checkpoint.Key
	clock  gateworld.Clock

	guests, trash map[string]op.Observed
	made          int
	admit         func(int64) error
	away          time.Duration
	migrations    []store.Migration
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "gated.db"), alice: mint.Ed25519(t, "alice"),
		guests: map[string]op.Observed{}, trash: map[string]op.Observed{}, migrations: gate.Migrations()}
	w.key = must.Get(checkpoint.NewKey(gateworld.ID))(t)
	w.admit = func(int64) error { return nil }
	gateworld.Database(t, w.path, gate.Migrations())
	w.open()
	w.update(func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, gateworld.ID, w.key.Public); err != nil {
			return err
		}
		return w.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: w.key.Public}})
	})
	return w
}

// open opens the database as a start of the daemon does.
func (w *world) open() {
	w.store = fscktest.Open(w.t, w.path, store.Options{Migrations: w.migrations})
	require.NoError(w.t, w.store.Update(w.t.Context(), func(tx *store.Tx) error { return retention.Came(tx, w.away) }))
	w.away = 0
	w.gate = gateworld.New(w.t, w.store, w.clock.Read, gate.Config{Observer: w, Host: "pve1", Trust: w.trust(), Key: w.key.Signer,
		Quotas: gate.Quotas{JournalBytes: 1 << 40, Snapshots: 100}})
	w.dir = archive.NewDir(filepath.Join(filepath.Dir(w.path), "archive"))
	w.keeperOf(gateworld.ID)
}

// keeperOf makes the keeper, for a gate of an id. If it is another one than that of the log, the gate was restored.
func (w *world) keeperOf(id op.GateID) {
	opened := w.clock.Read().Elapsed
	w.keeper = must.Get(retention.New(retention.Config{Store: w.store, Dir: w.dir, Named: true, After: 24 * time.Hour, Keep: 16, Gate: id,
		Schema: len(w.migrations), Append: w.gate.Append, Moment: w.gate.Moment,
		Up:    func() time.Duration { return w.clock.Read().Elapsed - opened },
		Admit: func(n int64) error { return w.admit(n) }, Rest: func(context.Context, time.Duration) {}}))(w.t)
}

func (w *world) trust() *authz.Trust {
	return gateworld.Trust(w.t, gateworld.Line(w.alice, op.Operational))
}

// restart closes the database and opens it again.
func (w *world) restart() {
	require.NoError(w.t, w.store.Close())
	w.open()
}

func (w *world) update(fn func(*store.Tx) error) {
	w.t.Helper()
	require.NoError(w.t, w.store.Update(w.t.Context(), fn))
}

func (w *world) view(fn func(*store.Tx) error) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.t.Context(), fn))
}

// Observe implements op.Observer.
func (w *world) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	if o, ok := w.guests[l.Target.Name]; ok {
		return o, nil
	}
	o := op.Observed{Target: l.Target, Running: "absent"}
	if d, ok := w.trash[l.Target.Name]; ok {
		o.Trash = []op.Trashed{{Incarnation: d.Incarnation}}
	}
	return o, nil
}

// act does what a driver does.
func (w *world) act(s op.Step) {
	name := s.Target.Name
	switch s.Op {
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
	case "guest.start", "guest.stop":
		o := w.guests[name]
		o.Running = map[string]string{"guest.start": "running", "guest.stop": "stopped"}[s.Op]
		w.guests[name] = o
	}
}

func (w *world) submit(asks ...op.Ask) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Submit(w.t.Context(), op.Submission{Requester: hub, Steps: asks, Reason: "test " + strconv.Itoa(w.made)}))(w.t)
}

// do submits a job and runs the steps that may run.
func (w *world) do(name, guest string, params ...any) op.Job {
	w.t.Helper()
	j := w.submit(gateworld.Ask(name, guest, params...))
	w.run()
	return must.Get(w.gate.Job(w.t.Context(), j.ID))(w.t)
}

// run executes steps until none may run.
func (w *world) run() {
	w.t.Helper()
	for range 100 {
		ran := false
		for _, t := range must.Get(w.gate.OpenTargets(w.t.Context()))(w.t) {
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

func (w *world) execute(id op.StepID) {
	p := must.Get(w.gate.Permit(w.t.Context(), id))(w.t)
	now := must.Get(w.Observe(w.t.Context(), p.Step().Look()))(w.t)
	if p.Use(w.t.Context(), now) != nil {
		return
	}
	w.act(p.Step())
	after := must.Get(w.Observe(w.t.Context(), op.At(p.Step().Target)))(w.t)
	must.Get(w.gate.Record(w.t.Context(), id, gate.Outcome{After: &after, Output: "printed by " + id.String()}))(w.t)
}

func (w *world) request(id op.RequestID) op.Request {
	w.t.Helper()
	return must.Get(w.gate.Request(w.t.Context(), id))(w.t)
}

func (w *world) approve(id op.RequestID) {
	w.t.Helper()
	must.Get(w.gate.Approve(w.t.Context(), hub, id, gateworld.Signed(w.t, w.request(id).Payload, w.alice)))(w.t)
	w.run()
}

func (w *world) reject(id op.RequestID) {
	w.t.Helper()
	must.Get(w.gate.Reject(w.t.Context(), hub, id, gateworld.Rejection(w.t, w.gate, w.request(id), w.clock.Now(), w.alice)))(w.t)
}

// busy has n jobs that start and stop a guest.
func (w *world) busy(n int) (jobs []op.Job) {
	w.t.Helper()
	if _, ok := w.guests["busy"]; !ok {
		w.do("guest.create", "busy")
	}
	for i := range n {
		jobs = append(jobs, w.do([]string{"guest.start", "guest.stop"}[i%2], "busy"))
	}
	return jobs
}

// pass lets time pass, as a gate that runs does.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= time.Hour {
		w.clock.Pass(min(d, time.Hour))
		require.NoError(w.t, w.gate.Tick(w.t.Context()))
	}
}

// archive archives all that may go, and returns how many steps that took.
func (w *world) archive() (steps int) {
	w.t.Helper()
	for ; ; steps++ {
		require.Less(w.t, steps, 5000)
		did, err := w.keeper.Step(w.t.Context())
		require.NoError(w.t, err)
		if !did {
			return steps
		}
	}
}

// older is a keeper's directory without what was read before.
func (w *world) older() *archive.Dir { return archive.NewDir(w.dir.Path()) }

// files are the names in the archive's directory.
func (w *world) files() (names []string) {
	all, err := os.ReadDir(w.dir.Path())
	if !os.IsNotExist(err) {
		require.NoError(w.t, err)
	}
	for _, f := range all {
		if f.Name() == archive.MarkName {
			continue
		}
		names = append(names, f.Name())
	}
	return names
}

func (w *world) bound() (bound int64) {
	w.view(func(tx *store.Tx) error {
		h, err := audit.Bound(tx)
		bound = h.Seq
		return err
	})
	return bound
}

func (w *world) count(table string) (n int64) {
	w.view(func(tx *store.Tx) error { return tx.QueryRow(fmt.Sprintf(`SELECT count(*) FROM %s`, table)).Scan(&n) })
	return n
}

func ask(name, guest string) op.Ask { return gateworld.Ask(name, guest) }
