package scope_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/scope"
	"gated/internal/gate"
	_ "gated/internal/host/fsck/book"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

var hub = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}

// world is a gate and a book in one database, and the driver between them. Agents hold
// reservations of one directory.
type world struct {
	*scope.Driver
	*reserve.Book
	owner testing.TB
	t     require.TestingT // owner, or a property under test
	ctx   context.Context
	gate  *gate.Gate
	store *store.Store
	wall  time.Time

	repo   reserve.Place
	agents map[string]reserve.Holder

	alice, carol, rita, mallory mint.Key // operator, coordinator, recovery, a key without a role

	before func()                    // runs before the book removes or transfers
	after  func() error              // runs after that; its error replaces the book's
	shows  func(*reserve.View) error // changes the view that the driver gets
}

// The world is the driver's book and passes calls on to the real one.
func (w *world) View(ctx context.Context, id string) (reserve.View, error) {
	v, err := w.Book.View(ctx, id)
	if err == nil && w.shows != nil {
		err = w.shows(&v)
	}
	return v, err
}

func (w *world) ForceRelease(ctx context.Context, step op.StepID, id string, seen op.Fingerprint) ([]reserve.Reservation, error) {
	w.before()
	out, err := w.Book.ForceRelease(ctx, step, id, seen)
	if w.after != nil {
		err = w.after()
	}
	return out, err
}

func (w *world) ForceTransfer(ctx context.Context, step op.StepID, id string, seen op.Fingerprint, r op.ReservationID, to string) (reserve.Reservation, error) {
	w.before()
	out, err := w.Book.ForceTransfer(ctx, step, id, seen, r, to)
	if w.after != nil {
		err = w.after()
	}
	return out, err
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{owner: t, t: t, ctx: t.Context(), wall: gateworld.Noon, before: func() {},
		alice: mint.Ed25519(t, "alice"), carol: mint.Ed25519(t, "carol"), rita: mint.Ed25519(t, "rita"),
		mallory: mint.Ed25519(t, "mallory"), agents: map[string]reserve.Holder{}}
	for i, name := range []string{"builder", "tester", "writer"} {
		w.agents[name] = reserve.Holder{Name: name, UID: 1000, Registration: int64(i + 1)}
	}
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	w.repo = w.place(filepath.Join(dir, "repo"))
	database := filepath.Join(dir, "gated.db")
	gateworld.Database(t, database, migrations())
	w.store = fscktest.Open(t, database, store.Options{Migrations: migrations()})
	w.open()
	return w
}

func migrations() []store.Migration {
	all := gate.Migrations()
	return append(all, store.Migration{Version: len(all) + 1, Name: "reservations", SQL: reserve.Schema + reserve.SchemaMembers})
}

// place makes a directory.
func (w *world) place(path string) reserve.Place {
	require.NoError(w.t, os.MkdirAll(path, 0o755))
	info := must.Get(os.Lstat(path))(w.t)
	st := info.Sys().(*syscall.Stat_t)
	return reserve.Place{Path: path, Device: st.Dev, Inode: st.Ino}
}

func (w *world) now() time.Time { return w.wall }

func (w *world) open() {
	text := gateworld.Line(w.alice, op.Operational) + gateworld.Line(w.carol, op.Coordination) + gateworld.Line(w.rita, op.Recovery)
	trust := gateworld.Trust(w.owner, text)
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: 1, Text: []byte(text), How: "init", At: w.wall})
	}))
	w.Driver = scope.New(w, "")
	w.gate = gateworld.New(w.owner, w.store, func() nonce.Reading { return nonce.Reading{Wall: w.wall, Elapsed: w.wall.Sub(time.Unix(0, 0))} },
		gate.Config{Observer: w.Driver, Host: "host", Trust: trust, Epoch: 1})
	require.NoError(w.t, w.gate.Log(w.ctx, gate.RotatedEntry("init", authz.Rotation{Trust: trust}, journal.TrustVersion{Epoch: 1})))
	w.Book = reserve.New(reserve.Config{Store: w.store, Now: w.now, Append: w.gate.Append,
		Agent:      func(name string) (reserve.Holder, bool) { h, ok := w.agents[name]; return h, ok },
		Registered: func(_ *store.Tx, h reserve.Holder) (bool, error) { return w.agents[h.Name] == h, nil },
		Alive:      func(h reserve.Holder) bool { return w.agents[h.Name] == h },
		Changed:    func(op.Target) {}, Logger: slog.New(slog.NewTextHandler(w.owner.Output(), nil))})
}

func by(name string) op.Requester {
	return op.Requester{Source: op.SourceAPI, UID: 1000, PID: 80, Agent: name + "#" + map[string]string{"builder": "1", "tester": "2", "writer": "3"}[name]}
}

// reserve reserves patterns of the directory for the agent of that name.
func (w *world) reserve(name string, patterns ...string) (reserve.Granted, error) {
	g, _, err := w.Reserve(w.ctx, reserve.Claim{By: by(name), Place: w.repo, Patterns: patterns, Mode: reserve.Exclusive,
		TTL: time.Hour, Reason: "work of " + name})
	return g, err
}

func (w *world) mustReserve(name string, patterns ...string) reserve.Reservation {
	return must.Get(w.reserve(name, patterns...))(w.t).Reservation
}

// held lists the holders and their patterns: "r1 builder a/** b".
func (w *world) held() []string {
	list := must.Get(w.Book.List(w.ctx, reserve.Query{Limit: 1000}))(w.t)
	out := []string{}
	for _, r := range list {
		out = append(out, r.ID.String()+" "+r.Holder.String()+" "+strings.Join(r.Patterns, " "))
	}
	slices.Sort(out)
	return out
}

func (w *world) scope() op.Target { return must.Get(w.Register(w.ctx, w.repo))(w.t).Target() }

func (w *world) look() op.Observed { return must.Get(w.Observe(w.ctx, op.At(w.scope())))(w.t) }

func (w *world) releaseAll() op.Ask {
	return op.Ask{Op: op.ReleaseAll, Target: w.scope(), Params: op.Params{}}
}

func (w *world) transfer(id, to string) op.Ask {
	return op.Ask{Op: op.ForceTransfer, Target: w.scope(), Params: op.Params{"reservation": id, "to": to}}
}

// request asks for a step that waits.
func (w *world) request(a op.Ask) op.Request {
	j := must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{a}, Reason: "test"}))(w.t)
	require.Equal(w.t, op.StatePending, j.State())
	return must.Get(w.gate.Request(w.ctx, j.Steps[0].ID))(w.t)
}

// signed submits a signature over a request's payload.
func (w *world) signed(r op.Request, k mint.Key, role op.Role) error {
	_, err := w.gate.Approve(w.ctx, hub, r.ID, authz.Envelope{Payload: r.Payload,
		Signatures: []string{mint.Sign(w.owner, k, role.Namespace(), r.Payload).Armored()}})
	return err
}

// permit is a permit for a step that operators approved.
func (w *world) permit(a op.Ask) gate.Permit {
	r := w.request(a)
	require.NoError(w.t, w.signed(r, w.alice, op.Operational))
	return must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
}

// execute runs a permit as the reconciler does, without its other work.
func (w *world) execute(p gate.Permit) error {
	_, err := driver.Run(w.ctx, p, w)
	return err
}

// record ends a step that the driver says is done.
func (w *world) record(p gate.Permit) op.Step {
	o := w.look()
	return must.Get(w.gate.Record(w.ctx, p.Step().ID, gate.Outcome{After: &o}))(w.t)
}
