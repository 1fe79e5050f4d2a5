package matrix_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/local"
)

// transient is a back end whose guests end with their process: to stop one
// loses what it holds.
type transient struct {
	*local.Driver
	stopped *[]string // what it was made to do all the same
}

func (d transient) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := d.Driver.Observe(ctx, l)
	o.Volatile = o.Present
	return o, err
}

func (d transient) List(ctx context.Context) ([]op.Observed, error) {
	all, err := d.Driver.List(ctx)
	for i := range all {
		all[i].Volatile = true
	}
	return all, err
}

func (d transient) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	if step.Op == "guest.stop" || step.Op == "guest.restart" {
		*d.stopped = append(*d.stopped, step.ID.String())
	}
	return d.Driver.Prepare(ctx, step, cleanup)
}

// losing is a row in which somebody has a guest stopped that holds what ends
// with it.
func losing(id, what string, run func(w *world) error) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		w.mustApprove(w.request(ask("guest.set-config", "victim", "command", "idle"))) // it holds data
		require.NoError(w.t, w.runAll())
		w.do("guest.start", "victim")
		was := w.observe("victim").Running
		require.Equal(w.t, local.Running, was)
		var stopped []string
		w.back = transient{w.driver, &stopped}
		w.arm()
		err := run(w)
		_ = w.runAll()
		require.Empty(w.t, stopped)
		require.Equal(w.t, local.Running, w.observe("victim").Running, "it was stopped")
		w.back = nil
		return err
	}}
}

var volatileRows = []attack{
	losing("P17a", "a job stops a guest that holds what ends with it", func(w *world) error { return w.waits(w.submit(hub, ask("guest.stop", "victim"))) }),
	losing("P17b", "a job restarts it", func(w *world) error { return w.waits(w.submit(hub, ask("guest.restart", "victim"))) }),
	losing("P17c", "desired state wants it stopped", func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: victim\n    state: stopped\n")})
		return w.planned("victim")
	}),
	losing("P17d", "a job stops it among steps that are harmless", func(w *world) error {
		j, err := w.submit(hub, ask("guest.snapshot", "bystander", "snapshot", "s"), ask("guest.stop", "victim"))
		require.NoError(w.t, err)
		require.NoError(w.t, w.runAll())
		require.Equal(w.t, op.StatePlanned, w.stepOf(j.Steps[0].ID).State, "nothing runs before all of it may")
		w.allow.finale = []string{"victim", "bystander"}
		if w.stepOf(j.Steps[1].ID).State != op.StatePending {
			return nil
		}
		return refusal.PendingSignature
	}),
	{id: "P17e", what: "a rotation of copies: a new one is made, which is harmless, and the oldest is pruned", want: refusal.PendingSignature, run: func(w *world) error {
		for _, name := range []string{"mon", "tue"} {
			w.do("guest.snapshot", "victim", "snapshot", name)
		}
		w.do("guest.snapshot", "victim", "snapshot", "wed")
		w.arm()
		_, err := w.submit(hub, ask("guest.snapshot", "victim", "snapshot", "thu"), ask("guest.snapshot-delete", "victim", "snapshot", "mon"))
		require.ErrorIs(w.t, err, refusal.Conflict, "nobody could sign for what the guest is after the first step")
		return w.waits(w.submit(hub, ask("guest.snapshot-delete", "victim", "snapshot", "mon")))
	}},
}
