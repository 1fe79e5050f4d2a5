package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
)

// What the last answer to an operation contains.
const (
	authorized = `"state":"authorized"`
	succeeded  = `"state":"succeeded"`
	planned    = `"state":"planned"`
)

// result is what a load cost. The ratio depends least on the machine and on what
// else runs there.
type result struct {
	rate, p50, p99    float64 // operations a second, and milliseconds for one
	tail              float64 // p99 divided by p50
	daemon, generator float64 // microseconds of CPU for one operation
	verify            float64 // microseconds of CPU for one ed25519 verification, before and after the load
	ratio             float64 // daemon divided by verify
}

func (r result) perSecond() float64 { return r.rate }

func (r result) verifications() float64 { return r.ratio }

func (r result) cost() string {
	return fmt.Sprintf("CPU %.0f µs of the daemon + %.0f µs of the load", r.daemon, r.generator)
}

// ratioRow adds the CPU of an operation as a multiple of that of a verification.
func (b *bench) ratioRow(what string, r result, budget float64) {
	b.addf(what, r.ratio, plain, budget, "%.0f/s; %s, %.0f µs for a verification; p50 %.2f ms, p99 %.2f ms",
		r.rate, r.cost(), r.verify, r.p50, r.p99)
}

type results []result

// of is the median of one figure.
func (rs results) of(figure func(result) float64) float64 {
	var values []float64
	for _, r := range rs {
		values = append(values, figure(r))
	}
	return middle(values)
}

// middle has the median of each figure.
func (rs results) middle() result {
	return result{
		rate:      rs.of(result.perSecond),
		p50:       rs.of(func(r result) float64 { return r.p50 }),
		p99:       rs.of(func(r result) float64 { return r.p99 }),
		tail:      rs.of(func(r result) float64 { return r.tail }),
		daemon:    rs.of(func(r result) float64 { return r.daemon }),
		generator: rs.of(func(r result) float64 { return r.generator }),
		verify:    rs.of(func(r result) float64 { return r.verify }),
		ratio:     rs.of(result.verifications),
	}
}

// costing measures what a load costs this process and the daemon. The load returns
// the time for all its operations and that for each, in milliseconds. Verifications
// are measured before and after it, because the speed of a machine changes.
func (b *bench) costing(p *process, load func() (time.Duration, []float64, error)) (result, error) {
	_, before, err := verifications(b.size.limitTime / 5)
	if err != nil {
		return result{}, err
	}
	ours, theirs := cpuOf("self"), cpuOf(p.pid())
	took, each, err := load()
	if err != nil {
		return result{}, err
	}
	ours, theirs = cpuOf("self")-ours, cpuOf(p.pid())-theirs
	_, after, err := verifications(b.size.limitTime / 5)
	n := len(each)
	r := result{rate: rate(n, took), p50: quantile(each, 0.5), p99: quantile(each, 0.99), verify: (before + after) / 2,
		daemon: inMicros(theirs) / float64(n), generator: inMicros(ours) / float64(n)}
	r.tail, r.ratio = r.p99/r.p50, r.daemon/r.verify
	return r, err
}

// trial is a load and the gate that receives it.
type trial struct {
	name      string
	ops       []exchange
	want      string   // in the last answer to each operation
	end       op.State // of every step afterwards; if it is succeeded, the gate runs the steps
	threshold int      // of people; 0 for the built-in rule
}

func (t trial) run() bool { return t.end == op.StateSucceeded }

// loads measures a trial some times, each on a gate of its own, and returns the
// medians.
func (b *bench) loads(t trial) (result, error) {
	var all results
	name := t.name
	for i := range b.size.runs {
		t.name = fmt.Sprintf("%s-%d", name, i+1)
		one, err := b.loadOnce(t)
		if err != nil {
			return result{}, err
		}
		all = append(all, one)
	}
	return all.middle(), nil
}

// loadOnce measures a trial once, and checks what the database says afterwards.
func (b *bench) loadOnce(t trial) (r result, err error) {
	s := Served{Guests: len(t.ops), Run: t.run(), Threshold: t.threshold}
	dir, err := b.onGate(t.name, s, func(p *process, dir string) (err error) {
		r, err = b.costing(p, func() (time.Duration, []float64, error) {
			began := now()
			took, each, err := load(p.socket, clients, t.ops, t.want)
			if err == nil && t.run() {
				err = noneOpen(b.ctx, dir)
				took = now().Sub(began)
			}
			return took, each, err
		})
		return err
	})
	if err != nil {
		return result{}, err
	}
	fmt.Fprintf(b.Progress, "  %s: %.2f × a verification, %.0f/s, %s\n", t.name, r.ratio, r.rate, r.cost())
	return r, b.ended(dir, t.end, len(t.ops))
}

// inside measures n calls of a gate in this process, without HTTP. It returns how
// many a second has, and what one of the last run allocated. All steps are in the
// state end afterwards.
func (b *bench) inside(name string, n int, end op.State,
	call func(g *gate.Gate, k int) error) (perSecond float64, allocated allocation, err error) {
	run := 0
	perSecond, err = median(b.size.runs, func() (float64, error) {
		run++
		dir, err := b.gateDir(fmt.Sprintf("%s-inside-%d", name, run))
		if err != nil {
			return 0, err
		}
		w, err := newWorld(b.ctx, worldOptions{dir: dir, guests: alike(n)})
		if err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took, _, err := share(clients, n, func(_, k int) error { return call(w.gate, k) })
		runtime.ReadMemStats(&after)
		allocated = allocation{float64(after.Mallocs-before.Mallocs) / float64(n),
			float64(after.TotalAlloc-before.TotalAlloc) / float64(n) / 1024}
		if err = errors.Join(err, w.store.Close()); err != nil {
			return 0, err
		}
		return rate(n, took), b.ended(dir, end, n)
	})
	return perSecond, allocated, err
}

// allocation is what one operation has from Go's heap. SQLite's memory is apart.
type allocation struct{ pieces, kib float64 }

// What a decision allocated on 2026-11-23.
var signedThen, benignThen = allocation{547, 31.8}, allocation{322, 15.2}

// allocationRows add what an operation allocates. The budget is 40 % of what it was on
// 2026-11-23.
func (b *bench) allocationRows(now, then allocation) {
	b.addf("  allocations for one", now.pieces, pieces, 0.4*then.pieces, "%.0f on 2026-11-23", then.pieces)
	b.addf("  allocated for one", now.kib, kibibytes, 0.4*then.kib, "%.1f KiB on 2026-11-23", then.kib)
}

// reading runs fn on a database, beside its daemon.
func reading(ctx context.Context, dir string, fn func(*store.Tx) error) error {
	s, err := store.OpenReadOnly(ctx, databaseIn(dir), store.Options{Migrations: gate.Migrations()})
	if err != nil {
		return err
	}
	return errors.Join(s.View(ctx, fn), s.Close())
}

// noneOpen waits until no step is open.
func noneOpen(ctx context.Context, dir string) error {
	s, err := store.OpenReadOnly(ctx, databaseIn(dir), store.Options{Migrations: gate.Migrations()})
	if err != nil {
		return err
	}
	err = until(ctx, time.Millisecond, func() (none bool, err error) {
		err = s.View(ctx, func(tx *store.Tx) error { none, err = allSettled(tx); return err })
		return none, err
	})
	return errors.Join(err, s.Close())
}

// allSettled reports whether no step is open. The partial index answers at once,
// however many steps there were.
func allSettled(tx *store.Tx) (yes bool, err error) {
	err = tx.QueryRow(`SELECT NOT EXISTS(SELECT 1 FROM steps
		WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))`).Scan(&yes)
	return yes, err
}

// ended checks that there are n steps, all of them in a state, and that fsck finds
// no problem.
func (b *bench) ended(dir string, state op.State, n int) error {
	err := reading(b.ctx, dir, func(tx *store.Tx) error {
		var all, there int
		err := tx.QueryRow(`SELECT count(*), count(CASE WHEN state = ? THEN 1 END) FROM steps`, string(state)).
			Scan(&all, &there)
		if err == nil && (all != n || there != n) {
			err = fmt.Errorf("%d of %d steps are %s, not %d", there, all, state, n)
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.sound(dir)
}

// sound is an error if fsck finds a problem in a gate's database.
func (b *bench) sound(dir string) error {
	return reading(b.ctx, dir, func(tx *store.Tx) error {
		report, err := fsck.Run(tx)
		if err == nil && !report.Sound {
			err = fmt.Errorf("fsck: %v", report.Problems[0])
		}
		return err
	})
}
