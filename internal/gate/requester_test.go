package gate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

var (
	root      = op.Requester{Source: op.SourceAPI, UID: 0}
	daemon    = op.Requester{Source: op.SourceAPI, UID: 4242}
	other     = op.Requester{Source: op.SourceAPI, UID: 1001}
	builder   = op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "builder"}
	neighbour = op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "neighbour"}
)

func (w *world) submitAs(by op.Requester, asks ...op.Ask) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks}))(w.t)
}

func TestTwoSubmitsAtOnceAreOneRequest(t *testing.T) {
	w := newWorld(t, "a")
	ids := make([]op.JobID, 32)
	n := race(t, len(ids), refusal.Conflict, func(i int) error {
		by := hub
		by.UID += uint32(i % 4)
		j, err := w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: []op.Ask{ask("guest.destroy", "a")}})
		ids[i] = j.ID
		return err
	})
	require.Equal(t, len(ids), n)
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Len(t, w.job(ids[0]).Requesters, 4)
	require.Len(t, must.Get(w.gate.Requests(w.ctx, ""))(t), 1)
}

func TestIdempotencyKeyRace(t *testing.T) {
	w := newWorld(t, "a")
	for _, a := range []op.Ask{ask("guest.create", "new"), ask("guest.start", "a"), ask("guest.destroy", "a")} {
		ids := make([]op.JobID, 64)
		n := race(t, len(ids), refusal.Conflict, func(i int) error {
			j, err := w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{a}, IdempotencyKey: "key of " + a.Op})
			ids[i] = j.ID
			return err
		})
		require.Equal(t, len(ids), n)
		for _, id := range ids {
			require.Equal(t, ids[0], id, a.Op)
		}
	}
	require.Len(t, must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(t), 3)
}

func TestARefusalIsTheAnswerToItsKey(t *testing.T) {
	w := newWorld(t)
	sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.start", "a")}, IdempotencyKey: "k"}
	_, err := w.gate.Submit(w.ctx, sub)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	w.back.put("a")
	_, again := w.gate.Submit(w.ctx, sub)
	require.ErrorIs(t, again, refusal.UnknownTarget, "the same key and body get the first answer")
	require.Equal(t, refusal.As(err).Detail, refusal.As(again).Detail)
	other := sub
	other.Reason = "another body"
	must.Fail(w.gate.Submit(w.ctx, other))(t, refusal.Conflict)
	require.Equal(t, refusal.Conflict, w.lastRefusal().Code)
	w.restart()
	must.Fail(w.gate.Submit(w.ctx, other))(t, refusal.Conflict, "the key is known after a restart")
	sub.IdempotencyKey = "k2"
	must.Get(w.gate.Submit(w.ctx, sub))(t)
}

func TestOpenStepsOfATargetAreCapped(t *testing.T) {
	w := newWorld(t, "a")
	by := func(uid uint32) error {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: uid, PID: 7}, Steps: []op.Ask{ask("guest.start", "a")}})
		return err
	}
	for range 80 {
		w.mustSubmit(ask("guest.start", "a"))
	}
	must.Fail(w.submit(ask("guest.start", "a")))(t, refusal.OverLimit, "one uid")
	for range 16 {
		require.NoError(t, by(2000))
	}
	require.ErrorIs(t, by(3000), refusal.OverLimit, "all uids, but for operators")
	must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.stop", "a")))(t, "desired state has room")
	for range 31 {
		require.NoError(t, by(0), "an operator has room")
	}
	require.ErrorIs(t, by(0), refusal.OverLimit)
	id, ok := must.Two(w.gate.Runnable(w.ctx, op.Target{Kind: "guest", Name: "a"}))(t)
	require.True(t, ok)
	require.NoError(t, w.execute(id))
	require.NoError(t, by(0))
}

// An agent's waiting jobs keep steps of a target open for days. They do not take the
// room of operators and other users.
func TestStepsThatWaitFillNoTarget(t *testing.T) {
	w := newWorld(t, "mine", "web")
	steps := []op.Ask{ask("guest.destroy", "mine")}
	for range 63 {
		steps = append(steps, ask("guest.restart", "web"))
	}
	for range 4 {
		_, _ = w.submit(steps...)
	}
	for _, uid := range []uint32{0, 2000} {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: uid, PID: 7}, Steps: []op.Ask{ask("guest.destroy", "web")}})
		require.NoError(t, err)
	}
}

func TestHangingUpKeepsNoRefusalOutOfTheLog(t *testing.T) {
	w, r := newRequest(t, "a")
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	must.Fail(w.gate.Approve(gone, hub, r.ID, mallory.envelope(t, r.Payload)))(t, refusal.UnknownSigner)
	require.Equal(t, refusal.UnknownSigner, w.lastRefusal().Code)
}

// TestDesiredStateAndAJobWantTheSame: there is one request, and each requester
// withdraws its own wish.
func TestDesiredStateAndAJobWantTheSame(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	r := w.request(a)
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	require.Equal(t, r.ID.Job, j.ID)
	require.Len(t, j.Requesters, 2)
	entries := len(w.kinds())
	for range 3 { // the next rounds decide nothing
		must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
		require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, []op.Ask{a}))
	}
	require.Len(t, w.kinds(), entries)

	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "the job still wants it")
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	must.Get(w.gate.Cancel(w.ctx, hub, j.ID))(t)
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "desired state still wants it")
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StateSuperseded, w.job(j.ID).State())
}

// TestDesiredStateJoinsABenignStep: when the step runs, it is classified again for
// the requesters that are left.
func TestDesiredStateJoinsABenignStep(t *testing.T) {
	w := newWorld(t)
	w.submitAs(builder, ask("guest.create", "tmp", "scratch", true))
	w.run()
	j := w.submitAs(builder, ask("guest.destroy", "tmp"))
	require.Equal(t, op.StatePlanned, j.State())
	require.Equal(t, j.ID, must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.destroy", "tmp")))(t).ID)
	must.Get(w.gate.Cancel(w.ctx, builder, j.ID))(t)
	require.ErrorIs(t, w.execute(j.Steps[0].ID), refusal.PendingSignature, "no requester is left that may destroy it unsigned")
	w.run()
	require.True(t, w.back.has("tmp"))
}

func TestRightToCancel(t *testing.T) { // H13
	w := newWorld(t)
	for name, c := range map[string]struct {
		by op.Requester
		ok bool
	}{
		"the requester":      {hub, true},
		"another process":    {op.Requester{Source: op.SourceAPI, UID: hub.UID, PID: 12345}, true},
		"root":               {root, true},
		"the daemon's uid":   {daemon, true},
		"another uid":        {other, false},
		"an agent of its":    {builder, false},
		"desired state":      {op.Requester{Source: op.SourceDesired, Set: "fleet"}, false},
		"no source at all":   {op.Requester{}, false},
		"the gate, by no id": {op.Requester{Source: op.SourceGate}, false},
	} {
		w.back.put("a")
		j := w.submitAs(hub, ask("guest.destroy", "a"))
		_, err := w.gate.Cancel(w.ctx, c.by, j.ID)
		if c.ok {
			require.NoError(t, err, name)
			require.Equal(t, op.StateCancelled, w.job(j.ID).State(), name)
			continue
		}
		require.ErrorIs(t, err, refusal.NotAllowed, name)
		require.Equal(t, refusal.NotAllowed, w.lastRefusal().Code)
		require.Equal(t, op.StatePending, w.job(j.ID).State(), name)
	}
	must.Fail(w.gate.Cancel(w.ctx, root, 999))(t, refusal.UnknownTarget)
}

func TestAnAgentsJobIsNotItsUidsToCancel(t *testing.T) {
	w := newWorld(t, "a")
	j := w.submitAs(builder, ask("guest.destroy", "a"))
	for _, by := range []op.Requester{hub, neighbour} {
		must.Fail(w.gate.Cancel(w.ctx, by, j.ID))(t, refusal.NotAllowed)
	}
	must.Get(w.gate.Cancel(w.ctx, builder, j.ID))(t)
}

func TestTooLateToCancel(t *testing.T) {
	w := newWorld(t, "a", "b")
	r := w.request(ask("guest.destroy", "a"))
	w.mustApprove(r)
	w.use(r.ID)
	must.Fail(w.gate.Cancel(w.ctx, root, r.ID.Job))(t, refusal.Conflict)
	j := w.mustSubmit(ask("guest.start", "b"), ask("guest.stop", "b"))
	require.NoError(t, w.execute(j.Steps[0].ID))
	must.Fail(w.gate.Cancel(w.ctx, root, j.ID))(t, refusal.Conflict, "part of it is done")
	r = w.request(ask("guest.wipe", "b"))
	w.mustApprove(r)
	must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(t, "authorized is not dispatched")
	w.run()
	require.NotContains(t, w.back.did(), "guest.wipe b")
}

// TestOpenRequestsExactlyAtTheLimit counts steps, joins and jobs of several.
func TestOpenRequestsExactlyAtTheLimit(t *testing.T) {
	w := newWorld(t)
	p := w.gate.Policy()
	p.OpenPerSource = 3
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	var asks []op.Ask
	for i := range 5 {
		n := fmt.Sprintf("g%d", i)
		w.back.put(n)
		asks = append(asks, ask("guest.destroy", n))
	}
	must.Fail(w.submit(asks[:4]...))(t, refusal.OverLimit, "one job of four")
	j := must.Get(w.submit(asks[:3]...))(t, "exactly the limit")
	must.Fail(w.submit(asks[3]))(t, refusal.OverLimit)
	must.Get(w.submit(ask("guest.start", "g3")))(t, "a benign step needs no signature")
	must.Fail(w.submit(ask("guest.start", "g3"), asks[3]))(t, refusal.OverLimit)
	w.submitAs(other, asks[3])
	must.Get(w.submit(asks[3]))(t, "joining what waits already asks nothing more")
	must.Get(w.gate.Want(w.ctx, "fleet", asks[4]))(t, "limits are per source")
	must.Get(w.gate.Cancel(w.ctx, hub, j.ID))(t)
	must.Get(w.submit(asks[0], asks[1]))(t, "there is room again: one of three is what was joined")
	must.Fail(w.submit(asks[2]))(t, refusal.OverLimit)
}

func TestConcurrentSubmitsStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	p := w.gate.Policy()
	p.OpenPerSource = 5
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	for i := range 20 {
		w.back.put(fmt.Sprintf("g%d", i))
	}
	n := race(t, 20, refusal.OverLimit, func(i int) error { _, err := w.submit(ask("guest.destroy", fmt.Sprintf("g%d", i))); return err })
	require.Equal(t, 5, n)
}

// TestAnotherSetDoesNotForgetARejection: if one set withdraws, another cannot ask
// again.
func TestAnotherSetDoesNotForgetARejection(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	w.mustReject(w.requestOf(j, 1))
	require.NoError(t, w.gate.Withdraw(w.ctx, "other", a.Target, nil))
	must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
}

func TestARejectedWishIsAnotherOnAnotherIncarnation(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	w.mustReject(w.requestOf(j, 1))
	w.back.change("a", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(1)} })
	must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected, "the same guest, however it looks")
	w.back.remove("a")
	w.back.put("a")
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
}

func TestWakes(t *testing.T) {
	w := newWorld(t, "a", "b")
	j := w.mustSubmit(ask("guest.create", "new"), ask("guest.stop", "a"))
	require.True(t, w.wakes("new"))
	require.NoError(t, w.execute(j.Steps[0].ID))
	require.True(t, w.wakes("a"), "the next step's target")
	w.back.change("a", func(o *op.Observed) { o.Running, o.Volatile = "running", true })
	require.ErrorIs(t, w.execute(j.Steps[1].ID), refusal.PendingSignature)
	w.wakes("")
	w.mustReject(w.requestOf(j, 2))
	require.True(t, w.wakes("new"), "what was made is to be taken back")

	r := w.request(ask("guest.destroy", "b"))
	w.wakes("")
	w.mustApprove(r)
	require.True(t, w.wakes("b"))
	w.back.put("c")
	r = w.request(ask("guest.destroy", "c"))
	w.back.change("c", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(1)} })
	w.wakes("")
	must.Fail(w.approve(r))(t, refusal.StaleTarget)
	require.True(t, w.wakes("c"), "so that it is issued anew")
}

// TestRoundsAndPeopleAtOnce runs everything that may happen to one request at
// the same time; the race detector and the checks at the end judge it.
func TestRoundsAndPeopleAtOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 12 {
		n := fmt.Sprintf("g%d", i)
		w.back.put(n)
		r := w.request(ask("guest.destroy", n))
		must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.destroy", n)))(t)
		e, rej := alice.envelope(t, r.Payload), w.rejection(r, alice)
		var wg sync.WaitGroup
		for _, fn := range []func(){
			func() { _, _ = w.gate.Approve(w.ctx, hub, r.ID, e) },
			func() { _, _ = w.gate.ApproveOffline(w.ctx, other, e) },
			func() { _, _ = w.gate.Reject(w.ctx, hub, r.ID, rej) },
			func() { _, _ = w.gate.Cancel(w.ctx, root, r.ID.Job) },
			func() { _ = w.gate.Withdraw(w.ctx, "fleet", r.Step.Target, nil) },
			func() {
				w.back.change(n, func(o *op.Observed) { o.Spec = op.Params{"memory": int64(2)} })
				_ = w.gate.Refresh(w.ctx, r.Step.Target)
			},
			func() { _ = w.gate.Tick(w.ctx) },
			func() { _, _ = w.gate.Want(w.ctx, "fleet", ask("guest.destroy", n)) },
			func() {
				if p, err := w.gate.Permit(w.ctx, r.ID); err == nil {
					_, _ = w.back.execute(w.ctx, p)
				}
			},
		} {
			wg.Go(fn)
		}
		wg.Wait()
		s := w.job(r.ID.Job).Steps[0]
		if !w.back.has(n) {
			require.Equal(t, op.StateDispatched, s.State, "it ran, so it was approved")
			req := must.Get(w.gate.Request(w.ctx, r.ID))(t)
			require.Len(t, req.Signatures, 1)
			require.Equal(t, r.Payload, req.Payload, "what ran is what was signed")
		}
		if !s.State.Open() || s.State == op.StateAuthorized || s.State == op.StateDispatched {
			require.NotEmpty(t, w.fate(r.Nonce))
		}
	}
	w.verifyLog()
}

// TestWantingAgainWritesNothing: a set asks in every round, while its planned step
// waits and the target changes.
func TestWantingAgainWritesNothing(t *testing.T) {
	w := newWorld(t, "a")
	j := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.set-config", "a", "memory", int64(7))))(t)
	require.Equal(t, op.StatePlanned, j.State())
	w.back.change("a", func(o *op.Observed) { o.Snapshots = []string{"s"} })
	before := len(w.kinds())
	for range 3 {
		again := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.set-config", "a", "memory", int64(7))))(t)
		require.Equal(t, j.ID, again.ID)
	}
	require.Len(t, w.kinds(), before, "no entry is written for a wish that is known")
	must.Get(w.gate.Want(w.ctx, "other", ask("guest.set-config", "a", "memory", int64(7))))(t)
	require.Len(t, w.kinds(), before+1, "another set joins")
}

// TestASetWithdrawsEachOfItsSteps: also those that come after one which others still want.
func TestASetWithdrawsEachOfItsSteps(t *testing.T) {
	w := newWorld(t, "a")
	shared, own := ask("guest.destroy", "a"), ask("guest.wipe", "a")
	r := w.request(shared)
	require.Equal(t, r.ID.Job, must.Get(w.gate.Want(w.ctx, "fleet", shared))(t).ID)
	j := must.Get(w.gate.Want(w.ctx, "fleet", own))(t)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", shared.Target, nil))
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), "the job still wants it")
	require.Equal(t, op.StateSuperseded, w.job(j.ID).State())
}
