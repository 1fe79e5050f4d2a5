package gate_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// payload is what opsign sign makes for a guest in its present state.
func (w *world) payload(a op.Ask, change ...func(*op.Payload)) []byte {
	w.t.Helper()
	o, err := w.back.Observe(w.ctx, op.At(a.Target))
	require.NoError(w.t, err)
	if !o.Present {
		o.Fingerprint = op.FingerprintOf([]byte("absent"))
	}
	p := op.Payload{Gate: testGate, Host: testHost, Op: a.Op, Target: a.Target, Incarnation: o.Incarnation, State: o.Fingerprint,
		Params: a.Params, Nonce: nonce.New(), IssuedAt: w.read().Wall, ExpiresAt: w.read().Wall.Add(time.Hour)}
	for _, c := range change {
		c(&p)
	}
	b, err := p.Encode()
	require.NoError(w.t, err)
	return b
}

func (w *world) offline(e authz.Envelope) (op.Request, error) {
	return w.gate.ApproveOffline(w.ctx, hub, e)
}

// quiet asserts that the refused payload left no job and no nonce.
func (w *world) quiet(payload []byte) {
	w.t.Helper()
	jobs, err := w.gate.Jobs(w.ctx, gate.JobFilter{})
	require.NoError(w.t, err)
	require.Empty(w.t, jobs)
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
		require.ErrorIs(t, err, op.Replayed)
		require.Equal(t, r.ID, *op.AsRefusal(err).Request)
	}
	w.back.remove("a")
	require.True(t, w.back.trash["a"].Present)
	_, err := w.offline(alice.envelope(t, w.payload(ask("guest.undelete", "a"))))
	require.NoError(t, err)
	w.run()
	require.True(t, w.back.has("a"))
	w.verifyLog()
}

func TestOfflineRefusals(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
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
		want   op.Code
		stage  op.Stage
	}{
		"S07: coordination": {destroy, nil, signedAs(carol, op.Coordination), op.RoleDenied, op.StageRole},
		"S07: recovery":     {destroy, nil, signedAs(rita, op.Recovery), op.RoleDenied, op.StageRole},
		"S06: other role":   {destroy, nil, signedAs(carol, op.Operational), op.UnknownSigner, op.StageAllowList},
		"S03: not listed":   {destroy, nil, signedAs(mallory, op.Operational), op.UnknownSigner, op.StageAllowList},
		"role before state": {destroy, func(p *op.Payload) { p.Incarnation = "other" }, signedAs(carol, op.Coordination), op.RoleDenied, op.StageRole},
		"one of two wrong": {destroy, nil, func(b []byte) authz.Envelope {
			return authz.Envelope{Payload: b, Signatures: []string{alice.sign(t, op.Operational.Namespace(), b), carol.sign(t, op.Coordination.Namespace(), b)}}
		}, op.RoleDenied, op.StageRole},
		"T01: expired": {destroy, func(p *op.Payload) {
			p.IssuedAt, p.ExpiresAt = p.IssuedAt.Add(-time.Hour), p.IssuedAt.Add(-gate.Skew-time.Second)
		}, asAlice, op.Expired, op.StageTime},
		"T01: not yet": {destroy, func(p *op.Payload) { p.IssuedAt = p.IssuedAt.Add(gate.Skew + time.Second) }, asAlice, op.NotYetValid, op.StageTime},
		"T01: too long": {destroy, func(p *op.Payload) { p.ExpiresAt = p.IssuedAt.Add(policy.MaxValidity + time.Second) }, asAlice,
			op.ValidityTooLong, op.StageTime},
		"other incarnation": {destroy, func(p *op.Payload) { p.Incarnation += "y" }, asAlice, op.StaleTarget, op.StageBinding},
		"other state":       {destroy, func(p *op.Payload) { p.State = op.FingerprintOf([]byte("x")) }, asAlice, op.StaleTarget, op.StageBinding},
		"other host":        {destroy, func(p *op.Payload) { p.Host = "pve2" }, asAlice, op.TargetMismatch, op.StageTarget},
		"other gate":        {destroy, func(p *op.Payload) { p.Gate = op.GateID(strings.Repeat("f", 32)) }, asAlice, op.TargetMismatch, op.StageTarget},
		"unknown op":        {destroy, func(p *op.Payload) { p.Op = "guest.frobnicate" }, asAlice, op.UnknownOp, ""},
		"unknown param":     {ask("guest.destroy", "a", "force", true), nil, asAlice, op.BadParams, ""},
		"a command":         {ask("guest.create", "x", "command", "sh"), nil, asAlice, op.NotAllowed, ""},
		"nothing there":     {ask("guest.destroy", "nobody"), nil, asAlice, op.UnknownTarget, ""},
		"taken name":        {ask("guest.create", "a"), nil, asAlice, op.Conflict, ""},
		"empty trash":       {ask("guest.undelete", "x"), nil, asAlice, op.UnknownTarget, ""},
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
			require.Equal(t, c.stage, op.AsRefusal(err).Stage)
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
		_, err := w.offline(alice.envelope(t, w.payload(ask("guest.destroy", "a"), change)))
		require.NoError(t, err, name)
		w.run()
		require.False(t, w.back.has("a"), name)
	}
}

func TestOfflineExpiresBeforeItRuns(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	r, err := w.offline(e)
	require.NoError(t, err)
	w.pass(time.Hour + gate.Skew + time.Second)
	require.ErrorIs(t, w.execute(r.ID), op.Expired)
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State())
	_, err = w.offline(e)
	require.ErrorIs(t, err, op.Expired)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, op.StateExpired, w.job(r.ID.Job).State(), "nothing issues an operator's own payload anew")
	require.True(t, w.back.has("a"))
}

func TestConcurrentDoubleSubmitHasOneWinner(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	accepted := race(t, 64, op.Replayed, func(int) error { _, err := w.offline(e); return err })
	require.Equal(t, 1, accepted)
	jobs, err := w.gate.Jobs(w.ctx, gate.JobFilter{})
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did())
}

// race runs fn n times at once and returns how often it succeeded. The other runs
// must be refused with want.
func race(t *testing.T, n int, want op.Code, fn func(int) error) (ok int) {
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
	w := newWorld(t)
	w.back.put("a")
	w.back.put("b")
	b := w.payload(ask("guest.destroy", "a"))
	r, err := w.offline(alice.envelope(t, b))
	require.NoError(t, err)
	p, err := op.DecodePayload(b)
	require.NoError(t, err)
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
			if name == "T06: other line ends" && !isCode(err, op.Replayed) {
				require.ErrorIs(t, err, op.Malformed, name)
			} else {
				require.ErrorIs(t, err, op.Replayed, name)
			}
			_, err = w.gate.Approve(w.ctx, hub, r.ID, e)
			require.Error(t, err, name)
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

func isCode(err error, c op.Code) bool { return op.CodeOf(err) == c }

// rewrap changes an armored signature's line ends.
func rewrap(armor string) string { return strings.ReplaceAll(armor, "\n", "\r\n") }

func TestRejectionsNonceIsNoApprovals(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	r := w.request(ask("guest.destroy", "a"))
	e := w.rejection(r, alice)
	rej, err := op.DecodeRejection(e.Payload)
	require.NoError(t, err)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, e)
	require.NoError(t, err)
	b := w.payload(ask("guest.destroy", "a"), func(p *op.Payload) { p.Nonce = rej.Nonce })
	_, err = w.offline(alice.envelope(t, b))
	require.ErrorIs(t, err, op.Replayed)
	require.True(t, w.back.has("a"))

	// The reverse: a rejection with an approval's nonce.
	used := w.payload(ask("guest.destroy", "a"))
	_, err = w.offline(alice.envelope(t, used))
	require.NoError(t, err)
	w.back.put("b")
	r2 := w.request(ask("guest.destroy", "b"))
	p, err := op.DecodePayload(used)
	require.NoError(t, err)
	_, err = w.gate.Reject(w.ctx, hub, r2.ID, w.rejectionWith(r2, alice, func(r *op.Rejection) { r.Nonce = p.Nonce }))
	require.ErrorIs(t, err, op.Replayed)
	_, err = w.gate.Reject(w.ctx, hub, r2.ID, w.rejectionWith(r2, alice, func(r *op.Rejection) { r.Nonce = r2.Nonce }))
	require.ErrorIs(t, err, op.Malformed)
	require.Equal(t, op.StatePending, w.job(r2.ID.Job).State())
}

// TestEndsOfARequest is T08 and T11: every end of a request, and the code that its
// stored bytes get afterwards, at both end points.
func TestEndsOfARequest(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		end  func(op.Request)
		want op.Code
	}{
		"rejected":  {func(r op.Request) { w.mustReject(r) }, op.Rejected},
		"cancelled": {func(r op.Request) { _, err := w.gate.Cancel(w.ctx, hub, r.ID.Job); require.NoError(t, err) }, op.Cancelled},
		"superseded": {func(r op.Request) {
			w.back.remove("a")
			w.back.put("a")
			require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		}, op.Superseded},
		"gone": {func(r op.Request) {
			w.back.remove("a")
			require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		}, op.Superseded},
		"expired": {func(op.Request) {
			w.pass(policy.MaxValidity + gate.Skew + time.Second)
			require.NoError(t, w.gate.Tick(w.ctx))
		}, op.Expired},
		"approved": {func(r op.Request) { w.mustApprove(r) }, op.Replayed},
		"done":     {func(r op.Request) { w.mustApprove(r); w.run() }, op.Replayed},
	} {
		w.back.put("a")
		w.back.done = nil
		r := w.request(ask("guest.destroy", "a"))
		c.end(r)
		did := len(w.back.did())
		_, err := w.approve(r)
		require.ErrorIs(t, err, c.want, name)
		_, err = w.offline(alice.envelope(t, r.Payload))
		require.ErrorIs(t, err, c.want, "%s, at /v1/ops", name)
		w.restart()
		_, err = w.offline(alice.envelope(t, r.Payload))
		require.ErrorIs(t, err, c.want, "%s, after a restart", name)
		if name != "approved" {
			w.run()
			require.Len(t, w.back.did(), did, name)
		}
		if s := w.job(r.ID.Job).State(); s.Open() {
			_, err := w.gate.Cancel(w.ctx, op.Requester{Source: op.SourceAPI, UID: 0}, r.ID.Job)
			require.NoError(t, err, name)
		}
		w.back.remove("a")
	}
	w.verifyLog()
}

// TestOldApprovalForANewRequest is T07.
func TestOldApprovalForANewRequest(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	old := w.request(ask("guest.wipe", "a"))
	w.mustApprove(old)
	w.run()
	w.back.done = nil
	next := w.request(ask("guest.wipe", "a"))
	require.NotEqual(t, old.ID, next.ID)
	_, err := w.gate.Approve(w.ctx, hub, next.ID, alice.envelope(t, old.Payload))
	require.ErrorIs(t, err, op.Replayed)
	p, err := op.DecodePayload(old.Payload)
	require.NoError(t, err)
	p.Nonce = nonce.New()
	b, err := p.Encode()
	require.NoError(t, err)
	_, err = w.gate.Approve(w.ctx, hub, next.ID, alice.envelope(t, b))
	require.ErrorIs(t, err, op.BindingMismatch)
	w.run()
	require.Empty(t, w.back.did())
	w.mustApprove(next)
}

// TestRequestsOfAnotherGateAreIssuedAnew: a restore gives the state a new gate id.
// Waiting requests then need new signatures, under the same request id.
func TestRequestsOfAnotherGateAreIssuedAnew(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	w.back.put("b")
	waiting, authorized := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	w.mustApprove(authorized)
	fscktest.Breaks(t, w.store, "gate-ids") // a restore would have written an entry
	require.NoError(t, w.store.Close())
	w.id = op.GateID(strings.Repeat("9", 32))
	w.open()
	_, err := w.approve(waiting)
	require.ErrorIs(t, err, op.TargetMismatch)
	require.ErrorIs(t, w.execute(authorized.ID), op.BindingMismatch, "what was approved for the old one does not run")
	for range 2 {
		require.NoError(t, w.gate.Tick(w.ctx))
		_, err = w.approve(waiting)
		require.ErrorIs(t, err, op.TargetMismatch)
	}
	again, err := w.gate.Request(w.ctx, waiting.ID)
	require.NoError(t, err)
	w.mustApprove(again)
	w.run()
	require.False(t, w.back.has("a"))
	require.True(t, w.back.has("b"))
	w.verifyLog()
}
