package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	back "gated/internal/driver/memory"
	"gated/internal/gate"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// member is a gate on one machine, with a ledger below its store.
type member struct {
	path   string
	engine *memory.Member
	store  *store.Store
	gate   *gate.Gate
}

// world is one ledger, and the members that were active one after the other.
type world struct {
	t      testing.TB
	ledger *memory.Ledger
	clock  *gateworld.Clock
	guests *back.Driver
	alice  mint.Key
	now    *member
	signed map[string]int // what operators signed, and the gate accepted: "approve", "reject"
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ledger: memory.New(), clock: &gateworld.Clock{}, alice: mint.Ed25519(t, "alice"), signed: map[string]int{}}
	w.guests = back.New(w.clock.Now)
	w.now = w.start(filepath.Join(t.TempDir(), "gated.db"))
	return w
}

// start makes the database at path that of the active daemon.
func (w *world) start(path string) *member {
	m := &member{path: path, engine: w.ledger.Member()}
	//fsck:none the test replays the ledger and compares all tables
	m.store = must.Get(store.Open(w.t.Context(), path, store.Options{Migrations: gate.Migrations(),
		Keeper: ledgertest.Keeper(m.engine), Local: ledger.LocalNames()}))(w.t)
	w.t.Cleanup(func() { _ = m.store.Close() })
	trust := gateworld.Trust(w.t, gateworld.Line(w.alice, op.Operational))
	m.gate = gateworld.New(w.t, m.store, w.clock.Read, gate.Config{Observer: w.guests, Host: "host", Trust: trust,
		Logger: slog.New(slog.DiscardHandler)})
	return m
}

// join makes a standby of what the ledger has.
func (w *world) join() *store.Store {
	//fsck:none the test compares all tables
	s := must.Get(store.Open(w.t.Context(), filepath.Join(w.t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations(),
		Keeper: follower(w.ledger.Member()), Follows: true, Local: ledger.LocalNames()}))(w.t)
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

var uid = op.Requester{Source: op.SourceAPI, UID: 1000}

// other asks seldom, so that each of its refusals has an entry of its own.
var other = op.Requester{Source: op.SourceAPI, UID: 1001}

// step does one thing that a gate does. An error is a refusal, or the ledger was in the way.
func (w *world) step(what string, guest string) (err error) {
	ctx, g := w.t.Context(), w.now.gate
	switch what {
	case "submit":
		for _, name := range []string{"guest.create", "guest.set-config", "guest.destroy"} {
			_, e := g.Submit(ctx, op.Submission{Requester: uid, Steps: []op.Ask{gateworld.Ask(name, guest)}})
			err = errors.Join(err, e)
		}
		return err
	case "run":
		return w.run(guest)
	case "approve", "reject":
		requests, err := g.Requests(ctx, op.StatePending)
		if err != nil || len(requests) == 0 {
			return err
		}
		r := requests[0]
		if what == "approve" {
			_, err = g.Approve(ctx, uid, r.ID, gateworld.Signed(w.t, r.Payload, w.alice))
		} else {
			_, err = g.Reject(ctx, uid, r.ID, gateworld.Rejection(w.t, g, r, w.clock.Now(), w.alice))
		}
		if err == nil {
			w.signed[what]++
		}
		return err
	case "cancel":
		jobs, err := g.Jobs(ctx, gate.JobFilter{Limit: 1})
		if err != nil || len(jobs) == 0 {
			return err
		}
		_, err = g.Cancel(ctx, uid, jobs[0].ID)
		return err
	case "set":
		_, err := g.PutSet(ctx, uid, guest, "", []byte("a\x00b\xff"))
		return err
	case "unset":
		return g.DeleteSet(ctx, uid, guest)
	default:
		w.clock.Pass(time.Hour)
		return g.Tick(ctx)
	}
}

// run runs what may run on a guest.
func (w *world) run(guest string) error {
	ctx, g := w.t.Context(), w.now.gate
	id, ok, err := g.Runnable(ctx, gateworld.Guest(guest))
	if err != nil || !ok {
		return err
	}
	p, err := g.Permit(ctx, id)
	if err != nil {
		return err
	}
	_, err = driver.Run(ctx, p, w.guests)
	out := gate.Outcome{Err: err}
	if err == nil {
		after, err := w.guests.Observe(ctx, op.At(gateworld.Guest(guest)))
		if err != nil {
			return err
		}
		out.After = &after
	}
	_, err = g.Record(ctx, id, out)
	return err
}

// TestRandomDecisionsAreReplayed has a gate decide, with faults of the ledger, restarts, bases, and other machines that
// take over and join. At the end each member that goes on has the same rows, and an empty store, into which the ledger is
// replayed, has the same tables.
func TestRandomDecisionsAreReplayed(t *testing.T) {
	groups, bases, followed, signed := 0, 0, 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		var joined []*store.Store
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 11).Draw(rt, "event") {
			case 0:
				w.now.engine.Order(rapid.SampledFrom([]memory.Fault{memory.Lost, memory.InDoubt, memory.InDoubtKept, memory.LateKept}).Draw(rt, "fault"))
			case 1:
				w.now.engine.Order(memory.InDoubtKept, memory.Away, memory.Away, memory.Away) // Settle asks three times
				_, err := w.now.gate.PutSet(t.Context(), uid, "doubt", "", []byte("x"))
				require.Error(rt, err)
				require.NoError(rt, w.now.store.Close())
				w.now = w.start(w.now.path)
			case 2:
				require.NoError(rt, w.now.store.Close())
				w.now = w.start(w.now.path)
			case 3:
				was := w.now
				w.now = w.start(filepath.Join(t.TempDir(), "gated.db"))
				require.ErrorIs(rt, was.gate.DeleteSet(t.Context(), other, "none"), refusal.Unavailable, "a refusal is in the log, too")
				_, err := was.gate.PutSet(t.Context(), uid, "old", "", []byte("x"))
				require.ErrorIs(rt, err, refusal.Unavailable, "another took over")
				require.NoError(rt, was.store.Close())
			case 4:
				m := w.ledger.Member()
				m.Order(rapid.SampledFrom([]memory.Fault{memory.None, memory.None, memory.Lost, memory.InDoubt, memory.InDoubtKept}).Draw(rt, "fault"))
				if _, n, err := ledger.Compact(t.Context(), settingsOf(m), imageOf(t, w.now.path, gate.Migrations())); err == nil && n > 0 {
					bases++
				}
			case 5:
				if must.Get(w.ledger.Member().Position(t.Context()))(t).Last > 0 { // there is no gate before
					joined = append(joined, w.join())
				}
			}
			what := rapid.SampledFrom([]string{"submit", "run", "run", "approve", "reject", "cancel", "set", "unset", "tick"}).Draw(rt, "what")
			guest := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "guest")
			if err := w.step(what, guest); err != nil {
				var refused *refusal.Refusal
				require.ErrorAs(rt, err, &refused, fmt.Sprint(what, " ", guest))
			}
		}
		require.NoError(rt, w.now.store.Close())
		w.now = w.start(w.now.path) // what is in doubt is known at the start
		require.NoError(rt, w.now.store.Close())
		require.NoError(rt, ledgertest.Compare(t.Context(), w.ledger.Member(), w.now.path, gate.Migrations()))
		want := imageOf(t, w.now.path, gate.Migrations())
		for _, s := range joined {
			if _, err := s.Follow(t.Context()); errors.Is(err, ledger.ErrBehind) {
				continue
			} else {
				require.NoError(rt, err)
			}
			have := imageOf(t, s.Path(), gate.Migrations())
			require.Equal(rt, want.Place, have.Place)
			require.True(rt, bytes.Equal(want.Changes, have.Changes), "a member has other rows")
			followed++
		}
		groups += int(want.Number)
		for what, n := range w.signed {
			signed[what] += n
		}
	})
	require.Greater(t, groups, 100, "gates that decided nothing show nothing")
	require.Greater(t, bases, 5)
	require.Greater(t, followed, 5)
	require.Positive(t, signed["approve"], "a log without signatures shows nothing of them")
	require.Positive(t, signed["reject"])
	t.Logf("%d groups, %d bases, %d members followed, %v", groups, bases, followed, signed)
}
