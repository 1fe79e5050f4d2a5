package gate_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// payload is what opsign sign makes for a guest in its present state.
func (w *world) payload(a op.Ask, change ...func(*op.Payload)) []byte {
	w.t.Helper()
	o := must.Get(w.back.Observe(w.ctx, op.At(a.Target)))(w.t)
	if !o.Present {
		o.Fingerprint = op.FingerprintOf([]byte("absent"))
	}
	p := op.Payload{Gate: testGate, Host: testHost, Op: a.Op, Target: a.Target, Incarnation: o.Incarnation, State: o.Fingerprint,
		Params: a.Params, Nonce: op.NewNonce(time.Now()), IssuedAt: w.Now(), ExpiresAt: w.Now().Add(time.Hour)}
	for _, c := range change {
		c(&p)
	}
	return must.Get(p.Encode())(w.t)
}

func (w *world) offline(e authz.Envelope) (op.Request, error) {
	return w.gate.ApproveOffline(w.ctx, hub, e)
}

// quiet asserts that the refused payload left no job and no nonce.
func (w *world) quiet(payload []byte) {
	w.t.Helper()
	require.Empty(w.t, must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(w.t))
	if p, err := op.DecodePayload(payload); err == nil {
		_, known := w.nonceOf(p.Nonce)
		require.False(w.t, known, "a refusal spends nothing")
	}
	w.run()
	require.Empty(w.t, w.back.did())
}

func TestOfflineRunsOnce(t *testing.T) {
	w := newWorld(t)
	for _, a := range []op.Ask{ask("guest.destroy", "a"), ask("guest.create", "new", "memory", int64(5)), ask("guest.start", "b")} {
		w.back.put("a")
		w.back.put("b")
		w.back.done = nil
		e := alice.envelope(t, w.payload(a))
		r, err := w.offline(e)
		require.NoError(t, err, a.Op)
		require.Equal(t, op.StateAuthorized, r.Step.State)
		require.Equal(t, op.Destructive, r.Step.Verdict.Class, "what was signed runs as what is signed: bound, and once")
		require.True(t, r.Offline)
		w.run()
		require.Equal(t, []string{a.Op + " " + a.Target.Name}, w.back.did())
		require.Equal(t, op.StateSucceeded, w.job(r.ID.Job).State())
		_, err = w.offline(e)
		require.ErrorIs(t, err, refusal.Replayed)
		require.Equal(t, r.ID.String(), refusal.As(err).Request)
	}
	w.back.remove("a")
	require.True(t, w.back.trash["a"].Present)
	must.Get(w.offline(alice.envelope(t, w.payload(ask("guest.undelete", "a")))))(t)
	w.run()
	require.True(t, w.back.has("a"))
	w.verifyLog()
}

func TestOfflineRefusals(t *testing.T) {
	w := newWorld(t, "a")
	destroy := ask("guest.destroy", "a")
	signedAs := func(k key, role op.Role) func([]byte) authz.Envelope {
		return func(b []byte) authz.Envelope {
			return authz.Envelope{Payload: b, Signatures: []string{k.sign(t, role.Namespace(), b)}}
		}
	}
	asAlice := signedAs(alice, op.Operational)
	for name, c := range map[string]struct {
		ask    op.Ask
		change func(*op.Payload)
		sign   func([]byte) authz.Envelope
		want   refusal.Code
		stage  refusal.Stage
	}{
		"S07: coordination": {destroy, nil, signedAs(carol, op.Coordination), refusal.RoleDenied, refusal.StageRole},
		"S07: recovery":     {destroy, nil, signedAs(rita, op.Recovery), refusal.RoleDenied, refusal.StageRole},
		"S06: other role":   {destroy, nil, signedAs(carol, op.Operational), refusal.UnknownSigner, refusal.StageAllowList},
		"S03: not listed":   {destroy, nil, signedAs(mallory, op.Operational), refusal.UnknownSigner, refusal.StageAllowList},
		"role before state": {destroy, func(p *op.Payload) { p.Incarnation = "other" }, signedAs(carol, op.Coordination), refusal.RoleDenied, refusal.StageRole},
		"one of two wrong": {destroy, nil, func(b []byte) authz.Envelope {
			return authz.Envelope{Payload: b, Signatures: []string{alice.sign(t, op.Operational.Namespace(), b), carol.sign(t, op.Coordination.Namespace(), b)}}
		}, refusal.RoleDenied, refusal.StageRole},
		"T01: expired": {destroy, func(p *op.Payload) {
			p.IssuedAt, p.ExpiresAt = p.IssuedAt.Add(-time.Hour), p.IssuedAt.Add(-gate.Skew-time.Second)
		}, asAlice, refusal.Expired, refusal.StageTime},
		"T01: not yet": {destroy, func(p *op.Payload) { p.IssuedAt = p.IssuedAt.Add(gate.Skew + time.Second) }, asAlice, refusal.NotYetValid, refusal.StageTime},
		"T01: too long": {destroy, func(p *op.Payload) { p.ExpiresAt = p.IssuedAt.Add(policy.MaxValidity + time.Second) }, asAlice,
			refusal.ValidityTooLong, refusal.StageTime},
		"other incarnation": {destroy, func(p *op.Payload) { p.Incarnation += "y" }, asAlice, refusal.StaleTarget, refusal.StageBinding},
		"other state":       {destroy, func(p *op.Payload) { p.State = op.FingerprintOf([]byte("x")) }, asAlice, refusal.StaleTarget, refusal.StageBinding},
		"other host":        {destroy, func(p *op.Payload) { p.Host = "pve2" }, asAlice, refusal.TargetMismatch, refusal.StageTarget},
		"other gate":        {destroy, func(p *op.Payload) { p.Gate = op.GateID(strings.Repeat("f", 32)) }, asAlice, refusal.TargetMismatch, refusal.StageTarget},
		"unknown op":        {destroy, func(p *op.Payload) { p.Op = "guest.frobnicate" }, asAlice, refusal.UnknownOp, ""},
		"unknown param":     {ask("guest.destroy", "a", "force", true), nil, asAlice, refusal.BadParams, ""},
		"a command":         {ask("guest.create", "x", "command", "sh"), nil, asAlice, refusal.NotAllowed, ""},
		"nothing there":     {ask("guest.destroy", "nobody"), nil, asAlice, refusal.UnknownTarget, ""},
		"taken name":        {ask("guest.create", "a"), nil, asAlice, refusal.Conflict, ""},
		"empty trash":       {ask("guest.undelete", "x"), nil, asAlice, refusal.UnknownTarget, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b []byte
			if c.change == nil {
				b = w.payload(c.ask)
			} else {
				b = w.payload(c.ask, c.change)
			}
			_, err := w.offline(c.sign(b))
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.stage, refusal.As(err).Stage)
			last := w.lastRefusal()
			require.Equal(t, c.want, last.Code)
			require.Equal(t, c.stage, last.Stage)
			w.quiet(b)
		})
	}
	w.verifyLog()
}

// TestOfflineTimeAtTheEdges is T01: both ends, with the skew, are in time.
func TestOfflineTimeAtTheEdges(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*op.Payload){
		"just expired": func(p *op.Payload) {
			p.IssuedAt, p.ExpiresAt = p.IssuedAt.Add(-time.Hour), p.IssuedAt.Add(-gate.Skew)
		},
		"just issued":       func(p *op.Payload) { p.IssuedAt = p.IssuedAt.Add(gate.Skew) },
		"as long as may be": func(p *op.Payload) { p.ExpiresAt = p.IssuedAt.Add(policy.MaxValidity) },
	} {
		w.back.put("a")
		must.Get(w.offline(alice.envelope(t, w.payload(ask("guest.destroy", "a"), change))))(t, name)
		w.run()
		require.False(t, w.back.has("a"), name)
	}
}

func TestOfflineExpiresBeforeItRuns(t *testing.T) {
	w := newWorld(t, "a")
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	r := must.Get(w.offline(e))(t)
	w.Pass(time.Hour + gate.Skew + time.Second)
	require.ErrorIs(t, w.execute(r.ID), refusal.Expired)
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State())
	must.Fail(w.offline(e))(t, refusal.Expired)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State(), "nothing issues an operator's own payload anew")
	require.True(t, w.back.has("a"))
}

func TestConcurrentDoubleSubmitHasOneWinner(t *testing.T) {
	w := newWorld(t, "a")
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	accepted := race(t, 64, refusal.Replayed, func(int) error { _, err := w.offline(e); return err })
	require.Equal(t, 1, accepted)
	require.Len(t, must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(t), 1)
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did())
}

// race runs fn n times at once and returns how often it succeeded. The other runs
// must be refused with want.
func race(t *testing.T, n int, want refusal.Code, fn func(int) error) (ok int) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range errs {
		wg.Go(func() { <-start; errs[i] = fn(i) })
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			ok++
		} else {
			require.ErrorIs(t, err, want)
		}
	}
	return ok
}

func TestSpentNonceUnderOtherBytes(t *testing.T) { // T05, T06
	w := newWorld(t, "a", "b")
	b := w.payload(ask("guest.destroy", "a"))
	r := must.Get(w.offline(alice.envelope(t, b)))(t)
	p := must.Get(op.DecodePayload(b))(t)
	again := func(change func(*op.Payload)) []byte {
		return w.payload(ask("guest.destroy", "b"), func(q *op.Payload) { q.Nonce = p.Nonce; change(q) })
	}
	other := again(func(*op.Payload) {})
	both := authz.Envelope{Payload: b, Signatures: []string{alice.sign(t, op.Operational.Namespace(), b), alice.sign(t, op.Operational.Namespace(), b)}}
	resigned := alice.envelope(t, b)
	wrapped := authz.Envelope{Payload: b, Signatures: []string{rewrap(resigned.Signatures[0])}}
	check := func() {
		for name, e := range map[string]authz.Envelope{"T05: other payload, same signer": alice.envelope(t, other), "T06: signed again": resigned,
			"T06: signed twice": both, "T06: other line ends": wrapped} {
			_, err := w.offline(e)
			if name == "T06: other line ends" && !isCode(err, refusal.Replayed) {
				require.ErrorIs(t, err, refusal.Malformed, name)
			} else {
				require.ErrorIs(t, err, refusal.Replayed, name)
			}
			must.Err(w.gate.Approve(w.ctx, hub, r.ID, e))(t, name)
		}
	}
	check()
	w.run()
	check()
	w.restart()
	check()
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did())
	require.True(t, w.back.has("b"))
}

func isCode(err error, c refusal.Code) bool { return refusal.CodeOf(err) == c }

// rewrap changes an armored signature's line ends.
func rewrap(armor string) string { return strings.ReplaceAll(armor, "\n", "\r\n") }

func TestRejectionsNonceIsNoApprovals(t *testing.T) {
	w, r := newRequest(t, "a")
	e := w.rejection(r, alice)
	rej := must.Get(op.DecodeRejection(e.Payload))(t)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, e))(t)
	b := w.payload(ask("guest.destroy", "a"), func(p *op.Payload) { p.Nonce = rej.Nonce })
	must.Fail(w.offline(alice.envelope(t, b)))(t, refusal.Replayed)
	require.True(t, w.back.has("a"))

	// The reverse: a rejection with an approval's nonce.
	used := w.payload(ask("guest.destroy", "a"))
	must.Get(w.offline(alice.envelope(t, used)))(t)
	w.back.put("b")
	r2 := w.request(ask("guest.destroy", "b"))
	p := must.Get(op.DecodePayload(used))(t)
	_, err := w.gate.Reject(w.ctx, hub, r2.ID, w.rejectionWith(r2, alice, func(r *op.Rejection) { r.Nonce = p.Nonce }))
	require.ErrorIs(t, err, refusal.Replayed)
	_, err = w.gate.Reject(w.ctx, hub, r2.ID, w.rejectionWith(r2, alice, func(r *op.Rejection) { r.Nonce = r2.Nonce }))
	require.ErrorIs(t, err, refusal.Malformed)
	require.Equal(t, op.StatePending, w.job(r2.ID.Job).State())
}

// TestEndsOfARequest is T08 and T11: every end of a request, and the code that its
// stored bytes get afterwards, at both end points.
func TestEndsOfARequest(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		end  func(op.Request)
		want refusal.Code
	}{
		"rejected":  {func(r op.Request) { w.mustReject(r) }, refusal.Rejected},
		"cancelled": {func(r op.Request) { _, err := w.gate.Cancel(w.ctx, hub, r.ID.Job); require.NoError(t, err) }, refusal.Cancelled},
		"superseded": {func(r op.Request) {
			w.back.remove("a")
			w.back.put("a")
			require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		}, refusal.Superseded},
		"gone": {func(r op.Request) {
			w.back.remove("a")
			require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		}, refusal.Superseded},
		"expired": {func(op.Request) {
			w.Pass(policy.MaxValidity + gate.Skew + time.Second)
			require.NoError(t, w.gate.Tick(w.ctx))
		}, refusal.Expired},
		"approved": {func(r op.Request) { w.mustApprove(r) }, refusal.Replayed},
		"done":     {func(r op.Request) { w.mustApprove(r); w.run() }, refusal.Replayed},
	} {
		w.back.put("a")
		w.back.done = nil
		r := w.request(ask("guest.destroy", "a"))
		c.end(r)
		did := len(w.back.did())
		must.Fail(w.approve(r))(t, c.want, name)
		must.Fail(w.offline(alice.envelope(t, r.Payload)))(t, c.want, "%s, at /v1/ops", name)
		w.restart()
		must.Fail(w.offline(alice.envelope(t, r.Payload)))(t, c.want, "%s, after a restart", name)
		if name != "approved" {
			w.run()
			require.Len(t, w.back.did(), did, name)
		}
		if s := w.job(r.ID.Job).State(); s.Open() {
			must.Get(w.gate.Cancel(w.ctx, op.Requester{Source: op.SourceAPI, UID: 0}, r.ID.Job))(t, name)
		}
		w.back.remove("a")
	}
	w.verifyLog()
}

// TestOldApprovalForANewRequest is T07.
func TestOldApprovalForANewRequest(t *testing.T) {
	w := newWorld(t, "a")
	old := w.request(ask("guest.wipe", "a"))
	w.mustApprove(old)
	w.run()
	w.back.done = nil
	next := w.request(ask("guest.wipe", "a"))
	require.NotEqual(t, old.ID, next.ID)
	must.Fail(w.gate.Approve(w.ctx, hub, next.ID, alice.envelope(t, old.Payload)))(t, refusal.Replayed)
	p := must.Get(op.DecodePayload(old.Payload))(t)
	p.Nonce = op.NewNonce(time.Now())
	b := must.Get(p.Encode())(t)
	must.Fail(w.gate.Approve(w.ctx, hub, next.ID, alice.envelope(t, b)))(t, refusal.BindingMismatch)
	w.run()
	require.Empty(t, w.back.did())
	w.mustApprove(next)
}

// TestRequestsOfAnotherGateAreIssuedAnew: a restore gives the state a new gate id.
// Waiting requests then need new signatures, under the same request id.
func TestRequestsOfAnotherGateAreIssuedAnew(t *testing.T) {
	w := newWorld(t, "a", "b")
	waiting, authorized := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	w.mustApprove(authorized)
	fscktest.Breaks(t, w.store, "gate-ids") // a restore would have written an entry
	require.NoError(t, w.store.Close())
	w.id = op.GateID(strings.Repeat("9", 32))
	w.open()
	must.Fail(w.approve(waiting))(t, refusal.TargetMismatch)
	require.ErrorIs(t, w.execute(authorized.ID), refusal.BindingMismatch, "what was approved for the old one does not run")
	for range 2 {
		require.NoError(t, w.gate.Tick(w.ctx))
		must.Fail(w.approve(waiting))(t, refusal.TargetMismatch)
	}
	again := must.Get(w.gate.Request(w.ctx, waiting.ID))(t)
	w.mustApprove(again)
	w.run()
	require.False(t, w.back.has("a"))
	require.True(t, w.back.has("b"))
	w.verifyLog()
}
