package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// Execute runs the permit's step to its end; there is never a task. What it can
// see will not work it refuses before the permit is used.
func (d *Driver) Execute(ctx context.Context, p gate.Permit) (driver.Result, error) {
	return d.execute(ctx, p)
}

// permit is what Execute needs of a gate.Permit.
type permit interface {
	Step() op.Step
	Use(ctx context.Context, now op.Observed) error
}

func (d *Driver) execute(ctx context.Context, p permit) (driver.Result, error) {
	step := p.Step()
	if step.ID == (op.StepID{}) {
		return driver.Result{}, op.Refuse(op.NotAllowed, "there is no permit for this")
	}
	prepare, ok := preparers[step.Op]
	if !ok {
		return driver.Result{}, op.Refuse(op.UnknownOp, "the libvirt driver does not know %q", step.Op)
	}
	spec, err := op.Lookup(step.Op)
	if err == nil {
		err = spec.Check(step.Target, step.Params)
	}
	if err != nil {
		return driver.Result{}, err
	}
	s, err := d.session(ctx)
	if err != nil {
		return driver.Result{}, d.unavailable(err)
	}
	defer d.release(s)
	w := &work{Driver: d, session: s, step: step}
	act, now, err := w.prepare(ctx, spec, prepare)
	if err != nil {
		return driver.Result{}, d.unavailable(err)
	}
	if err := p.Use(ctx, now); err != nil {
		return driver.Result{}, err
	}
	err = act(ctx)
	return driver.Result{Detail: w.detail}, w.worded(err)
}

// work is one step that is carried out.
type work struct {
	*Driver
	session *session
	step    op.Step
	guest   *guest // nil for a step that makes one
	begun   bool   // something was changed
	detail  string
}

// action does a step's work after its permit was used.
type action func(context.Context) error

// preparers check what a step needs, without changing anything, and return what
// does it.
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

// prepare looks at the target, and refuses in telling words what Permit.Use would
// refuse anyway.
func (w *work) prepare(ctx context.Context, spec op.Spec, prepare func(*work, context.Context) (action, error)) (action, op.Observed, error) {
	g, now, err := w.look(ctx, w.session, w.step.Look())
	if err != nil {
		return nil, now, err
	}
	if w.guest = g; g != nil {
		now.Facts, now.Missing = g.facts(), g.missing(w.step.Look())
	}
	if err := driver.Fits(spec, w.step, now); err != nil {
		return nil, now, err
	}
	act, err := prepare(w, ctx)
	return act, now, err
}

// do makes a call that changes something, and long one that may take its time.
func (w *work) do(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(do(ctx, w.session, fn))
}

func (w *work) long(ctx context.Context, fn func(*golibvirt.Libvirt) error) error {
	return w.mark(long(ctx, w.session, fn))
}

// mark remembers that something was changed: a call that libvirtd refused changed
// nothing, and of one that it did not answer nobody knows.
func (w *work) mark(err error) error {
	if err == nil || errors.Is(err, errAway) {
		w.begun = true
	}
	return err
}

// worded says how the work ended. After a first change, a failure leaves the
// target neither as it was nor as it was to be.
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
