package gate_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// TestRecordWakesATargetWithAnOpenStep: without an open step, there is nothing to do
// on the target.
func TestRecordWakesATargetWithAnOpenStep(t *testing.T) {
	for name, c := range map[string]struct {
		other func(w *world)
		wakes bool
	}{
		"no other step":         {func(*world) {}, false},
		"a step of another job": {func(w *world) { w.mustSubmit(ask("guest.set-config", "web", "memory", int64(7))) }, true},
		"a request that waits":  {func(w *world) { w.request(ask("guest.destroy", "web")) }, true},
		"the step fails": {func(w *world) {
			w.back.fail = func(op.Step) error { return errors.New("no") }
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			j := w.mustSubmit(ask("guest.start", "web"))
			c.other(w)
			w.wakes("")
			_ = w.execute(j.Steps[0].ID)
			require.False(t, w.job(j.ID).State().Open())
			require.Equal(t, c.wakes, w.wakes("web"))
		})
	}
}

// TestRecordReturnsTheStepOfTheJournal: for one step alone, Record does not read it
// again.
func TestRecordReturnsTheStepOfTheJournal(t *testing.T) {
	w := newWorld(t, "web", "old")
	destroy := w.request(ask("guest.destroy", "old"))
	w.mustApprove(destroy)
	for _, id := range []op.StepID{w.mustSubmit(ask("guest.start", "web")).Steps[0].ID,
		w.mustSubmit(ask("guest.create", "new", "scratch", true)).Steps[0].ID, destroy.ID} {
		p := must.Get(w.gate.Permit(w.ctx, id))(t)
		must.Get(w.back.execute(w.ctx, p))(t)
		after := must.Get(w.back.Observe(w.ctx, p.Step().Look()))(t)
		is := must.Get(w.gate.Record(w.ctx, id, gate.Outcome{After: &after, Detail: "as it was asked"}))(t)
		require.Equal(t, op.StateSucceeded, is.State)
		require.Equal(t, w.job(id.Job).Steps[0], is)
	}
}

// What changes between the permit and its use counts as it is at the use.
func TestADispatchReadsWhatIsTrueThen(t *testing.T) {
	change := ask("guest.set-config", "web", "memory", int64(7))
	t.Run("another requester joins", func(t *testing.T) {
		w := newWorld(t)
		made := w.submitAs(builder, ask("guest.create", "web", "scratch", true))
		require.NoError(t, w.execute(made.Steps[0].ID))
		inc := w.job(made.ID).Steps[0].Incarnation
		j := w.submitAs(builder, change)
		p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
		require.Equal(t, j.ID, must.Get(w.gate.Want(w.ctx, "fleet", change))(t).ID)
		require.Empty(t, must.Get(w.gate.Provenance(w.ctx, inc))(t).ScratchEnded)
		must.Get(w.back.execute(w.ctx, p))(t)
		require.Contains(t, must.Get(w.gate.Provenance(w.ctx, inc))(t).ScratchEnded, "desired:fleet used it")
	})
	t.Run("an operator signed it for another", func(t *testing.T) {
		w := newWorld(t)
		made := w.submitAs(builder, ask("guest.create", "web", "scratch", true))
		require.NoError(t, w.execute(made.Steps[0].ID))
		inc := w.job(made.ID).Steps[0].Incarnation
		r := w.request(ask("guest.wipe", "web"))
		w.mustApprove(r)
		require.NoError(t, w.execute(r.ID))
		is := must.Get(w.gate.Provenance(w.ctx, inc))(t)
		require.Contains(t, is.ScratchEnded, "used it ("+r.ID.String()+")")
		require.Contains(t, is.Used, "another job used it ("+r.ID.String()+")")
	})
	t.Run("the last requester leaves", func(t *testing.T) {
		w := newWorld(t, "web")
		j := must.Get(w.gate.Want(w.ctx, "fleet", change))(t)
		p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
		require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", j.Steps[0].Target, nil))
		used, err := w.back.execute(w.ctx, p)
		require.False(t, used)
		require.ErrorIs(t, err, refusal.Conflict)
	})
	t.Run("the target changes", func(t *testing.T) {
		w := newWorld(t, "web")
		j := w.mustSubmit(change)
		p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
		w.back.change("web", func(o *op.Observed) { o.Snapshots = []string{"s"} })
		now := must.Get(w.back.Observe(w.ctx, p.Step().Look()))(t)
		require.NotEqual(t, j.Steps[0].Fingerprint, now.Fingerprint)
		must.Get(w.back.execute(w.ctx, p))(t)
		require.Equal(t, now.Fingerprint, w.job(j.ID).Steps[0].Fingerprint)
	})
	t.Run("the guest is another's scratch by now", func(t *testing.T) {
		w := newWorld(t)
		made := w.submitAs(builder, ask("guest.create", "web", "scratch", true))
		require.NoError(t, w.execute(made.Steps[0].ID))
		inc := w.job(made.ID).Steps[0].Incarnation
		end := w.submitAs(builder, ask("guest.destroy", "web"))
		require.Equal(t, op.StatePlanned, end.State(), "it is scratch")
		p := must.Get(w.gate.Permit(w.ctx, end.Steps[0].ID))(t)
		o := must.Get(w.back.Observe(w.ctx, p.Step().Look()))(t)
		require.NoError(t, w.gate.Adopt(w.ctx, "fleet", o))
		used, err := w.back.execute(w.ctx, p)
		require.False(t, used)
		require.ErrorIs(t, err, refusal.PendingSignature)
		require.NotEmpty(t, must.Get(w.gate.Provenance(w.ctx, inc))(t).ScratchEnded)
	})
}
