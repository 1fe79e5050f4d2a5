package gate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// mounted is a back end that sees in a look that a guest cannot be destroyed now.
type mounted struct {
	*backend
	at map[string]string // what is in the way, by the guest's name
}

func (m mounted) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := m.backend.Observe(ctx, l)
	if at := m.at[l.Target.Name]; at != "" && l.Op == "guest.destroy" {
		o.Foresee(refusal.New(refusal.Conflict, "guest.destroy would reach through %s", at).WithHint("unmount it first"))
	}
	return o, err
}

// TestWhatALookCanTellIsRefusedAtSubmission: no operator is asked for a step that cannot be done. What waits already
// stays, because the obstacle may go.
func TestWhatALookCanTellIsRefusedAtSubmission(t *testing.T) {
	t.Parallel()
	m := mounted{newBackend(), map[string]string{"db": "/mnt"}}
	w := newWorldOn(t, m)
	w.back = m.backend
	m.put("db")
	m.put("web")
	_, err := w.submit(ask("guest.destroy", "db"))
	require.ErrorIs(t, err, refusal.Conflict)
	require.Equal(t, "guest.destroy would reach through /mnt", refusal.As(err).Detail)
	require.Equal(t, "unmount it first", refusal.As(err).Hint)

	r := w.request(ask("guest.destroy", "web"))
	m.at["web"] = "/mnt"
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	require.Equal(t, op.StatePending, w.again(r).Step.State)
	must.Get(w.approve(r))(t)
	m.at["web"] = ""
	require.NoError(t, w.uses(r))
}

// TestADriversHintReachesWhoAsks: a step keeps one sentence, and the hint is in it.
func TestADriversHintReachesWhoAsks(t *testing.T) {
	w := newWorld(t, "db")
	r := w.request(ask("guest.destroy", "db"))
	must.Get(w.approve(r))(t)
	no := refusal.New(refusal.Conflict, "guest.destroy would reach through /mnt").WithHint("unmount it first")
	s := must.Get(w.gate.Refuse(w.ctx, r.ID, no))(t)
	require.Equal(t, op.StateRefused, s.State)
	require.Equal(t, "guest.destroy would reach through /mnt: unmount it first", s.Detail)
	require.Equal(t, "guest.destroy would reach through /mnt", no.Detail, "the caller's own refusal is as it was")

	r = w.request(ask("guest.wipe", "db"))
	must.Get(w.approve(r))(t)
	require.NoError(t, w.uses(r))
	s = must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Err: no}))(t)
	require.Equal(t, op.StateFailed, s.State)
	require.Equal(t, "guest.destroy would reach through /mnt: unmount it first", s.Detail)
}

// TestAnEarlierStepMayMakeWhatIsMissing: a look at submission does not refuse what the job itself brings about.
func TestAnEarlierStepMayMakeWhatIsMissing(t *testing.T) {
	w, c := newCopiesWorld(t)
	c.put("db")
	_, err := w.submit(ask("guest.snapshot-delete", "db", "snapshot", "s"))
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = w.submit(ask("guest.snapshot", "db", "snapshot", "s"), ask("guest.snapshot-delete", "db", "snapshot", "s"))
	require.NotErrorIs(t, err, refusal.UnknownTarget)
}

// wrong is a back end that refuses the parameters of each destroy.
type wrong struct{ *backend }

func (b wrong) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := b.backend.Observe(ctx, l)
	if l.Op == "guest.destroy" {
		o.Foresee(refusal.New(refusal.BadParams, "no such name"))
	}
	return o, err
}

// TestWhatAnotherRequestCouldDo: the code of a look's refusal is that of the step, so a caller knows whether to change the request or to
// wait.
func TestWhatAnotherRequestCouldDo(t *testing.T) {
	t.Parallel()
	b := wrong{newBackend()}
	w := newWorldOn(t, b)
	b.put("db")
	_, err := w.submit(ask("guest.destroy", "db"))
	require.ErrorIs(t, err, refusal.BadParams)
}

// TestAnEarlierStepMayClearTheWay: also one that changes nothing that is signed, and one on another target.
func TestAnEarlierStepMayClearTheWay(t *testing.T) {
	t.Parallel()
	m := mounted{newBackend(), map[string]string{"db": "/mnt"}}
	w := newWorldOn(t, m)
	m.put("db")
	m.put("web")
	for _, first := range []op.Ask{ask("guest.stop", "db"), ask("guest.stop", "web")} {
		must.Get(w.submit(first, ask("guest.destroy", "db")))(t)
	}
}
