package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// Prepare refuses a step that cannot work. Its action runs to its end and never leaves a task.
func (d *Driver) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, do, err := d.prepare(ctx, step, cleanup)
	return now, driver.Does(do), err
}

func (d *Driver) prepare(ctx context.Context, step op.Step, cleanup func(func())) (
	now op.Observed, do driver.Work, err error) {
	prepare, ok := preparers[step.Op]
	if !ok {
		return now, nil, refusal.New(refusal.UnknownOp, "the libvirt driver does not know %q", step.Op)
	}
	s, err := d.session(ctx)
	if err != nil {
		return now, nil, d.unavailable(err)
	}
	cleanup(func() { d.release(s) })
	w := &work{Driver: d, session: s, step: step}
	act, now, err := w.prepare(ctx, prepare)
	if err != nil {
		return now, nil, d.unavailable(err)
	}
	return now, func(ctx context.Context) (driver.Result, error) {
		err := act(ctx)
		return driver.Result{Detail: w.detail}, w.worded(err)
	}, nil
}

// work is one step that the driver carries out.
type work struct {
	*Driver
	session *session
	step    op.Step
	guest   *guest // nil for a step that makes one
	begun   bool   // the step changed something
	detail  string
}

// action does a step's work after its permit was used.
type action func(context.Context) error

// preparers check what a step needs and change nothing. They return the function that does the
// step.
var preparers = map[string]func(*work, context.Context) (action, error){
	"guest.create":          (*work).create,
	"guest.start":           (*work).start,
	"guest.stop":            (*work).stop,
	"guest.restart":         (*work).restart,
	"guest.set-config":      (*work).setConfig,
	"guest.snapshot":        (*work).snapshot,
	"guest.snapshot-delete": (*work).snapshotDelete,
	"guest.restore":         (*work).restore,
	"guest.wipe":            (*work).wipe,
	"guest.disk-create":     (*work).diskCreate,
	"guest.disk-resize":     (*work).diskResize,
	"guest.disk-wipe":       (*work).diskWipe,
	"guest.disk-detach":     (*work).diskDetach,
	"guest.disk-delete":     (*work).diskDelete,
	"guest.destroy":         (*work).destroy,
}

func operations() []string { return slices.Sorted(maps.Keys(preparers)) }

// prepare looks at the target. It refuses what Permit.Use would refuse, because its own words
// say more.
func (w *work) prepare(ctx context.Context, prepare func(*work, context.Context) (action, error)) (action, op.Observed, error) {
	g, now, err := w.look(ctx, w.session, w.step.Look())
	if err != nil {
		return nil, now, err
	}
	if w.guest = g; g != nil {
		now.Facts, now.Missing = g.facts(), g.missing(w.step.Look())
	}
	if err := driver.Fits(w.step, now); err != nil {
		return nil, now, err
	}
	act, err := prepare(w, ctx)
	return act, now, err
}

// do makes a call that changes something. long is for a call that may take a long time.
func (w *work) do(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(do(ctx, w.session, fn))
}

func (w *work) long(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(long(ctx, w.session, fn))
}

// mark remembers that the step changed something. If libvirtd refused the call, nothing
// changed. If libvirtd did not answer, the driver does not know, and counts it as a change.
func (w *work) mark(err error) error {
	if err == nil || errors.Is(err, errAway) {
		w.begun = true
	}
	return err
}

// worded says how the work ended. If the step fails after its first change, the target is
// neither as it was nor as it should be.
func (w *work) worded(err error) error {
	switch {
	case err == nil:
		return nil
	case w.begun || errors.Is(err, errAway):
		return driver.Unknown(fmt.Errorf("libvirt: %w", err))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		said(err, golibvirt.ErrOperationTimeout, golibvirt.ErrOperationAborted):
		return driver.Transient(fmt.Errorf("libvirt: %w", err))
	}
	return fmt.Errorf("libvirt: %w", err)
}
