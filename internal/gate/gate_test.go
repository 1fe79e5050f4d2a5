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

	got, err := w.approve(r)
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, got.Step.State)
	w.run()
	require.False(t, w.back.has("web"))
	require.Equal(t, op.StateSucceeded, w.job(r.ID.Job).State())
	w.verifyLog()
}

func TestTheLogHasRequesterStepAndReason(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	w.request(ask("guest.snapshot-delete", "web", "snapshot", "s1"))
	es, err := w.gate.Events(w.ctx, 0, 10)
	require.NoError(t, err)
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
	err := gate.Permit{}.Use(t.Context(), op.Observed{})
	require.ErrorIs(t, err, refusal.NotAllowed)
}

func TestPermitWorksOnce(t *testing.T) {
	w := newWorld(t)
	j := w.mustSubmit(ask("guest.create", "web"))
	p1, err := w.gate.Permit(w.ctx, j.Steps[0].ID)
	require.NoError(t, err)
	p2, err := w.gate.Permit(w.ctx, j.Steps[0].ID)
	require.NoError(t, err)
	now, err := w.back.Observe(w.ctx, op.At(p1.Step().Target))
	require.NoError(t, err)
	require.NoError(t, p1.Use(w.ctx, now))
	require.ErrorIs(t, p1.Use(w.ctx, now), refusal.Conflict)
	require.ErrorIs(t, p2.Use(w.ctx, now), refusal.Conflict, "a second permit for the same step does not dispatch it again")
}

func TestUnauthorizedStepHasNoPermit(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.gate.Permit(w.ctx, r.ID)
	require.ErrorIs(t, err, refusal.Conflict)
}

func TestApprovalCountsOnce(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
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
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.gate.Approve(w.ctx, hub, r.ID, mallory.envelope(t, r.Payload))
	require.ErrorIs(t, err, refusal.UnknownSigner)
	require.Equal(t, refusal.UnknownSigner, w.lastRefusal().Code)
	_, err = w.approve(r)
	require.NoError(t, err, "the refused try spent nothing")
}

// TestBindingIsExact signs, with a listed key, payloads that differ from the
// request in one member each (B01 to B06).
func TestBindingIsExact(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	w.back.put("db")
	r := w.request(ask("guest.destroy", "web"))
	base, err := op.DecodePayload(r.Payload)
	require.NoError(t, err)
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
			b, err := p.Encode()
			require.NoError(t, err)
			_, err = w.gate.Approve(w.ctx, hub, r.ID, alice.envelope(t, b))
			require.ErrorIs(t, err, c.want)
		})
	}
	_, err = w.approve(r)
	require.NoError(t, err, "the request is still approvable")
}

func TestEnvelopeOfAnotherRequest(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	w.back.put("db")
	a, b := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	_, err := w.gate.Approve(w.ctx, hub, a.ID, alice.envelope(t, b.Payload))
	require.ErrorIs(t, err, refusal.BindingMismatch)
	_, err = w.approve(a)
	require.NoError(t, err)
	_, err = w.approve(b)
	require.NoError(t, err)
}

func TestPendingNonceUnderOtherBytesAtOps(t *testing.T) { // T12
	w := newWorld(t)
	w.back.put("web")
	w.back.put("db")
	r := w.request(ask("guest.destroy", "web"))
	p, err := op.DecodePayload(r.Payload)
	require.NoError(t, err)
	p.Target.Name = "db"
	b, err := p.Encode()
	require.NoError(t, err)
	_, err = w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, b))
	require.ErrorIs(t, err, refusal.BindingMismatch)
	_, err = w.approve(r)
	require.NoError(t, err)
	_, err = w.gate.ApproveOffline(w.ctx, hub, alice.envelope(t, b))
	require.ErrorIs(t, err, refusal.Replayed, "T05: spent nonce, other payload")
}

func TestRemadeTargetIsStaleAtApproval(t *testing.T) { // B07
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	w.back.remove("web")
	w.back.put("web")
	_, err := w.approve(r)
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), "nothing was spent")
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Superseded)
	require.True(t, w.back.has("web"))
}

func TestRemadeTargetIsStaleAtExecution(t *testing.T) { // B08
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	w.back.remove("web")
	w.back.put("web")
	require.ErrorIs(t, w.execute(r.ID), refusal.StaleTarget)
	require.Equal(t, op.StateRefused, w.job(r.ID.Job).State())
	require.True(t, w.back.has("web"))
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Replayed, "the nonce stays spent")
}

func TestChangedStateIsStaleThenIssuedAnew(t *testing.T) { // B09
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	w.back.change("web", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
	_, err := w.approve(r)
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Superseded, "the old bytes are no approval of the new state")
	again, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.NotEqual(t, r.Nonce, again.Nonce)
	_, err = w.approve(again)
	require.NoError(t, err)
	w.run()
	require.False(t, w.back.has("web"))
}

func TestExpiredPayloadIsIssuedAnewUnderTheSameID(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	w.pass(policy.MaxValidity + gate.Skew)
	_, err := w.approve(r)
	require.NoError(t, err, "exactly at the boundary is in time")
	w.back.put("db")
	r = w.request(ask("guest.destroy", "db"))
	w.pass(policy.MaxValidity + gate.Skew + time.Second)
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	require.NoError(t, w.gate.Tick(w.ctx))
	again, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, op.StatePending, again.Step.State)
	require.NotEqual(t, r.Nonce, again.Nonce)
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	_, err = w.approve(again)
	require.NoError(t, err)
}

// While the gate does not trust its clock, it uses the time since boot. After a boot
// it trusts the clock, which is behind the time at which it issued the payload.
func TestAPayloadFromTheFutureIsIssuedAnew(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	w.mustSubmit(ask("guest.create", "db"))
	w.setClock(-2 * time.Hour)
	w.pass(10 * time.Hour)
	r := w.request(ask("guest.destroy", "web"))
	w.restart()
	_, err := w.approve(r)
	require.ErrorIs(t, err, refusal.NotYetValid)
	require.NoError(t, w.gate.Tick(w.ctx))
	again, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.NotEqual(t, r.Nonce, again.Nonce)
	_, err = w.approve(again)
	require.NoError(t, err)
	w.run()
	require.False(t, w.back.has("web"))
}

func TestAuthorizedButNotRunInTimeExpires(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	w.pass(policy.MaxValidity + gate.Skew + time.Second)
	require.ErrorIs(t, w.execute(r.ID), refusal.Expired)
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State())
	require.True(t, w.back.has("web"))
}

func TestKeyTakenAwayBetweenApprovalAndExecution(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	other, err := authz.LoadTrust([]byte(mallory.line("operational@gated")))
	require.NoError(t, err)
	require.NoError(t, w.gate.ReplaceTrust(w.ctx, other))
	require.ErrorIs(t, w.execute(r.ID), refusal.UnknownSigner)
	require.True(t, w.back.has("web"))
	require.Equal(t, op.StateRefused, w.job(r.ID.Job).State())
}

func TestClockSetBackRefusesReplay(t *testing.T) { // T04
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	w.run()
	w.pass(policy.MaxValidity + 3*time.Hour)
	require.NoError(t, w.gate.Tick(w.ctx))
	w.setClock(-policy.MaxValidity - 3*time.Hour)
	w.back.put("web")
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	w.restart()
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	require.True(t, w.back.has("web"))
}

func TestClockFarAheadAndBack(t *testing.T) { // T15
	w := newWorld(t)
	w.back.put("web")
	w.back.put("db")
	r, r2 := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	_, err := w.approve(r2)
	require.NoError(t, err)
	w.setClock(70 * 365 * 24 * time.Hour)
	require.NoError(t, w.gate.Tick(w.ctx))
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Unavailable, "signed work waits")
	require.ErrorIs(t, w.execute(r2.ID), refusal.Unavailable)
	w.setClock(-70 * 365 * 24 * time.Hour)
	_, err = w.approve(r)
	require.NoError(t, err, "and recovers")
	w.run()
	require.False(t, w.back.has("web"))
	require.False(t, w.back.has("db"))
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Replayed)
}

func TestIdempotencyKey(t *testing.T) { // T09
	w := newWorld(t)
	sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.create", "web")}, IdempotencyKey: "k"}
	a, err := w.gate.Submit(w.ctx, sub)
	require.NoError(t, err)
	w.run()
	b, err := w.gate.Submit(w.ctx, sub)
	require.NoError(t, err, "the name is taken by now, but the answer is the first one")
	require.Equal(t, a.ID, b.ID)
	sub.Steps = []op.Ask{ask("guest.create", "db")}
	_, err = w.gate.Submit(w.ctx, sub)
	require.ErrorIs(t, err, refusal.Conflict)
	sub.Requester.UID = 1001
	c, err := w.gate.Submit(w.ctx, sub)
	require.NoError(t, err, "keys are per caller")
	require.NotEqual(t, a.ID, c.ID)
}

func TestSameWishIsOneRequest(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	entries := len(w.kinds())
	again := w.mustSubmit(ask("guest.destroy", "web"))
	require.Equal(t, r.ID.Job, again.ID)
	require.Len(t, w.kinds(), entries, "nothing was decided")
	other := op.Requester{Source: op.SourceAPI, UID: 1001}
	joined, err := w.gate.Submit(w.ctx, op.Submission{Requester: other, Steps: []op.Ask{ask("guest.destroy", "web")}})
	require.NoError(t, err)
	require.Equal(t, r.ID.Job, joined.ID)
	require.Len(t, joined.Requesters, 2)

	_, err = w.gate.Cancel(w.ctx, hub, r.ID.Job)
	require.NoError(t, err)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), "the other one still wants it")
	_, err = w.gate.Cancel(w.ctx, hub, r.ID.Job)
	require.ErrorIs(t, err, refusal.NotAllowed)
	_, err = w.gate.Cancel(w.ctx, other, r.ID.Job)
	require.NoError(t, err)
	require.Equal(t, op.StateCancelled, w.job(r.ID.Job).State())
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
	_, err := w.submit(ask("guest.destroy", "d"))
	require.ErrorIs(t, err, refusal.OverLimit)
	_, err = w.submit(ask("guest.destroy", "a"))
	require.NoError(t, err, "the same wish again is not one more")
}

func TestRefusalFloodIsBounded(t *testing.T) { // H11
	w := newWorld(t)
	before := len(w.kinds())
	for range 500 {
		_, err := w.submit(ask("guest.nonsense", "web"))
		require.ErrorIs(t, err, refusal.UnknownOp)
	}
	require.LessOrEqual(t, len(w.kinds())-before, 10)
	w.pass(2 * time.Minute)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, 490, w.lastRefusal().Count)
}

func TestWantRejectedIsNotAskedAgainUntilWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	a := ask("guest.destroy", "web")
	j, err := w.gate.Want(w.ctx, "fleet", a)
	require.NoError(t, err)
	r, err := w.gate.Request(w.ctx, j.Steps[0].ID)
	require.NoError(t, err)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice))
	require.NoError(t, err)
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Rejected)
	_, err = w.gate.Want(w.ctx, "fleet", a)
	require.ErrorIs(t, err, refusal.Rejected)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	j2, err := w.gate.Want(w.ctx, "fleet", a)
	require.NoError(t, err)
	require.NotEqual(t, j.ID, j2.ID)
}

func (w *world) rejection(r op.Request, k key) authz.Envelope {
	return w.rejectionWith(r, k, func(*op.Rejection) {})
}

func (w *world) rejectionWith(r op.Request, k key, change func(*op.Rejection)) authz.Envelope {
	now := w.read().Wall
	rej := op.Rejection{Gate: testGate, Host: testHost, Request: r.ID, PayloadSHA256: op.SHA256(r.Payload), Nonce: op.NewNonce(time.Now()),
		IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "no"}
	change(&rej)
	b, err := rej.Encode()
	require.NoError(w.t, err)
	return k.envelope(w.t, b)
}

func TestRejectionChecks(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	e := w.rejection(r, alice)
	_, err := w.gate.Approve(w.ctx, hub, r.ID, e)
	require.ErrorIs(t, err, refusal.Malformed) // S19
	_, err = w.gate.Reject(w.ctx, hub, r.ID, alice.envelope(t, r.Payload))
	require.ErrorIs(t, err, refusal.Malformed)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, mallory))
	require.ErrorIs(t, err, refusal.UnknownSigner)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, e)
	require.NoError(t, err)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, e)
	require.ErrorIs(t, err, refusal.Replayed)
}

func TestAuthorizedIsRejectedBeforeDispatch(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice))
	require.NoError(t, err)
	w.run()
	require.True(t, w.back.has("web"))
	require.Equal(t, op.StateRejected, w.job(r.ID.Job).State())
}

func TestWithdrawnWishes(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	a := ask("guest.destroy", "web")
	j, err := w.gate.Want(w.ctx, "fleet", a)
	require.NoError(t, err)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, []op.Ask{a}))
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "it is still wished for")
	require.NoError(t, w.gate.Withdraw(w.ctx, "other", a.Target, nil))
	require.Equal(t, op.StatePending, w.job(j.ID).State(), "another set cannot take it back")
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StateSuperseded, w.job(j.ID).State())

	j, err = w.gate.Want(w.ctx, "fleet", a)
	require.NoError(t, err)
	r, err := w.gate.Request(w.ctx, j.Steps[0].ID)
	require.NoError(t, err)
	_, err = w.approve(r)
	require.NoError(t, err)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.Equal(t, op.StateCancelled, w.job(j.ID).State(), "authorized, then withdrawn")
	w.run()
	require.True(t, w.back.has("web"))
}

func TestDriverErrorAfterDispatch(t *testing.T) {
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	w.back.fail = func(op.Step) error { return errors.New("disk on fire") }
	require.Error(t, w.execute(r.ID))
	require.Equal(t, op.StateFailed, w.job(r.ID.Job).State())
	w.back.fail = nil
	w.run()
	require.True(t, w.back.has("web"), "a destructive step that was dispatched is never run again")
}

func TestUnknownOutcomeIsInterrupted(t *testing.T) { // T13
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	p, err := w.gate.Permit(w.ctx, r.ID)
	require.NoError(t, err)
	now, _ := w.back.Observe(w.ctx, r.Step.Look())
	require.NoError(t, p.Use(w.ctx, now))
	w.restart()
	steps, err := w.gate.Dispatched(w.ctx)
	require.NoError(t, err)
	require.Len(t, steps, 1)
	_, err = w.gate.Record(w.ctx, r.ID, gate.Outcome{Unknown: true})
	require.NoError(t, err)
	require.Equal(t, op.StateInterrupted, w.job(r.ID.Job).State())
	w.run()
	require.True(t, w.back.has("web"))
}

func TestBackEndThatLies(t *testing.T) { // H09
	w := newWorld(t)
	w.back.put("web")
	r := w.request(ask("guest.destroy", "web"))
	_, err := w.approve(r)
	require.NoError(t, err)
	p, err := w.gate.Permit(w.ctx, r.ID)
	require.NoError(t, err)
	now, _ := w.back.Observe(w.ctx, r.Step.Look())
	require.NoError(t, p.Use(w.ctx, now))
	_, err = w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &now})
	require.NoError(t, err)
	require.Equal(t, op.StateFailed, w.job(r.ID.Job).State(), "said to be done, but still there")
	_, err = w.gate.Record(w.ctx, r.ID, gate.Outcome{After: &op.Observed{}})
	require.ErrorIs(t, err, refusal.Conflict, "a second answer changes nothing")
}
