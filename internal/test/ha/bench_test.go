package ha

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
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

// clients is how many callers a benchmark has at the same time.
const clients = 32

// BenchmarkDecisions has clients approve what waits, with SQLite alone and with a ledger on a synchronous pair of this
// machine, also with the delay of a network. CPU is of this process, without PostgreSQL's.
func BenchmarkDecisions(b *testing.B) {
	for _, c := range []struct {
		name   string
		ledger bool
		delay  time.Duration // of each way between gate and primary
	}{{"SQLite alone", false, 0}, {"ledger", true, 0}, {"ledger 2.4 ms away", true, 1200 * time.Microsecond}} {
		b.Run(c.name, func(b *testing.B) {
			var keeper store.Keeper
			if c.ledger {
				keeper = keeperOn(b, c.delay)
			}
			decide(b, keeper)
		})
	}
}

// keeperOn returns a ledger of a new pair.
func keeperOn(b *testing.B, delay time.Duration) store.Keeper {
	pair := postgres.NewPair(b)
	private, public := must.Two(note.GenerateKey(nil, "gated.bench"))(b)
	s := pg.Settings{Connection: pair.DSN(), Gate: "bench"}
	require.NoError(b, pg.Create(b.Context(), s))
	e := must.Get(pg.Open(b.Context(), s))(b)
	b.Cleanup(func() { require.NoError(b, e.Close()) })
	pair.ToFirst.Delay(delay)
	return ledger.New(ledger.Settings{Engine: e, Gate: s.Gate, Signer: must.Get(note.NewSigner(private))(b), Verifier: must.Get(note.NewVerifier(public))(b)})
}

// decide approves b.N requests.
func decide(b *testing.B, k store.Keeper) {
	o := store.Options{Migrations: gate.Migrations(), Keeper: k}
	if k != nil {
		o.Local = ledger.LocalNames()
	}
	//fsck:none a benchmark
	s := must.Get(store.Open(b.Context(), filepath.Join(b.TempDir(), "gated.db"), o))(b)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	var clock gateworld.Clock
	alice, guests := mint.Ed25519(b, "alice"), memory.New(clock.Now)
	g := gateworld.New(b, s, clock.Read, gate.Config{Observer: guests, Host: "host", Trust: gateworld.Trust(b, gateworld.Line(alice, op.Operational)),
		Logger: slog.New(slog.DiscardHandler)})
	work := make(chan func(), b.N)
	for n := range b.N {
		name := fmt.Sprint("g", n)
		guests.Put(name, nil)
		by := op.Requester{Source: op.SourceAPI, UID: uint32(1000 + n/10)}
		job := must.Get(g.Submit(b.Context(), op.Submission{Requester: by, Steps: []op.Ask{gateworld.Ask("guest.destroy", name)}}))(b)
		r := must.Get(g.Request(b.Context(), op.RequestID(job.Steps[0].ID)))(b)
		e := gateworld.Signed(b, r.Payload, alice)
		work <- func() {
			if _, err := g.Approve(context.Background(), by, r.ID, e); err != nil {
				b.Error(err)
			}
		}
	}
	close(work)
	b.ResetTimer()
	before := cpu(b)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for do := range work {
				do()
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "CPU-µs/decision")
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
