package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gated/internal/api"
	"gated/internal/authz"
	"gated/internal/fsck"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/store"
)

// How much is measured, and how often.
const (
	loadRuns   = 3
	manyOps    = 8_000 // decided, by 32 clients
	throughOps = 4_000 // through to succeeded, by 32 clients
	singleOps  = 600   // by one client
)

// gateDir makes a directory that a gate can be served from.
func (b *bench) gateDir(name string) (string, error) {
	dir, err := b.dir(name)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "allowed_signers"), []byte(b.key.line()), 0o600)
}

// destroys signs the end of n guests that are alike.
func (b *bench) destroys(n int) ([]signed, error) {
	list, err := populate(alike(n)).List(b.ctx)
	if err != nil {
		return nil, err
	}
	out := make([]signed, 0, n)
	for _, o := range list {
		s, err := b.key.destroy(o, now())
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// destroyRequests are destroys as calls of the socket.
func (b *bench) destroyRequests(n int) ([][]byte, error) {
	all, err := b.destroys(n)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, 0, n)
	for _, s := range all {
		r, err := post("/v1/ops", api.EnvelopeOf(s.payload, s.armor))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

const (
	authorized = `"state":"authorized"`
	succeeded  = `"state":"succeeded"`
	planned    = `"state":"planned"`
)

func (b *bench) signed() error {
	if err := b.calls(); err != nil {
		return err
	}
	inside, err := b.signedInside()
	if err != nil {
		return err
	}
	decided, err := b.loads("signed", manyOps, false, b.destroyRequests, authorized)
	if err != nil {
		return err
	}
	through, err := b.loads("signed-through", throughOps, true, b.destroyRequests, authorized)
	if err != nil {
		return err
	}
	beside := fmt.Sprintf("%s; %.0f %% of the bare store, %.0f %% of the verifications", decided.cost(),
		100*decided.rate/b.limit.commits, 100*decided.rate/b.limit.verifies)
	b.table.add(row{"signed, 32 clients, decided and durable", decided.rate, perSecond, 8000, beside})
	b.table.add(row{"  the same without the socket", inside, perSecond, 0, "calls of the gate in one process"})
	b.table.add(row{"  latency p50 of 32 clients", decided.p50, milliseconds, 0, fmt.Sprintf("p99 %.1f ms", decided.p99)})
	b.table.add(row{"signed, 32 clients, through to succeeded", through.rate, perSecond, 4000, through.cost() + "; fsck finds it sound"})
	if b.limit.script > 0 {
		b.table.add(row{"signed decided, against the script", decided.rate / b.limit.script, times, 15,
			fmt.Sprintf("the script does %.0f/s", b.limit.script)})
	}
	return b.signedSingle()
}

// result is what a load came to. The CPU time of an operation says more than
// its rate where others use the machine too.
type result struct {
	rate, p50, p99    float64
	daemon, generator float64 // microseconds of CPU for one operation
}

func (r result) cost() string {
	return fmt.Sprintf("CPU %.0f µs of the daemon + %.0f µs of the load", r.daemon, r.generator)
}

// loads measures a load some times, each on a gate of its own, and returns the
// medians.
func (b *bench) loads(name string, n int, run bool, make func(int) ([][]byte, error), want string) (result, error) {
	var p50, p99, daemon, generator []float64
	i := 0
	r, err := median(loadRuns, func() (float64, error) {
		i++
		requests, err := make(n)
		if err != nil {
			return 0, err
		}
		one, err := b.loadOnce(fmt.Sprintf("%s-%d", name, i), requests, run, want)
		p50, p99 = append(p50, one.p50), append(p99, one.p99)
		daemon, generator = append(daemon, one.daemon), append(generator, one.generator)
		return one.rate, err
	})
	return result{r, middle(p50), middle(p99), middle(daemon), middle(generator)}, err
}

// loadOnce measures one load. With run, it ends when no step is open any more.
// What the database says afterwards is checked.
func (b *bench) loadOnce(name string, requests [][]byte, run bool, want string) (result, error) {
	dir, err := b.gateDir(name)
	if err != nil {
		return result{}, err
	}
	p, err := b.serving(dir, len(requests), run)
	if err != nil {
		return result{}, err
	}
	ours, theirs := cpuOf("self"), cpuOf(p.pid())
	began := now()
	took, latencies, err := load(p.socket, clients, requests, want)
	if err == nil && run {
		err = noneOpen(b.ctx, dir)
		took = now().Sub(began)
	}
	ours, theirs = cpuOf("self")-ours, cpuOf(p.pid())-theirs
	if err = errors.Join(err, p.stop()); err != nil {
		return result{}, err
	}
	end := op.StateSucceeded
	if !run {
		end = op.StateAuthorized
		if want == planned {
			end = op.StatePlanned
		}
	}
	each := float64(time.Microsecond) * float64(len(requests))
	r := result{rate(len(requests), took), quantile(latencies, 0.5), quantile(latencies, 0.99),
		float64(theirs) / each, float64(ours) / each}
	fmt.Fprintf(b.Progress, "  %s: %.0f/s, %s\n", name, r.rate, r.cost())
	return r, b.sound(dir, end, len(requests))
}

// reading opens a database beside its daemon.
func reading(ctx context.Context, dir string, fn func(*store.Tx) error) error {
	s, err := store.OpenReadOnly(ctx, databaseIn(dir), store.Options{Migrations: gate.Migrations()})
	if err != nil {
		return err
	}
	return errors.Join(s.View(ctx, fn), s.Close())
}

// noneOpen waits until no step is open. The partial index answers at once,
// however many there were.
func noneOpen(ctx context.Context, dir string) error {
	s, err := store.OpenReadOnly(ctx, databaseIn(dir), store.Options{Migrations: gate.Migrations()})
	if err != nil {
		return err
	}
	err = until(ctx, time.Millisecond, func() (none bool, err error) {
		err = s.View(ctx, func(tx *store.Tx) error {
			return tx.QueryRow(`SELECT NOT EXISTS(SELECT 1 FROM steps
				WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))`).Scan(&none)
		})
		return none, err
	})
	return errors.Join(err, s.Close())
}

// sound checks that n steps and no other are in a state, and that fsck finds
// nothing.
func (b *bench) sound(dir string, state op.State, n int) error {
	return reading(b.ctx, dir, func(tx *store.Tx) error {
		var all, there int
		if err := tx.QueryRow(`SELECT count(*), count(CASE WHEN state = ? THEN 1 END) FROM steps`, string(state)).Scan(&all, &there); err != nil {
			return err
		}
		if all != n || there != n {
			return fmt.Errorf("%d of %d steps are %s, not %d", there, all, state, n)
		}
		report, err := fsck.Run(tx)
		if err == nil && !report.Sound {
			err = fmt.Errorf("fsck: %v", report.Problems[0])
		}
		return err
	})
}

// calls measures a call that decides nothing: the socket, HTTP and this client.
func (b *bench) calls() error {
	dir, err := b.gateDir("calls")
	if err != nil {
		return err
	}
	p, err := b.serving(dir, 0, false)
	if err != nil {
		return err
	}
	requests := make([][]byte, 2*manyOps)
	for i := range requests {
		requests[i] = get("/v1/status")
	}
	b.limit.calls, err = median(loadRuns, func() (float64, error) {
		took, _, err := load(p.socket, clients, requests, host)
		return rate(len(requests), took), err
	})
	b.table.add(row{what: "limit: calls that decide nothing, 32 clients", value: b.limit.calls, unit: perSecond, beside: "socket, HTTP and load generator"})
	return errors.Join(err, p.stop())
}

// signedInside is the same load without HTTP.
func (b *bench) signedInside() (float64, error) {
	i := 0
	return median(loadRuns, func() (float64, error) {
		i++
		dir, err := b.gateDir("signed-inside-" + strconv.Itoa(i))
		if err != nil {
			return 0, err
		}
		all, err := b.destroys(manyOps)
		if err != nil {
			return 0, err
		}
		w, err := newWorld(b.ctx, worldOptions{dir: dir, guests: alike(manyOps)})
		if err != nil {
			return 0, err
		}
		r, err := together(len(all), func(k int) error {
			_, err := w.gate.ApproveOffline(b.ctx, op.Requester{Source: op.SourceAPI, UID: 1000, PID: 1},
				authz.Envelope{Payload: all[k].payload, Signatures: []string{all[k].armor}})
			return err
		})
		return r, errors.Join(err, w.store.Close())
	})
}

// together calls work for 0 to n-1 from as many goroutines as there are
// clients, and returns how many a second that was.
func together(n int, work func(int) error) (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, clients)
	began := now()
	for i := range clients {
		wg.Go(func() {
			for k := int(next.Add(1)) - 1; k < n && errs[i] == nil; k = int(next.Add(1)) - 1 {
				errs[i] = work(k)
			}
		})
	}
	wg.Wait()
	return rate(n, now().Sub(began)), errors.Join(errs...)
}
