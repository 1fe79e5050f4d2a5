package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"gated/internal/reconcile"
	"gated/internal/wire/desired"
)

// roundInterval keeps rounds from beginning by themselves: they are triggered.
const roundInterval = 1000 * time.Hour

// fixed is a source of parsed documents.
type fixed []*reconcile.SetDoc

// Name returns "fixed".
func (fixed) Name() string { return "fixed" }

// Read returns the documents.
func (f fixed) Read(context.Context) ([]*reconcile.SetDoc, error) { return f, nil }

// document asks for n guests, the same as alike makes.
func document(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: gated/v1\nhost: %s\nguests:\n", host)
	for i := range n {
		fmt.Fprintf(&b, "  - name: %s\n    state: stopped\n    memory: 512MiB\n    cpus: 2\n    labels: {tier: prod}\n",
			guestName(i))
	}
	return b.Bytes()
}

// trigger starts rounds. Reconcile asks for its interval before each round and
// after it, so the trigger knows when a round is over.
type trigger chan func()

func (t trigger) after(d time.Duration, f func()) func() {
	if d == roundInterval {
		t <- f
		return func() {}
	}
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// next waits until reconcile is between rounds, and returns what starts one.
func (t trigger) next(ctx context.Context) (func(), error) {
	return receive(ctx, t)
}

// reconcile measures rounds that find nothing to do.
func (b *bench) reconcile() error {
	n := b.size.guests
	text := document(n)
	parsing, err := median(b.size.runs, func() (float64, error) {
		began := now()
		_, err := desired.Parse("bench", text)
		return inMillis(now().Sub(began)), err
	})
	if err != nil {
		return err
	}
	took, grew, err := b.noChange(n)
	if err != nil {
		return err
	}
	double, _, err := b.noChange(2 * n)
	if err != nil {
		return err
	}
	b.addf(fmt.Sprintf("no-change round, %d guests", n), took, milliseconds, 30,
		"%d guests take %.1f × as long", 2*n, double/took)
	b.addf("  allocated in that round", grew, mebibytes, 64, "")
	b.addf("  parsing their document, apart", parsing, milliseconds, 0, "%d KiB, once for each change", len(text)>>10)
	return nil
}

// noChange measures rounds that find every guest as the document has it. It returns
// the milliseconds of a round and the MiB that a round allocates.
func (b *bench) noChange(n int) (took, grew float64, err error) {
	doc, err := desired.Parse("bench", document(n))
	if err != nil {
		return 0, 0, err
	}
	t := make(trigger)
	w, end, err := b.running("round-"+strconv.Itoa(n), n, fixed{{Set: "all", Doc: doc, Digest: "1"}}, t)
	if err != nil {
		return 0, 0, err
	}
	start, err := t.next(b.ctx)
	if err == nil {
		err = w.quiet(b.ctx) // reconcile has looked at each guest once, to adopt it
	}
	var times, bytes []float64
	for range b.size.rounds {
		if err != nil {
			break
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := now()
		start()
		start, err = t.next(b.ctx)
		times = append(times, inMillis(now().Sub(began)))
		runtime.ReadMemStats(&after)
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc)/(1<<20))
	}
	if err == nil && w.steps.Status().Queue.Waiting != 0 {
		err = errors.New("a round in which nothing changed found something to do")
	}
	return middle(times), middle(bytes), errors.Join(err, end())
}

// running is a world that reconciles n guests by a source. The function that it
// returns stops the world, and has fsck look at its database.
func (b *bench) running(name string, n int, source reconcile.Source, t trigger) (*world, func() error, error) {
	dir, err := b.gateDir(name)
	if err != nil {
		return nil, nil, err
	}
	w, err := newWorld(b.ctx, worldOptions{dir: dir, guests: alike(n), sources: []reconcile.Source{source},
		after: t.after, run: true})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.steps.Run(ctx) }()
	return w, func() error {
		cancel()
		if err := errors.Join(<-ended, w.store.Close()); err != nil {
			return err
		}
		return b.sound(dir)
	}, nil
}

// quiet waits until reconcile has nothing left to do and has read every source.
func (w *world) quiet(ctx context.Context) error {
	return until(ctx, 2*time.Millisecond, func() (bool, error) {
		s := w.steps.Status()
		for _, src := range s.Sources {
			if !src.OK {
				return false, nil
			}
		}
		if len(s.Stopped) > 0 {
			return false, fmt.Errorf("reconcile stopped at %v", s.Stopped[0])
		}
		return s.Queue == reconcile.QueueStatus{}, nil
	})
}
