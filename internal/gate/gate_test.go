package gate_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func TestBenignRunsDestructiveWaits(t *testing.T) {
	w := newWorld(t)
	j := w.mustSubmit(ask("guest.create", "web", "memory", int64(512)))
	require.Equal(t, op.StatePlanned, j.State())
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())
	require.True(t, w.back.has("web"))

	r := w.request(ask("guest.destroy", "web"))
	w.run()
	require.True(t, w.back.has("web"), "an unsigned destroy does not run")

	require.Equal(t, op.StateAuthorized, must.Get(w.approve(r))(t).Step.State)
	w.run()
	require.False(t, w.back.has("web"))
	require.Equal(t, op.StateSucceeded, w.job(r.ID.Job).State())
	w.verifyLog()
}

func TestTheLogHasRequesterStepAndReason(t *testing.T) {
	w := newWorld(t, "web")
	w.request(ask("guest.snapshot-delete", "web", "snapshot", "s1"))
	es := must.Get(w.gate.Events(w.ctx, 0, 10))(t)
	e := es[len(es)-1]
	require.Equal(t, audit.Requested, e.Kind)
	require.Equal(t, "uid:1000", e.By)
	require.EqualValues(t, 77, e.PID)
	require.Equal(t, "snapshot-delete", e.Rule)
	require.Equal(t, "it deletes a copy of data", e.Why)
	require.Equal(t, "s1", e.Params.Str("snapshot"))
	require.Equal(t, "test", e.Reason)
}

func TestZeroPermitIsRefused(t *testing.T) {
	require.ErrorIs(t, gate.Permit{}.Use(t.Context(), op.Observed{}), refusal.NotAllowed)
}

func TestPermitWorksOnce(t *testing.T) {
	w := newWorld(t)
	j := w.mustSubmit(ask("guest.create", "web"))
	p1 := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
	p2 := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
	now := must.Get(w.back.Observe(w.ctx, op.At(p1.Step().Target)))(t)
	require.NoError(t, p1.Use(w.ctx, now))
	require.ErrorIs(t, p1.Use(w.ctx, now), refusal.Conflict)
	require.ErrorIs(t, p2.Use(w.ctx, now), refusal.Conflict, "a second permit for the same step does not dispatch it again")

	// A step that may run again has a permit of its own for that; the first one stays used.
	must.Get(w.gate.Record(w.ctx, p1.Step().ID, gate.Outcome{Err: errors.New("the back end is away"), Transient: true}))(t)
	require.ErrorIs(t, p1.Use(w.ctx, now), refusal.Conflict)
	p3 := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
	require.NoError(t, p3.Use(w.ctx, now))
}

func TestUnauthorizedStepHasNoPermit(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Fail(w.gate.Permit(w.ctx, r.ID))(t, refusal.Conflict)
}

func TestApprovalCountsOnce(t *testing.T) {
	w, r := newRequest(t, "web")
	e := alice.envelope(t, r.Payload)
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.gate.Approve(w.ctx, hub, r.ID, e) })
	}
	wg.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else {
			require.ErrorIs(t, err, refusal.Replayed)
		}
	}
	require.Equal(t, 1, accepted)
	w.run()
	w.restart()
	_, err := w.gate.Approve(w.ctx, hub, r.ID, e)
	require.ErrorIs(t, err, refusal.Replayed)
	_, err = w.gate.ApproveOffline(w.ctx, hub, e)
	require.ErrorIs(t, err, refusal.Replayed)
	refused := refusal.As(err)
	require.Equal(t, r.ID.String(), refused.Request, "a caller whose answer was lost can tell")
	require.Equal(t, op.StateSucceeded.String(), refused.State)
}

func TestUnlistedKeyIsRefusedAndSpendsNothing(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Fail(w.gate.Approve(w.ctx, hub, r.ID, mallory.envelope(t, r.Payload)))(t, refusal.UnknownSigner)
	require.Equal(t, refusal.UnknownSigner, w.lastRefusal().Code)
	must.Get(w.approve(r))(t, "the refused try spent nothing")
}

// TestBindingIsExact signs, with a listed key, payloads that differ from the
// request in one member each (B01 to B06).
func TestBindingIsExact(t *testing.T) {
	w := newWorld(t, "web", "db")
	r := w.request(ask("guest.destroy", "web"))
	base := must.Get(op.DecodePayload(r.Payload))(t)
	for name, c := range map[string]struct {
		change func(*op.Payload)
		want   refusal.Code
	}{
		"host":        {func(p *op.Payload) { p.Host = "pve2" }, refusal.TargetMismatch},
		"gate":        {func(p *op.Payload) { p.Gate = "f123456789abcdef0123456789abcdef" }, refusal.TargetMismatch},
		"op":          {func(p *op.Payload) { p.Op = "guest.wipe" }, refusal.BindingMismatch},
		"target":      {func(p *op.Payload) { p.Target.Name = "db" }, refusal.BindingMismatch},
		"incarnation": {func(p *op.Payload) { p.Incarnation += "y" }, refusal.BindingMismatch},
		"state":       {func(p *op.Payload) { p.State = op.FingerprintOf(nil) }, refusal.BindingMismatch},
		"param added": {func(p *op.Payload) { p.Params = op.Params{"x": true} }, refusal.BindingMismatch},
		"reason":      {func(p *op.Payload) { p.Reason += "!" }, refusal.BindingMismatch},
		"fresh nonce": {func(p *op.Payload) { p.Nonce = op.NewNonce(time.Now()) }, refusal.BindingMismatch},
		"longer":      {func(p *op.Payload) { p.ExpiresAt = p.ExpiresAt.Add(time.Second) }, refusal.ValidityTooLong},
		"shorter":     {func(p *op.Payload) { p.ExpiresAt = p.ExpiresAt.Add(-time.Second) }, refusal.BindingMismatch},
		"issued earlier": {func(p *op.Payload) {
			p.IssuedAt = p.IssuedAt.Add(-time.Second)
			p.ExpiresAt = p.ExpiresAt.Add(-time.Second)
		}, refusal.BindingMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			p := base
			c.change(&p)
			b := must.Get(p.Encode())(t)
			must.Fail(w.gate.Approve(w.ctx, hub, r.ID, alice.envelope(t, b)))(t, c.want)
		})
	}
	must.Get(w.approve(r))(t, "the request is still approvable")
}

func TestEnvelopeOfAnotherRequest(t *testing.T) {
	w := newWorld(t, "web", "db")
	a, b := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	must.Fail(w.gate.Approve(w.ctx, hub, a.ID, alice.envelope(t, b.Payload)))(t, refusal.BindingMismatch)
	must.Get(w.approve(a))(t)
	must.Get(w.approve(b))(t)
}

func TestPendingNonceUnderOtherBytesAtOps(t *testing.T) { // T12
	w := newWorld(t, "web", "db")
	r := w.request(ask("guest.destroy", "web"))
	p := must.Get(op.DecodePayload(r.Payload))(t)
	p.Target.Name = "db"
	b := must.Get(p.Encode())(t)
	must.Fail(w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, b)))(t, refusal.BindingMismatch)
	must.Get(w.approve(r))(t)
	_, err := w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, b))
	require.ErrorIs(t, err, refusal.Replayed, "T05: spent nonce, other payload")
}

func TestRemadeTargetIsStaleAtApproval(t *testing.T) { // B07
	w, r := newRequest(t, "web")
	w.back.remove("web")
	w.back.put("web")
	must.Fail(w.approve(r))(t, refusal.StaleTarget)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), "nothing was spent")
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	must.Fail(w.approve(r))(t, refusal.Superseded)
	require.True(t, w.back.has("web"))
}

func TestRemadeTargetIsStaleAtExecution(t *testing.T) { // B08
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	w.back.remove("web")
	w.back.put("web")
	require.ErrorIs(t, w.execute(r.ID), refusal.StaleTarget)
	require.Equal(t, op.StateRefused, w.job(r.ID.Job).State())
	require.True(t, w.back.has("web"))
	must.Fail(w.approve(r))(t, refusal.Replayed, "the nonce stays spent")
}

func TestChangedStateIsStaleThenIssuedAnew(t *testing.T) { // B09
	w, r := newRequest(t, "web")
	w.back.change("web", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
	must.Fail(w.approve(r))(t, refusal.StaleTarget)
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	must.Fail(w.approve(r))(t, refusal.Superseded, "the old bytes are no approval of the new state")
	again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.NotEqual(t, r.Nonce, again.Nonce)
	must.Get(w.approve(again))(t)
	w.run()
	require.False(t, w.back.has("web"))
}

func TestExpiredPayloadIsIssuedAnewUnderTheSameID(t *testing.T) {
	w, r := newRequest(t, "web")
	w.Pass(policy.MaxValidity + gate.Skew)
	must.Get(w.approve(r))(t, "exactly at the boundary is in time")
	w.back.put("db")
	r = w.request(ask("guest.destroy", "db"))
	w.Pass(policy.MaxValidity + gate.Skew + time.Second)
	must.Fail(w.approve(r))(t, refusal.Expired)
	require.NoError(t, w.gate.Tick(w.ctx))
	again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Equal(t, op.StatePending, again.Step.State)
	require.NotEqual(t, r.Nonce, again.Nonce)
	must.Fail(w.approve(r))(t, refusal.Expired)
	must.Get(w.approve(again))(t)
}

// While the gate does not trust its clock, it uses the time since boot. After a boot
// it trusts the clock, which is behind the time at which it issued the payload.
func TestAPayloadFromTheFutureIsIssuedAnew(t *testing.T) {
	w := newWorld(t, "web")
	w.mustSubmit(ask("guest.create", "db"))
	w.Set(-2 * time.Hour)
	w.Pass(10 * time.Hour)
	r := w.request(ask("guest.destroy", "web"))
	w.restart()
	must.Fail(w.approve(r))(t, refusal.NotYetValid)
	require.NoError(t, w.gate.Tick(w.ctx))
	again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.NotEqual(t, r.Nonce, again.Nonce)
	must.Get(w.approve(again))(t)
	w.run()
	require.False(t, w.back.has("web"))
}

func TestAuthorizedButNotRunInTimeExpires(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	w.Pass(policy.MaxValidity + gate.Skew + time.Second)
	require.ErrorIs(t, w.execute(r.ID), refusal.Expired)
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State())
	require.True(t, w.back.has("web"))
}

func TestKeyTakenAwayBetweenApprovalAndExecution(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	other := must.Get(authz.LoadTrust([]byte(mallory.line("operational@gated"))))(t)
	require.NoError(t, w.gate.ReplaceTrust(w.ctx, other))
	require.ErrorIs(t, w.execute(r.ID), refusal.UnknownSigner)
	require.True(t, w.back.has("web"))
	require.Equal(t, op.StateRefused, w.job(r.ID.Job).State())
}

func TestClockSetBackRefusesReplay(t *testing.T) { // T04
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	w.run()
	w.Pass(policy.MaxValidity + 3*time.Hour)
	require.NoError(t, w.gate.Tick(w.ctx))
	w.Set(-policy.MaxValidity - 3*time.Hour)
	w.back.put("web")
	must.Fail(w.approve(r))(t, refusal.Expired)
	w.restart()
	must.Fail(w.approve(r))(t, refusal.Expired)
	require.True(t, w.back.has("web"))
}

func TestClockFarAheadAndBack(t *testing.T) { // T15
	w := newWorld(t, "web", "db")
	r, r2 := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	must.Get(w.approve(r2))(t)
	w.Set(70 * 365 * 24 * time.Hour)
	require.NoError(t, w.gate.Tick(w.ctx))
	must.Fail(w.approve(r))(t, refusal.Unavailable, "signed work waits")
	require.ErrorIs(t, w.execute(r2.ID), refusal.Unavailable)
	w.Set(-70 * 365 * 24 * time.Hour)
	must.Get(w.approve(r))(t, "and recovers")
	w.run()
	require.False(t, w.back.has("web"))
	require.False(t, w.back.has("db"))
	must.Fail(w.approve(r))(t, refusal.Replayed)
}

func TestIdempotencyKey(t *testing.T) { // T09
	w := newWorld(t)
	sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.create", "web")}, IdempotencyKey: "k"}
	a := must.Get(w.gate.Submit(w.ctx, sub))(t)
	w.run()
	b := must.Get(w.gate.Submit(w.ctx, sub))(t, "the name is taken by now, but the answer is the first one")
	require.Equal(t, a.ID, b.ID)
	sub.Steps = []op.Ask{ask("guest.create", "db")}
	must.Fail(w.gate.Submit(w.ctx, sub))(t, refusal.Conflict)
	sub.Requester.UID = 1001
	c := must.Get(w.gate.Submit(w.ctx, sub))(t, "keys are per caller")
	require.NotEqual(t, a.ID, c.ID)
}

func TestSameWishIsOneRequest(t *testing.T) {
	w, r := newRequest(t, "web")
	entries := len(w.kinds())
	again := w.mustSubmit(ask("guest.destroy", "web"))
	require.Equal(t, r.ID.Job, again.ID)
	require.Len(t, w.kinds(), entries, "nothing was decided")
	other := op.Requester{Source: op.SourceAPI, UID: 1001}
	joined, err := w.gate.Submit(w.ctx, op.Submission{Requester: other, Steps: []op.Ask{ask("guest.destroy", "web")}})
	require.NoError(t, err)
	require.Equal(t, r.ID.Job, joined.ID)
	require.Len(t, joined.Requesters, 2)

	must.Get(w.gate.Cancel(w.ctx, hub, r.ID.Job))(t)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), "the other one still wants it")
	must.Fail(w.gate.Cancel(w.ctx, hub, r.ID.Job))(t, refusal.NotAllowed)
	must.Get(w.gate.Cancel(w.ctx, other, r.ID.Job))(t)
	require.Equal(t, op.StateCancelled, w.job(r.ID.Job).State())
	require.Equal(t, []op.Requester{other}, w.job(r.ID.Job).Requesters, "it still says who asked last")
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Cancelled) // T08
	_, err = w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, r.Payload))
	require.ErrorIs(t, err, refusal.Cancelled) // T11
}

func TestOpenRequestsAreCapped(t *testing.T) { // P11
	w := newWorld(t)
	p := w.gate.Policy()
	p.OpenPerSource = 3
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	for _, n := range []string{"a", "b", "c", "d"} {
		w.back.put(n)
	}
	for _, n := range []string{"a", "b", "c"} {
		w.request(ask("guest.destroy", n))
	}
	must.Fail(w.submit(ask("guest.destroy", "d")))(t, refusal.OverLimit)
	must.Get(w.submit(ask("guest.destroy", "a")))(t, "the same wish again is not one more")
}

func TestRefusalFloodIsBounded(t *testing.T) { // H11
	w := newWorld(t)
	before := len(w.kinds())
	for range 500 {
		must.Fail(w.submit(ask("guest.nonsense", "web")))(t, refusal.UnknownOp)
	}
	require.LessOrEqual(t, len(w.kinds())-before, 10)
	w.Pass(2 * time.Minute)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, 490, w.lastRefusal().Count)
}

func TestWantRejectedIsNotAskedAgainUntilWithdrawn(t *testing.T) {
	w := newWorld(t, "web")
	a := ask("guest.destroy", "web")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	r := must.Get(w.gate.Request(w.ctx, j.Steps[0].ID))(t)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice)))(t)
	must.Fail(w.approve(r))(t, refusal.Rejected)
	must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	j2 := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	require.NotEqual(t, j.ID, j2.ID)
}

func (w *world) rejection(r op.Request, k key) authz.Envelope {
	return w.rejectionWith(r, k, func(*op.Rejection) {})
}

func (w *world) rejectionWith(r op.Request, k key, change func(*op.Rejection)) authz.Envelope {
	now := w.Now()
	rej := op.Rejection{Gate: testGate, Host: testHost, Request: r.ID, PayloadSHA256: op.SHA256(r.Payload), Nonce: op.NewNonce(time.Now()),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "no"}
	change(&rej)
	b := must.Get(rej.Encode())(w.t)
	return k.envelope(w.t, b)
}

func TestRejectionChecks(t *testing.T) {
	w, r := newRequest(t, "web")
	e := w.rejection(r, alice)
	_, err := w.gate.Approve(w.ctx, hub, r.ID, e)
	require.ErrorIs(t, err, refusal.Malformed) // S19
	must.Fail(w.gate.Reject(w.ctx, hub, r.ID, alice.envelope(t, r.Payload)))(t, refusal.Malformed)
	must.Fail(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, mallory)))(t, refusal.UnknownSigner)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, e))(t)
	must.Fail(w.gate.Reject(w.ctx, hub, r.ID, e))(t, refusal.Replayed)
}

func TestAuthorizedIsRejectedBeforeDispatch(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice)))(t)
	w.run()
	require.True(t, w.back.has("web"))
	require.Equal(t, op.StateRejected, w.job(r.ID.Job).State())
}

func TestWithdrawnWishes(t *testing.T) {
	w := newWorld(t, "web")
	a := ask("guest.destroy", "web")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, []op.Ask{a}))
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "it is still wished for")
	require.NoError(t, w.gate.Withdraw(w.ctx, "other", a.Target, nil))
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "another set cannot take it back")
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StateSuperseded, w.job(j.ID).State())

	j = must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	r := must.Get(w.gate.Request(w.ctx, j.Steps[0].ID))(t)
	must.Get(w.approve(r))(t)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StateCancelled, w.job(j.ID).State(), "authorized, then withdrawn")
	w.run()
	require.True(t, w.back.has("web"))
}

func TestDriverErrorAfterDispatch(t *testing.T) {
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	w.back.fail = func(op.Step) error { return errors.New("disk on fire") }
	require.Error(t, w.execute(r.ID))
	require.Equal(t, op.StateFailed, w.job(r.ID.Job).State())
	w.back.fail = nil
	w.run()
	require.True(t, w.back.has("web"), "a destructive step that was dispatched is never run again")
}

func TestUnknownOutcomeIsInterrupted(t *testing.T) { // T13
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	now, _ := w.back.Observe(w.ctx, r.Step.Look())
	require.NoError(t, p.Use(w.ctx, now))
	w.restart()
	require.Len(t, must.Get(w.gate.Dispatched(w.ctx))(t), 1)
	must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Unknown: true}))(t)
	require.Equal(t, op.StateInterrupted, w.job(r.ID.Job).State())
	w.run()
	require.True(t, w.back.has("web"))
}

func TestBackEndThatLies(t *testing.T) { // H09
	w, r := newRequest(t, "web")
	must.Get(w.approve(r))(t)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	now, _ := w.back.Observe(w.ctx, r.Step.Look())
	require.NoError(t, p.Use(w.ctx, now))
	must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &now}))(t)
	require.Equal(t, op.StateFailed, w.job(r.ID.Job).State(), "said to be done, but still there")
	_, err := w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &op.Observed{}})
	require.ErrorIs(t, err, refusal.Conflict, "a second answer changes nothing")
}
