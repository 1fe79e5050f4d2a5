package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	return dir, os.WriteFile(filepath.Join(dir, "allowed_signers"), b.keys.lines(), 0o600)
}

// destroys are the ends of n guests that are alike, each signed by all of by.
func (b *bench) destroys(n int, by ...key) ([]signed, error) {
	list, err := populate(alike(n)).List(b.ctx)
	if err != nil {
		return nil, err
	}
	out := make([]signed, 0, n)
	for _, o := range list {
		s, err := destroy(o, now(), by...)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// destroyRequests are destroys as calls of the socket: one for each, or one for
// each signature.
func (b *bench) destroyRequests(n int, apart bool, by ...key) ([]exchange, error) {
	all, err := b.destroys(n, by...)
	if err != nil {
		return nil, err
	}
	out := make([]exchange, 0, n)
	for _, s := range all {
		envelopes := [][]string{s.armors}
		if apart {
			envelopes = slices.Collect(slices.Chunk(s.armors, 1))
		}
		var e exchange
		for _, armors := range envelopes {
			r, err := post("/v1/ops", api.EnvelopeOf(s.payload, armors...))
			if err != nil {
				return nil, err
			}
			e = append(e, r)
		}
		out = append(out, e)
	}
	return out, nil
}

// plainRequests are destroys by one plain key.
func (b *bench) plainRequests(n int) ([]exchange, error) {
	return b.destroyRequests(n, false, b.keys.plain)
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
	decided, err := b.loads("signed", manyOps, false, b.plainRequests, authorized)
	if err != nil {
		return err
	}
	through, err := b.loads("signed-through", throughOps, true, b.plainRequests, authorized)
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

// trial is a load and the gate that it is sent to.
type trial struct {
	name      string
	ops       []exchange
	run       bool   // until no step is open any more
	threshold int    // of people; 0 for the built-in rule
	want      string // in the last answer to each
}

// loads measures a load some times, each on a gate of its own, and returns the
// medians.
func (b *bench) loads(name string, n int, run bool, make func(int) ([]exchange, error), want string) (result, error) {
	var all results
	for i := range loadRuns {
		ops, err := make(n)
		if err != nil {
			return result{}, err
		}
		one, err := b.loadOnce(trial{name: fmt.Sprintf("%s-%d", name, i+1), ops: ops, run: run, want: want})
		if err != nil {
			return result{}, err
		}
		all = append(all, one)
	}
	return all.middle(), nil
}

type results []result

// middle has the median of each figure.
func (rs results) middle() result {
	of := func(figure func(result) float64) float64 {
		var values []float64
		for _, r := range rs {
			values = append(values, figure(r))
		}
		return middle(values)
	}
	return result{of(func(r result) float64 { return r.rate }), of(func(r result) float64 { return r.p50 }),
		of(func(r result) float64 { return r.p99 }), of(func(r result) float64 { return r.daemon }),
		of(func(r result) float64 { return r.generator })}
}

// loadOnce measures one load. What the database says afterwards is checked.
func (b *bench) loadOnce(t trial) (result, error) {
	dir, err := b.gateDir(t.name)
	if err != nil {
		return result{}, err
	}
	p, err := b.serving(Served{Dir: dir, Guests: len(t.ops), Run: t.run, Threshold: t.threshold})
	if err != nil {
		return result{}, err
	}
	ours, theirs := cpuOf("self"), cpuOf(p.pid())
	began := now()
	took, latencies, err := load(p.socket, clients, t.ops, t.want)
	if err == nil && t.run {
		err = noneOpen(b.ctx, dir)
		took = now().Sub(began)
	}
	ours, theirs = cpuOf("self")-ours, cpuOf(p.pid())-theirs
	if err = errors.Join(err, p.stop()); err != nil {
		return result{}, err
	}
	end := op.StateSucceeded
	if !t.run {
		end = op.StateAuthorized
		if t.want == planned {
			end = op.StatePlanned
		}
	}
	each := float64(time.Microsecond) * float64(len(t.ops))
	r := result{rate(len(t.ops), took), quantile(latencies, 0.5), quantile(latencies, 0.99),
		float64(theirs) / each, float64(ours) / each}
	fmt.Fprintf(b.Progress, "  %s: %.0f/s, %s\n", t.name, r.rate, r.cost())
	return r, b.sound(dir, end, len(t.ops))
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
	p, err := b.serving(Served{Dir: dir})
	if err != nil {
		return err
	}
	requests := make([]exchange, 2*manyOps)
	for i := range requests {
		requests[i] = exchange{get("/v1/status")}
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
		all, err := b.destroys(manyOps, b.keys.plain)
		if err != nil {
			return 0, err
		}
		w, err := newWorld(b.ctx, worldOptions{dir: dir, guests: alike(manyOps)})
		if err != nil {
			return 0, err
		}
		r, err := together(len(all), func(k int) error {
			_, err := w.gate.ApproveOffline(b.ctx, op.Requester{Source: op.SourceAPI, UID: 1000, PID: 1},
				authz.Envelope{Payload: all[k].payload, Signatures: all[k].armors})
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
