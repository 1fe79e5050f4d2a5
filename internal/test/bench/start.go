package bench

import (
	"errors"
	"fmt"
	"time"

	"gated/internal/base/store"
)

// historyTime is how long the bench writes a history at most. If it does not suffice
// for all rows, the start is measured with fewer, and the table says with how many.
const historyTime = 30 * time.Second

// rowsPerStep is how many rows one signed operation leaves behind, see history.
const rowsPerStep = 10

// start measures the real daemon, from its first instruction until it answers. It
// has a long history, and steps under way that it has to resolve first.
func (b *bench) start() error {
	dir, err := b.state("start")
	if err != nil {
		return err
	}
	began := now()
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return err
	}
	jobs, err := h.past(b.size.rows/rowsPerStep, began.Add(historyTime))
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	fmt.Fprintf(b.Progress, "  %d rows of history in %.0f s\n", jobs*rowsPerStep, now().Sub(began).Seconds())
	took, err := median(b.size.runs, func() (float64, error) { return b.startOnce(dir) })
	if err != nil {
		return err
	}
	empty, err := b.emptyStart()
	if err != nil {
		return err
	}
	if err := b.settled(dir); err != nil {
		return err
	}
	b.addf(fmt.Sprintf("start with %d journal rows, %d in flight", jobs*rowsPerStep, b.size.inFlight),
		took, milliseconds, 1000, "whole process, gated serve; an empty gate starts in %.0f ms", empty)
	return nil
}

func (b *bench) startOnce(dir string) (float64, error) {
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(h.underWay(b.size.inFlight), h.close()); err != nil {
		return 0, err
	}
	return b.serveOnce(dir)
}

func (b *bench) emptyStart() (float64, error) {
	dir, err := b.state("start-empty")
	if err != nil {
		return 0, err
	}
	took, err := median(b.size.runs, func() (float64, error) { return b.serveOnce(dir) })
	if err != nil {
		return 0, err
	}
	return took, b.consistent(dir)
}

func (b *bench) serveOnce(dir string) (float64, error) {
	p, took, err := b.daemon(dir, socketIn(dir))
	if err != nil {
		return 0, err
	}
	return inMillis(took), p.stop()
}

// settled is an error if a step is still open. fsck is left out, because the history
// has placeholders instead of signatures.
func (b *bench) settled(dir string) error {
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return err
	}
	err = h.store.View(b.ctx, func(tx *store.Tx) error {
		settled, err := allSettled(tx)
		if err == nil && !settled {
			err = errors.New("steps are still open after the start")
		}
		return err
	})
	return errors.Join(err, h.close())
}
