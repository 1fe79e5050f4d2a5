package gate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// inTheWay is a back end of which a look says why the step cannot be done. meanwhile is called in each look.
type inTheWay struct {
	*backend
	code      refusal.Code // none: nothing is in the way
	never     bool         // nor is it out of the way in any other state of the guest
	meanwhile func()
}

func (b *inTheWay) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if b.meanwhile != nil {
		b.meanwhile()
	}
	o, err := b.backend.Observe(ctx, l)
	no := refusal.New(b.code, "something is in the way").WithHint("take it away")
	switch {
	case b.code != "" && b.never:
		o.Unfit(no)
	case b.code != "":
		o.Foresee(no)
	}
	return o, err
}

func newInTheWay(t *testing.T) (*world, *inTheWay) {
	t.Parallel()
	b := &inTheWay{backend: newBackend()}
	w := newWorldOn(t, b)
	w.back = b.backend
	b.put("db")
	return w, b
}

// TestAskingAgainJoinsWhatWaits: whatever came in the way of a request since, asking for the same again finds the request,
// which goes on waiting. Nobody else's way of asking ends it either, and nothing new is kept.
func TestAskingAgainJoinsWhatWaits(t *testing.T) {
	w, b := newInTheWay(t)
	wish := ask("guest.destroy", "db")
	r := w.request(wish)
	set := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	require.Equal(t, r.ID.Job, set.ID)
	for _, code := range []refusal.Code{refusal.Conflict, refusal.BadParams} {
		b.code = code
		for name, again := range map[string]func() (op.Job, error){
			"the same":       func() (op.Job, error) { return w.submit(wish) },
			"another caller": func() (op.Job, error) { return w.submitFor(1001, wish) },
			"a set":          func() (op.Job, error) { return w.gate.Want(w.ctx, "fleet", wish) },
			"another set":    func() (op.Job, error) { return w.gate.Want(w.ctx, "other", wish) },
			"with a key": func() (op.Job, error) {
				return w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{wish}, Reason: "test", IdempotencyKey: "k" + string(code)})
			},
		} {
			require.Equal(t, r.ID.Job, must.Get(again())(t).ID, name)
			require.Equal(t, r.Payload, w.again(r).Payload, name)
			require.Equal(t, op.StatePending, w.again(r).Step.State, name)
		}
		for name, asks := range map[string][]op.Ask{
			"something else":      {ask("guest.wipe", "db")},
			"with something else": {wish, ask("guest.create", "new")},
			"after nothing else":  {wish, wish},
		} {
			must.Fail(w.submit(asks...))(t, code, name)
		}
		_, _, err := w.gate.Explain(w.ctx, hub, wish)
		require.ErrorIs(t, err, code, "who asks what it would be is told what is in the way")
	}
	require.NotContains(t, w.kinds(), audit.Superseded)
	require.NotContains(t, w.kinds(), audit.Withdrawn)
	require.Len(t, must.Get(w.gate.OpenTargets(w.ctx))(t), 1)

	b.change("db", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(1)} })
	require.Equal(t, r.ID.Job, must.Get(w.submit(wish))(t).ID)
	require.NotEqual(t, r.Payload, w.again(r).Payload, "people sign what is there now")
	b.code = ""
	must.Get(w.approve(w.again(r)))(t)
	require.NoError(t, w.uses(r))
	w.verifyLog()
}

// TestWhatWaitedAndEndedIsNotJoined: nothing waits any more, so the step that cannot be done is refused, also if the
// request ended during the look.
func TestWhatWaitedAndEndedIsNotJoined(t *testing.T) {
	w, b := newInTheWay(t)
	wish := ask("guest.destroy", "db")
	r := w.request(wish)
	b.code = refusal.Conflict
	b.meanwhile = func() { b.meanwhile = nil; must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(t) }
	for range 2 {
		_, err := w.submit(wish)
		require.ErrorIs(t, err, refusal.Conflict)
		require.Equal(t, "take it away", refusal.As(err).Hint)
		require.Empty(t, must.Get(w.gate.OpenTargets(w.ctx))(t))
	}
	_, err := w.gate.Want(w.ctx, "fleet", wish)
	require.ErrorIs(t, err, refusal.Conflict)
	_, err = w.offline(alice.envelope(t, w.payload(wish)))
	require.ErrorIs(t, err, refusal.Conflict)
}

// TestAStepBehindAnotherJobIsTaken: who gives a guest a program and starts it, and waits for neither, is not told that the guest has no
// program. What only waits for people clears no way, and nothing makes parameters, settings or data right.
func TestAStepBehindAnotherJobIsTaken(t *testing.T) {
	w, b := newInTheWay(t)
	w.request(ask("guest.destroy", "db"))
	b.code = refusal.Conflict
	must.Fail(w.submit(ask("guest.start", "db")))(t, refusal.Conflict)
	b.code = ""
	first := w.mustSubmit(ask("guest.snapshot", "db", "snapshot", "monday"))
	require.Equal(t, op.StatePlanned, first.State())
	b.code = refusal.Conflict
	start := w.mustSubmit(ask("guest.start", "db"))
	two := w.mustSubmit(ask("guest.stop", "db"), ask("guest.start", "db"))
	must.Fail(w.gate.Want(w.ctx, "fleet", ask("guest.stop", "db")))(t, refusal.Conflict)
	must.Fail(w.submit(ask("guest.start", "other")))(t, refusal.UnknownTarget)
	b.never = true
	must.Fail(w.submit(ask("guest.restart", "db")))(t, refusal.Conflict, "no other job makes it possible")
	b.never = false
	for _, code := range []refusal.Code{refusal.BadParams, refusal.TooComplex, refusal.NotAllowed} {
		b.code = code
		must.Fail(w.submit(ask("guest.start", "db")))(t, code)
	}

	b.code = ""
	require.NoError(t, w.execute(first.Steps[0].ID))
	require.NoError(t, w.execute(start.Steps[0].ID))
	require.Equal(t, op.StateSucceeded, w.job(start.ID).State())
	must.Get(w.gate.Cancel(w.ctx, hub, two.ID))(t)
	b.code = refusal.Conflict
	must.Fail(w.submit(ask("guest.stop", "db"), ask("guest.start", "db")))(t, refusal.Conflict, "nothing is under way any more")
}

// TestABenignWishJoinsWhatWaitsForPeople: the request asked people when the guest was live, and the same wish would ask
// nobody now. It cannot be done now, so the request stays the one question.
func TestABenignWishJoinsWhatWaitsForPeople(t *testing.T) {
	w, b := newInTheWay(t)
	b.change("db", func(o *op.Observed) { o.Volatile = true })
	r := w.request(ask("guest.stop", "db"))
	b.change("db", func(o *op.Observed) { o.Volatile = false })
	b.code = refusal.Conflict
	require.Equal(t, r.ID.Job, must.Get(w.submit(ask("guest.stop", "db")))(t).ID)
	b.code = ""
	benign := w.mustSubmit(ask("guest.stop", "db"))
	require.NotEqual(t, r.ID.Job, benign.ID)
	b.code = refusal.Conflict
	p := must.Get(w.gate.Permit(w.ctx, benign.Steps[0].ID))(t)
	require.ErrorIs(t, p.Use(w.ctx, must.Get(b.Observe(w.ctx, p.Step().Look()))(t)), refusal.Conflict)
	require.Equal(t, op.StateRefused, w.job(benign.ID).State())
}

// TestAHinderedWishTakesNothingBack: a set asked people for a name in the trash. When the trash is swept, the set takes that
// back for a step that asks nobody, and does not as long as the step cannot be done.
func TestAHinderedWishTakesNothingBack(t *testing.T) {
	w, b := newInTheWay(t)
	w.trashed(hub, root)
	wish := ask("guest.create", "web")
	asked := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	require.Equal(t, op.StatePending, asked.State())
	b.mu.Lock()
	clear(b.trash)
	b.mu.Unlock()

	b.code = refusal.Conflict
	for range 2 {
		require.Equal(t, asked.ID, must.Get(w.gate.Want(w.ctx, "fleet", wish))(t).ID)
		require.Equal(t, op.StatePending, w.job(asked.ID).State())
	}
	other := ask("guest.create", "web", "memory", int64(5))
	_, err := w.gate.Want(w.ctx, "fleet", other)
	require.ErrorIs(t, err, refusal.Conflict)
	require.Equal(t, op.StatePending, w.job(asked.ID).State())

	b.code = ""
	made := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	require.NotEqual(t, asked.ID, made.ID)
	require.Equal(t, op.StateSuperseded, w.job(asked.ID).State())
	w.run()
	require.True(t, w.back.has("web"))
	w.verifyLog()
}

// TestAFreedWishIsAskedOnce: others still want what a set asked people for. The set's own step goes on in each round.
func TestAFreedWishIsAskedOnce(t *testing.T) {
	w, b := newInTheWay(t)
	w.trashed(root, root)
	wish := ask("guest.create", "web")
	asked := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	require.Equal(t, asked.ID, must.Get(w.submit(wish))(t).ID)
	b.mu.Lock()
	clear(b.trash)
	b.mu.Unlock()
	made := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	require.NotEqual(t, asked.ID, made.ID)
	for range 2 {
		require.Equal(t, made.ID, must.Get(w.gate.Want(w.ctx, "fleet", wish))(t).ID)
	}
	require.Equal(t, op.StatePending, w.job(asked.ID).State(), "somebody else asked for it, too")
}

// TestARefusedWishTakesNothingBack: what waits is withdrawn by the decision that takes the new step, or not at all.
func TestARefusedWishTakesNothingBack(t *testing.T) {
	w, b := newInTheWay(t)
	w.trashed(hub, root)
	wish := ask("guest.create", "web")
	asked := must.Get(w.gate.Want(w.ctx, "fleet", wish))(t)
	b.mu.Lock()
	clear(b.trash)
	b.mu.Unlock()
	// The disk fills up between the look and the decision.
	r := &filling{}
	w.room = r
	w.restart()
	b.meanwhile = func() { r.full = true }
	_, err := w.gate.Want(w.ctx, "fleet", wish)
	require.ErrorIs(t, err, refusal.Unavailable)
	r.full, b.meanwhile = false, nil
	require.Equal(t, op.StatePending, w.job(asked.ID).State())
	require.NotEqual(t, asked.ID, must.Get(w.gate.Want(w.ctx, "fleet", wish))(t).ID)
}

// filling is a disk that is full or not.
type filling struct {
	gate.Room
	full bool
}

func (f *filling) Admit(int64) error {
	if f.full {
		return refusal.New(refusal.Unavailable, "the disk is full")
	}
	return nil
}

func (*filling) Committed() {}
