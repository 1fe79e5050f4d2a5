package ha

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver/memory"
	"gated/internal/gate"
	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// clients is how many callers decide at the same time.
const clients = 32

// roundTrip is the network between a gate and a primary that is in another data centre of the same town.
const roundTrip = 2400 * time.Microsecond

// TestRates measures what a ledger costs, for make bench. SQLite alone and the ledger take turns, because the speed of a
// machine changes.
func TestRates(t *testing.T) {
	postgres.Need(t)
	size := sizes(t)
	first := postgres.Primary(t)
	second := first.Standby(t, "second", first.Port)
	first.Set(t, "synchronous_standby_names", "second")
	first.Synchronous(t)
	near := postgres.DSN(first.Port, second.Port)
	way := postgres.NewProxy(t, first.Port)
	way.Delay(roundTrip / 2)

	var rates, cpus []float64
	var local, far []cost
	for n := range size.rounds {
		alone := decide(t, size.decisions, nil)
		c := decide(t, size.decisions, newLedger(t, near, fmt.Sprint("near", n)), first, second)
		rates, cpus, local = append(rates, c.rate/alone.rate), append(cpus, c.cpu/alone.cpu), append(local, c)
		far = append(far, decide(t, size.decisions, newLedger(t, postgres.DSN(way.Port), fmt.Sprint("far", n)), first, second))
	}
	figure(t, "rate", median(rates), "")
	figure(t, "CPU", median(cpus), "")
	rate := func(c cost) float64 { return c.rate }
	figure(t, "rate with a local pair", median(each(local, rate)), "/s")
	figure(t, "CPU with a local pair", median(each(local, func(c cost) float64 { return c.cpu })), "µs")
	figure(t, "CPU of the servers", median(each(local, func(c cost) float64 { return c.servers })), "µs")
	figure(t, "rate at 2.4 ms", median(each(far, rate)), "/s")
	figure(t, "replay", replay(t, near), "/s")
}

// size is how much is measured.
type size struct{ decisions, rounds int }

// cost is what decisions cost: decisions/s, and for one µs of CPU, of which some are the servers'.
type cost struct{ rate, cpu, servers float64 }

func each(cs []cost, of func(cost) float64) (out []float64) {
	for _, c := range cs {
		out = append(out, of(c))
	}
	return out
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// keys are a gate's.
type keys struct {
	signer   note.Signer
	verifier note.Verifier
}

// gateKeys are those of every ledger here.
var gateKeys = sync.OnceValue(func() keys {
	private, public, err := note.GenerateKey(nil, "gated.bench")
	if err != nil {
		panic(err)
	}
	signer, _ := note.NewSigner(private)
	verifier, _ := note.NewVerifier(public)
	return keys{signer, verifier}
})

// newLedger makes the ledger of a gate.
func newLedger(t *testing.T, dsn, gate string) store.Keeper {
	require.NoError(t, pg.Create(t.Context(), pg.Settings{Connection: dsn, Gate: gate}))
	return keeper(t, dsn, gate)
}

func keeper(t *testing.T, dsn, gate string) store.Keeper {
	e := must.Get(pg.Open(t.Context(), pg.Settings{Connection: dsn, Gate: gate}))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return ledger.New(ledger.Settings{Engine: e, Gate: gate, Signer: gateKeys().signer, Verifier: gateKeys().verifier})
}

// open opens a new database, with a ledger if k is not nil.
func open(t *testing.T, k store.Keeper) *store.Store {
	o := store.Options{Migrations: gate.Migrations(), Keeper: k}
	if k != nil {
		o.Local = ledger.LocalNames()
	}
	//fsck:none what is measured here is checked elsewhere
	s := must.Get(store.Open(t.Context(), filepath.Join(t.TempDir(), "gated.db"), o))(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// decide makes requests and has the clients approve them. The CPU of the servers counts.
func decide(t *testing.T, n int, k store.Keeper, servers ...*postgres.Cluster) cost {
	s := open(t, k)
	var clock gateworld.Clock
	alice, guests := mint.Ed25519(t, "alice"), memory.New(clock.Now)
	g := gateworld.New(t, s, clock.Read, gate.Config{Observer: guests, Host: "host", Trust: gateworld.Trust(t, gateworld.Line(alice, op.Operational)),
		Logger: slog.New(slog.DiscardHandler)})
	work := make(chan func() error, n)
	for i := range n {
		guests.Put(fmt.Sprint("g", i), nil)
		work <- func() error {
			_, err := g.Submit(context.Background(), op.Submission{Requester: requester(i), Steps: []op.Ask{gateworld.Ask("guest.destroy", fmt.Sprint("g", i))}})
			return err
		}
	}
	all(t, work)
	work = make(chan func() error, n)
	for _, r := range must.Get(g.Requests(t.Context(), op.StatePending))(t) {
		e := gateworld.Signed(t, r.Payload, alice)
		work <- func() error {
			_, err := g.Approve(context.Background(), requester(0), r.ID, e)
			return err
		}
	}
	require.Len(t, work, n)
	before, theirs, began := used(t), usedBy(t, servers), time.Now()
	all(t, work)
	took := time.Since(began)
	ours := used(t) - before
	theirs = usedBy(t, servers) - theirs
	one := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return cost{float64(n) / took.Seconds(), one(ours + theirs), one(theirs)}
}

// requester asks for the i-th request. One requester may not have too many that wait.
func requester(i int) op.Requester {
	return op.Requester{Source: op.SourceAPI, UID: uint32(1000 + i/10)}
}

// all has the clients do the work.
func all(t *testing.T, work chan func() error) {
	close(work)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for do := range work {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// used is the CPU of this process.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// usedBy is the CPU of servers.
func usedBy(t *testing.T, servers []*postgres.Cluster) (sum time.Duration) {
	for _, c := range servers {
		sum += c.CPU(t)
	}
	return sum
}

// replay makes a database of the ledger that decide left, and returns how many decisions it replays in a second: of each
// request, that it waits and that it may run.
func replay(t *testing.T, dsn string) float64 {
	k := keeper(t, dsn, "near0")
	began := time.Now()
	s := open(t, k)
	took := time.Since(began)
	var n int
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM requests").Scan(&n)
	}))
	require.Equal(t, sizes(t).decisions, n)
	return 2 * float64(n) / took.Seconds()
}
