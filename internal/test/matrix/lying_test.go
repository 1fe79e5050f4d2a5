package matrix_test

import (
	"context"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/local"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// liar is a back end that uses its permit, does nothing, and then says whatever
// the row has it say.
type liar struct {
	*local.Driver
	says  func(ctx context.Context) (task string, err error)
	task  func() (driver.Progress, error)
	asked *atomic.Int64 // how often it was asked how a task stands
}

func (l liar) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	now, err := l.Observe(ctx, step.Look())
	return now, driver.Does(func(ctx context.Context) (driver.Result, error) {
		task, err := l.says(ctx)
		return driver.Result{Task: task}, err
	}), err
}

func (l liar) Task(context.Context, string) (driver.Progress, error) {
	l.asked.Add(1)
	return l.task()
}

// lies is a row in which a back end lies about a signed destroy of victim, which
// the whole reconciler runs: what is recorded is what the guest shows.
func lies(id, what string, want op.State, says func(context.Context) (string, error), task func() (driver.Progress, error)) attack {
	return attack{id: id, what: "the back end " + what, want: refusal.Code(want), run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		asked := &atomic.Int64{}
		w.back = liar{w.driver, says, task, asked}
		w.reconcile()
		if task == nil {
			w.back = w.driver
		}
		w.reconcile() // also not at the next start
		w.back = w.driver
		require.Equal(w.t, task != nil, asked.Load() > 0)
		require.True(w.t, w.observe("victim").Present)
		return refusal.Code(w.stepOf(r.ID).State)
	}}
}

func done(context.Context) (string, error)  { return "", nil }
func begun(context.Context) (string, error) { return "task-1", nil }

var lyingRows = []attack{
	lies("H09a", "says that a destroy is done, and the guest is there", op.StateFailed, done, nil),
	lies("H09b", "panics after it took the permit", op.StateInterrupted, func(context.Context) (string, error) { panic("a back end's bug") }, nil),
	lies("H09c", "says that nobody knows", op.StateInterrupted, func(context.Context) (string, error) {
		return "", driver.Unknown(context.DeadlineExceeded)
	}, nil),
	lies("H09h", "goes on with a destroy, says after a restart that it is done, and the guest is there", op.StateFailed, begun,
		func() (driver.Progress, error) { return driver.Progress{Done: true}, nil }),
	lies("H09i", "goes on with a destroy, and says after a restart that it knows of no such task", op.StateInterrupted, begun,
		func() (driver.Progress, error) {
			return driver.Progress{}, refusal.New(refusal.UnknownTarget, "no such task")
		}),
	{id: "H09j", what: "the back end says that it took a label away, and the label is there", want: refusal.Code(op.StateFailed), run: func(w *world) error {
		w.do("guest.set-config", "victim", "labels", map[string]any{"hold": "legal", "tier": "prod"})
		r := w.request(ask("guest.set-config", "victim", "labels", map[string]any{"tier": "prod"}))
		w.mustApprove(r)
		w.arm()
		w.back = liar{w.driver, done, nil, &atomic.Int64{}}
		w.reconcile()
		w.back = w.driver
		require.Contains(w.t, w.observe("victim").Labels, "hold")
		return refusal.Code(w.stepOf(r.ID).State)
	}},
	{id: "H09d", what: "the back end says that it made a guest, and there is none", want: refusal.Code(op.StateFailed), run: func(w *world) error {
		w.arm()
		w.back = liar{w.driver, done, nil, &atomic.Int64{}}
		j := must.Get(w.submit(builder, ask("guest.create", "new", "scratch", true)))(w.t)
		w.reconcile()
		w.back = w.driver
		require.False(w.t, w.observe("new").Present)
		return refusal.Code(w.stepOf(j.Steps[0].ID).State)
	}},
	{id: "H09e", what: "the back end says that it made a scratch guest, where somebody else's appeared meanwhile: its data is nobody's scratch",
		want: refusal.PendingSignature, run: func(w *world) error {
			w.back = liar{w.driver, func(context.Context) (string, error) { w.plant("new"); return "", nil }, nil, &atomic.Int64{}}
			j := must.Get(w.submit(builder, ask("guest.create", "new", "scratch", true)))(w.t)
			w.reconcile()
			w.back = w.driver
			require.Equal(w.t, op.StateFailed, w.stepOf(j.Steps[0].ID).State)
			w.arm()
			w.allow.finale = []string{"new"}
			again, err := w.submit(builder, ask("guest.destroy", "new"))
			return w.waits(again, err)
		}},
	{id: "H09f", what: "the back end answers twice: first that a destroy failed, then that it is done", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		w.allow.loggedAs = "failed"
		w.back = liar{w.driver, done, nil, &atomic.Int64{}}
		w.reconcile()
		w.back = w.driver
		_, err := w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &op.Observed{Target: guest("victim")}})
		require.Equal(w.t, op.StateFailed, w.stepOf(r.ID).State, "the second answer counts for nothing")
		return err
	}},
	{id: "H09g", what: "the back end never answers, and the daemon is killed: the destroy is not run again", want: interrupted, run: func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.arm()
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		ctx, cancel := context.WithCancel(w.ctx)
		silent := liar{w.driver, func(ctx context.Context) (string, error) { cancel(); <-ctx.Done(); return "", ctx.Err() }, nil, &atomic.Int64{}}
		must.Fail(driver.Run(ctx, p, silent))(w.t, context.Canceled)
		require.Equal(w.t, op.StateDispatched, w.stepOf(r.ID).State, "nothing is known of it")
		w.restart()
		w.reconcile()
		require.True(w.t, w.observe("victim").Present)
		return refusal.Code(w.stepOf(r.ID).State)
	}},
}
