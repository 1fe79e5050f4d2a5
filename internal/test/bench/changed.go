package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gated/internal/base/op"
	"gated/internal/reconcile"
)

// changed measures how long it takes from the change of a file until reconcile tells
// the driver to act. Each guest has a file of its own.
func (b *bench) changed() error {
	dir, err := b.dir("desired")
	if err != nil {
		return err
	}
	for i := range b.size.guests {
		if err := os.WriteFile(fileOf(dir, i), one(i, 512), 0o600); err != nil {
			return err
		}
	}
	source, err := reconcile.NewDir(dir, roundInterval, now)
	if err != nil {
		return err
	}
	t := make(trigger)
	w, end, err := b.running("changed", b.size.guests, source, t)
	if err != nil {
		return errors.Join(err, source.Close())
	}
	took, err := b.changeFiles(w, t, dir)
	if err = errors.Join(err, end(), source.Close()); err != nil {
		return err
	}
	b.addf(fmt.Sprintf("one changed file of %d reaches the driver", b.size.guests), middle(took), milliseconds, 50,
		"with two commits")
	b.addf(fmt.Sprintf("  slowest of %d, against the median", b.size.changes), quantile(took, 1)/middle(took), plain, 3,
		"%.1f ms; p90 %.1f ms", quantile(took, 1), quantile(took, 0.9))
	return nil
}

func fileOf(dir string, i int) string { return filepath.Join(dir, guestName(i)+".yaml") }

// one is the document of one guest.
func one(i int, memory int64) []byte {
	return []byte("apiVersion: gated/v1\nhost: " + host + "\nguests:\n  - name: " + guestName(i) +
		"\n    state: stopped\n" +
		"    memory: " + strconv.FormatInt(memory, 10) + "MiB\n    cpus: 2\n    labels: {tier: prod}\n")
}

func (b *bench) changeFiles(w *world, t trigger, dir string) ([]float64, error) {
	reached := make(chan time.Time, 1)
	w.driver.Before = func(op.Step) error { reached <- now(); return nil }
	start, err := t.next(b.ctx)
	if err == nil {
		// Reconcile reads a file that was written just now a second time.
		err = w.quiet(b.ctx)
	}
	if err == nil {
		// A round begins when the read before it has queued every guest to be adopted.
		// Without it, the first change would wait for 10,000 guests.
		start()
		_, err = t.next(b.ctx)
	}
	if err == nil {
		err = w.quiet(b.ctx)
	}
	if err != nil {
		return nil, err
	}
	var took []float64
	for n := range b.size.changes {
		i := n * (b.size.guests / b.size.changes)
		path := fileOf(dir, i)
		if err := os.WriteFile(path+".new", one(i, 640), 0o600); err != nil {
			return nil, err
		}
		began := now()
		if err := os.Rename(path+".new", path); err != nil {
			return nil, err
		}
		at, err := receive(b.ctx, reached)
		if err != nil {
			return nil, err
		}
		took = append(took, inMillis(at.Sub(began)))
		if err := w.quiet(b.ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// receive waits for a value.
func receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong)
	defer cancel()
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}
