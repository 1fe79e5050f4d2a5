package linear

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	_ "gated/internal/host/fsck/book"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/audit"
)

// histories makes a longer run: go test ./internal/test/linear -histories 1000
var histories = flag.Int("histories", 8, "how many histories of the real book are told")

// registrations stands for the daemon's table of agents: a registration ends in
// the transaction that ends what is bound to it.
const registrations = `CREATE TABLE registrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE) STRICT;`

var schema = []store.Migration{{Version: 1, Name: "all", SQL: audit.Schema + audit.SchemaTree + reserve.Schema + reserve.SchemaMembers + registrations}}

// host is the real book on a real database, with a clock that goes on with what
// is done.
type host struct {
	t     *testing.T
	path  string
	clock *ticking
	root  string

	mu    sync.RWMutex // held for writing while it is started again
	store *store.Store
	book  *reserve.Book
	wg    sync.WaitGroup
	stop  context.CancelFunc

	of *keeping // what is below the store of a member; nil for a gate of one host
}

func newHost(t *testing.T, clock *ticking) *host {
	h := &host{t: t, path: filepath.Join(t.TempDir(), "gated.db"), clock: clock, root: "/srv/repo"}
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *host) open() {
	o := store.Options{Migrations: schema}
	if h.of == nil {
		h.store = fscktest.Open(h.t, h.path, o)
	} else {
		h.store = h.of.open(h.t, h.path, o)
	}
	h.store.OnGroup(audit.Seal)
	var mayAct func() error
	if h.of != nil {
		mayAct = h.of.mayAct
	}
	h.book = reserve.New(reserve.Config{Store: h.store, Now: h.clock.now, Agent: h.agent, MayAct: mayAct,
		Append: func(tx *store.Tx, entries ...audit.Entry) error {
			for i := range entries {
				entries[i].Time = h.clock.now()
			}
			_, err := audit.Append(tx, entries...)
			return err
		},
		Registered: func(tx *store.Tx, r reserve.Holder) (ok bool, err error) {
			err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM registrations WHERE id = ? AND name = ?)`, r.Registration, r.Name).Scan(&ok)
			return ok, err
		}})
	require.NoError(h.t, h.book.Sweep(context.Background()))
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.wg.Go(func() { _ = h.book.Run(ctx) })
}

func (h *host) close() {
	h.stop()
	h.wg.Wait()
	require.NoError(h.t, h.store.Close())
}

// again starts it again while others call: what they asked meanwhile is not
// answered by the old one any more.
func (h *host) again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.close()
	h.open()
}

func (h *host) agent(name string) (r reserve.Holder, ok bool) {
	err := h.store.View(context.Background(), func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT id, name FROM registrations WHERE name = ?`, name).Scan(&r.Registration, &r.Name)
	})
	return r, err == nil
}

func (h *host) place(scope int) reserve.Place {
	return reserve.Place{Path: filepath.Join(h.root, Scopes[scope]), Device: 1, Inode: uint64(2 + scope)}
}

// Do asks the book.
func (h *host) Do(c Call) Answer {
	h.mu.RLock()
	defer h.mu.RUnlock()
	ctx := context.Background()
	by := op.Requester{Source: op.SourceAPI, UID: 0, PID: 7}
	if r, ok := h.agent(c.Agent); ok {
		by.Agent = fmt.Sprintf("%s#%d", r.Name, r.Registration)
	}
	id, _ := op.ParseReservationID(c.ID)
	mode := reserve.Exclusive
	if c.Shared {
		mode = reserve.Shared
	}
	switch c.Kind {
	case Register:
		return h.answer(h.store.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.Exec(`INSERT INTO registrations(name) VALUES(?)`, c.Agent)
			return err
		}))
	case End:
		return h.end(ctx, c.Agent)
	case Reserve:
		g, in, err := h.book.Reserve(ctx, reserve.Claim{By: by, Place: h.place(c.Set.Scope()), Patterns: c.Set.Patterns(), Mode: mode,
			TTL: c.TTL, Keep: c.Keep, Wait: c.Wait})
		if err != nil {
			return h.conflicts(in, false, err)
		}
		a := h.answer(nil, g.Reservation)
		a.Renewed = g.Renewed
		return a
	case Check:
		return h.conflicts(h.book.Check(ctx, by, h.place(c.Set.Scope()), c.Set.Patterns(), mode))
	case List:
		all, err := h.book.List(ctx, reserve.Query{Limit: reserve.MaxList})
		return h.answer(err, all...)
	case Renew:
		r, err := h.book.Renew(ctx, by, id, c.TTL)
		return h.answer(err, r)
	case Release:
		r, err := h.book.Release(ctx, by, id)
		return h.answer(err, r)
	default:
		r, err := h.book.Transfer(ctx, by, id, c.To)
		return h.answer(err, r)
	}
}

func (h *host) end(ctx context.Context, name string) Answer {
	r, ok := h.agent(name)
	if !ok { // a member that was taken over may not know it
		return Answer{Refused: refusal.NotHolder}
	}
	var after func()
	err := h.store.Update(ctx, func(tx *store.Tx) (err error) {
		if _, err = tx.Exec(`DELETE FROM registrations WHERE id = ?`, r.Registration); err == nil {
			after, err = h.book.EndOf(tx, r)
		}
		return err
	})
	if err == nil {
		after()
	}
	return h.answer(err)
}

func (h *host) conflicts(in []reserve.Conflict, more bool, err error) Answer {
	a := h.answer(err)
	for _, c := range in {
		a.Held = append(a.Held, h.held(c.Reservation))
	}
	a.More = more
	return a
}

func (h *host) answer(err error, all ...reserve.Reservation) (a Answer) {
	if h.of != nil && (errors.Is(err, store.ErrUnavailable) || errors.Is(err, refusal.Unavailable)) {
		return h.of.unavailable()
	}
	if err != nil {
		var r *refusal.Refusal
		if !errors.As(err, &r) && h.of == nil { // a member that was taken over may not know who is registered
			h.t.Errorf("no refusal: %v", err)
		}
		return Answer{Refused: refusal.CodeOf(err)}
	}
	for _, r := range all {
		a.Held = append(a.Held, h.held(r))
	}
	return a
}

func (h *host) held(r reserve.Reservation) Held {
	set, ok := SetOf(ScopeOf(h.root, r.Scope.Path), r.Patterns)
	if !ok {
		h.t.Errorf("%v was never asked for: %s %v", r.ID, r.Scope.Path, r.Patterns)
	}
	return Held{ID: r.ID.String(), Agent: r.Holder.Name, Set: set, Shared: r.Mode == reserve.Shared, Keep: r.Keep, Expires: r.ExpiresAt}
}

// sound reads the tables themselves.
func (h *host) sound() {
	require.NoError(h.t, h.store.View(context.Background(), func(tx *store.Tx) error {
		problems, err := reserve.Verify(tx, h.clock.now())
		require.Empty(h.t, problems)
		return err
	}))
}

// TestTheBookIsLinearizable has eight callers reserve, renew, release, transfer,
// check, list and end at once, while time passes and reservations expire, and
// looks for an order in which all of it could have been answered.
func TestTheBookIsLinearizable(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(*histories) {
		clock := newTicking(seed)
		book := newHost(t, clock)
		h := &History{Gate: book, Now: clock.now}
		traffic := clock.traffic(seed, 8, 20)
		if seed%3 == 2 {
			traffic.Waits = 5 * time.Millisecond
		}
		var wg sync.WaitGroup
		wg.Go(func() { traffic.Run(h) })
		if seed%2 == 1 { // it is started again in between
			for range 3 {
				<-clock.ticks
				book.again()
			}
		}
		wg.Wait()
		h.ordered(t, seed)
		book.sound()
		h.tally(seen)
	}
	for _, what := range []string{"reserve ok", "reserve conflict", "reserve renewed", "renew ok", "renew unknown_target", "release ok",
		"release unknown_target", "release not_holder", "transfer ok", "transfer unknown_target", "check ok", "list ok", "end ok"} {
		require.Positive(t, seen[what], "%s: %v", what, seen)
	}
	t.Log(seen)
}

// tally counts what was asked, by how it was answered.
func (h *History) tally(seen map[string]int) {
	for _, o := range h.Ops() {
		answer := "ok"
		switch {
		case o.Lost:
			answer = "lost"
		case o.Refused != "":
			answer = string(o.Refused)
		case o.Renewed:
			answer = "renewed"
		}
		seen[string(o.Kind)+" "+answer]++
	}
}
