package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gated/internal/op"
	"gated/internal/reconcile"
)

// changes is how often one file is changed.
const changes = 21

// changed measures how long it takes from a file's change until the driver is
// told to act, with a permit that is used: desired state of 10,000 guests in as
// many files.
func (b *bench) changed() error {
	dir, err := b.dir("desired")
	if err != nil {
		return err
	}
	for i := range manyGuests {
		if err := os.WriteFile(fileOf(dir, i), one(i, 512), 0o600); err != nil {
			return err
		}
	}
	source, err := reconcile.NewDir(dir, roundInterval, now)
	if err != nil {
		return err
	}
	t := make(trigger)
	w, end, err := b.running("changed", manyGuests, source, t.after)
	if err != nil {
		return errors.Join(err, source.Close())
	}
	took, err := w.changeFiles(b.ctx, t, dir)
	if err = errors.Join(err, end(), source.Close()); err != nil {
		return err
	}
	b.table.add(row{"one changed file of 10,000 reaches the driver", middle(took), milliseconds, 50,
		fmt.Sprintf("slowest of %d: %.1f ms; with two commits", changes, quantile(took, 1))})
	return nil
}

func fileOf(dir string, i int) string { return filepath.Join(dir, guestName(i)+".yaml") }

// one is the document of one guest.
func one(i int, memory int64) []byte {
	return []byte("apiVersion: gated/v1\nhost: " + host + "\nguests:\n  - name: " + guestName(i) + "\n    state: stopped\n    memory: " +
		strconv.FormatInt(memory, 10) + "MiB\n    cpus: 2\n    labels: {tier: prod}\n")
}

func (w *world) changeFiles(ctx context.Context, t trigger, dir string) ([]float64, error) {
	reached := make(chan time.Time, 1)
	w.driver.Before = func(op.Step) error { reached <- now(); return nil }
	if _, err := t.next(ctx); err != nil {
		return nil, err
	}
	// A file that was written just now is read again when it has settled.
	if err := w.quiet(ctx); err != nil {
		return nil, err
	}
	took := make([]float64, 0, changes)
	for n := range changes {
		i := n * (manyGuests / changes)
		path := fileOf(dir, i)
		if err := os.WriteFile(path+".new", one(i, 640), 0o600); err != nil {
			return nil, err
		}
		began := now()
		if err := os.Rename(path+".new", path); err != nil {
			return nil, err
		}
		at, err := receive(ctx, reached)
		if err != nil {
			return nil, err
		}
		took = append(took, inMillis(at.Sub(began)))
		if err := w.quiet(ctx); err != nil {
			return nil, err
		}
	}
	return took, nil
}

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
