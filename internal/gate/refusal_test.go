package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// TestRefusalsAreAuditedAndSpendNothing: each refusal of an approval has its
// code and stage in the log, and the request can be approved afterwards.
func TestRefusalsAreAuditedAndSpendNothing(t *testing.T) {
	w := newWorld(t, "a", "b")
	r, r2 := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	p := must.Get(op.DecodePayload(r.Payload))(t)
	changed := func(fn func(*op.Payload)) []byte {
		q := p
		fn(&q)
		return must.Get(q.Encode())(t)
	}
	otherBytes := changed(func(q *op.Payload) { q.Reason += "!" })
	for name, c := range map[string]struct {
		e     authz.Envelope
		want  refusal.Code
		stage refusal.Stage
	}{
		"no signature": {authz.Envelope{Payload: r.Payload}, refusal.Malformed, refusal.StageDecode},
		"no payload":   {authz.Envelope{Signatures: alice.envelope(t, r.Payload).Signatures}, refusal.Malformed, refusal.StageDecode},
		"not armored":  {authz.Envelope{Payload: r.Payload, Signatures: []string{"x"}}, refusal.Malformed, refusal.StageDecode},
		"other namespace": {authz.Envelope{Payload: r.Payload, Signatures: []string{alice.sign(t, "git", r.Payload)}},
			refusal.NamespaceMismatch, refusal.StageNamespace},
		"not listed":       {mallory.envelope(t, r.Payload), refusal.UnknownSigner, refusal.StageAllowList},
		"over other bytes": {authz.Envelope{Payload: r.Payload, Signatures: alice.envelope(t, otherBytes).Signatures}, refusal.BadSignature, refusal.StageCrypto},
		"other host":       {alice.envelope(t, changed(func(q *op.Payload) { q.Host = "pve2" })), refusal.TargetMismatch, refusal.StageTarget},
		"another request":  {alice.envelope(t, r2.Payload), refusal.BindingMismatch, refusal.StageNonce},
		"T12: other bytes": {alice.envelope(t, otherBytes), refusal.BindingMismatch, refusal.StageNonce},
		"S07: coordination": {authz.Envelope{Payload: r.Payload, Signatures: []string{carol.sign(t, op.Coordination.Namespace(), r.Payload)}},
			refusal.RoleDenied, refusal.StageRole},
		"S07: recovery": {authz.Envelope{Payload: r.Payload, Signatures: []string{rita.sign(t, op.Recovery.Namespace(), r.Payload)}},
			refusal.RoleDenied, refusal.StageRole},
	} {
		must.Fail(w.gate.Approve(w.ctx, other, r.ID, c.e))(t, c.want, name)
		last := w.lastRefusal()
		require.Equal(t, c.want, last.Code, name)
		require.Equal(t, c.stage, last.Stage, name)
		require.Equal(t, r.ID.String(), last.Step, name)
		require.Equal(t, "uid:1001", last.By, name)
		require.NotEmpty(t, last.Detail)
		require.Empty(t, w.fate(r.Nonce), name)
		require.Empty(t, w.fate(r2.Nonce), name)
	}
	for name, id := range map[string]op.RequestID{"no such request": {Job: 99, Index: 1}, "no such step": {Job: r.ID.Job, Index: 2}} {
		must.Fail(w.gate.Approve(w.ctx, hub, id, alice.envelope(t, r.Payload)))(t, refusal.BindingMismatch, name)
	}
	w.run()
	require.Empty(t, w.back.did())
	w.mustApprove(r)
	w.mustApprove(r2)
	w.verifyLog()
}

func TestRejectionNeedsAnApproversRole(t *testing.T) {
	w, r := newRequest(t, "a")
	b := w.rejection(r, alice).Payload
	for _, c := range []struct {
		k    key
		role op.Role
	}{{carol, op.Coordination}, {rita, op.Recovery}} {
		_, err := w.gate.Reject(w.ctx, hub, r.ID, authz.Envelope{Payload: b, Signatures: []string{c.k.sign(t, c.role.Namespace(), b)}})
		require.ErrorIs(t, err, refusal.RoleDenied)
	}
	_, err := w.gate.Reject(w.ctx, hub, op.RequestID{Job: 99, Index: 1}, w.rejection(r, alice))
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejectionWith(r, alice, func(x *op.Rejection) { x.PayloadSHA256 = op.SHA256(nil) }))
	require.ErrorIs(t, err, refusal.BindingMismatch)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejectionWith(r, alice, func(x *op.Rejection) { x.Request.Index = 2 }))
	require.ErrorIs(t, err, refusal.BindingMismatch)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejectionWith(r, alice, func(x *op.Rejection) { x.Host = "pve2" }))
	require.ErrorIs(t, err, refusal.TargetMismatch)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State())

	w.mustApprove(r)
	w.use(r.ID)
	_, err = w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, alice))
	require.ErrorIs(t, err, refusal.Conflict, "it is too late once it is dispatched")
	require.Equal(t, op.StateDispatched, w.job(r.ID.Job).State())
}

func TestOldRejectionIsNoneOfANewerPayload(t *testing.T) {
	w, r := newRequest(t, "a")
	e := w.rejection(r, alice)
	w.back.change("a", func(o *op.Observed) { o.Spec = op.Params{"memory": int64(1)} })
	require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
	must.Fail(w.gate.Reject(w.ctx, hub, r.ID, e))(t, refusal.BindingMismatch)
	require.Equal(t, op.StatePending, w.job(r.ID.Job).State())
}

// TestStoreFailure is H03: while the gate cannot write, it decides nothing and runs
// nothing. Afterwards all goes on.
func TestStoreFailure(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"a", "b", "c"} {
		w.back.put(n)
	}
	waiting, authorized := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	w.mustApprove(authorized)
	running := w.mustSubmit(ask("guest.start", "c")).Steps[0]
	w.use(running.ID)
	signed, aborted := alice.envelope(t, waiting.Payload), w.mustSubmit(ask("guest.stop", "b"))
	offline := alice.envelope(t, w.payload(ask("guest.wipe", "c")))
	rejection := w.rejection(waiting, alice)
	permit := must.Get(w.gate.Permit(w.ctx, authorized.ID))(t)

	full := false
	w.store.OnGroup(func(*store.Tx) error {
		if full {
			return errors.New("no space left on device")
		}
		return nil
	})
	before, entries := w.dump(), len(w.kinds())
	full = true
	c := w.back.get("c")
	for name, fn := range map[string]func() error{
		"submit benign":      func() error { _, err := w.submit(ask("guest.start", "b")); return err },
		"submit destructive": func() error { _, err := w.submit(ask("guest.destroy", "c")); return err },
		"submit nonsense":    func() error { _, err := w.submit(ask("guest.nonsense", "c")); return err },
		"want":               func() error { _, err := w.gate.Want(w.ctx, "fleet", ask("guest.destroy", "c")); return err },
		"approve":            func() error { _, err := w.gate.Approve(w.ctx, hub, waiting.ID, signed); return err },
		"approve wrongly": func() error {
			_, err := w.gate.Approve(w.ctx, hub, waiting.ID, mallory.envelope(t, waiting.Payload))
			return err
		},
		"offline": func() error { _, err := w.offline(offline); return err },
		"reject":  func() error { _, err := w.gate.Reject(w.ctx, hub, waiting.ID, rejection); return err },
		"cancel":  func() error { _, err := w.gate.Cancel(w.ctx, hub, aborted.ID); return err },
		"use":     func() error { return permit.Use(w.ctx, w.back.get("b")) },
		"record":  func() error { _, err := w.gate.Record(w.ctx, running.ID, gate.Outcome{After: &c}); return err },
		"refuse":  func() error { _, err := w.gate.Refuse(w.ctx, authorized.ID, refusal.StaleTarget); return err },
		"task":    func() error { return w.gate.SetTask(w.ctx, running.ID, "t") },
		"put set": func() error { _, err := w.gate.PutSet(w.ctx, root, "s", "", []byte("x")); return err },
		"reload":  func() error { return w.gate.Reload(w.ctx, nil, w.gate.Policy()) },
		"log":     func() error { return w.gate.Log(w.ctx, audit.Entry{Kind: audit.Stopped}) },
	} {
		require.ErrorIs(t, fn(), refusal.Unavailable, name)
		require.Equal(t, before, w.dump(), name)
	}
	require.Len(t, w.kinds(), entries)
	require.Empty(t, w.back.did())
	full = false
	must.Get(w.gate.Approve(w.ctx, hub, waiting.ID, signed))(t)
	must.Get(w.gate.Record(w.ctx, running.ID, gate.Outcome{After: &c}))(t)
	require.ErrorIs(t, permit.Use(w.ctx, w.back.get("b")), refusal.Conflict, "a permit is used by trying")
	w.run()
	require.False(t, w.back.has("a"))
	require.False(t, w.back.has("b"))
	w.verifyLog()
}

// dump is everything that decisions write, without the log.
func (w *world) dump() (out []op.Job) {
	w.t.Helper()
	jobs := must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(w.t)
	for _, j := range jobs {
		for _, s := range j.Steps {
			if r, err := w.gate.Request(w.ctx, s.ID); err == nil {
				require.Equal(w.t, s.State != op.StatePending, w.fate(r.Nonce) != "", "%s is %s", s.ID, s.State)
			}
		}
	}
	return jobs
}

func TestClosedStore(t *testing.T) {
	w, r := newRequest(t, "a")
	w.mustApprove(r)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.NoError(t, w.store.Close())
	must.Fail(w.submit(ask("guest.destroy", "a")))(t, refusal.Unavailable)
	must.Fail(w.approve(r))(t, refusal.Unavailable)
	require.ErrorIs(t, p.Use(w.ctx, w.back.get("a")), refusal.Unavailable)
	require.ErrorIs(t, w.gate.Tick(w.ctx), refusal.Unavailable)
	require.True(t, w.back.has("a"))
}

func TestCancelledCaller(t *testing.T) {
	w, r := newRequest(t, "a")
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	must.Fail(w.gate.Approve(gone, hub, r.ID, alice.envelope(t, r.Payload)))(t, refusal.Unavailable)
	require.Empty(t, w.fate(r.Nonce))
	w.mustApprove(r)
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.ErrorIs(t, p.Use(gone, w.back.get("a")), refusal.Unavailable)
	require.Equal(t, op.StateAuthorized, w.job(r.ID.Job).State(), "nothing was dispatched")
	require.ErrorIs(t, p.Use(w.ctx, w.back.get("a")), refusal.Conflict, "and that permit is gone")
	w.run()
	require.False(t, w.back.has("a"), "a new one works")
}

// TestWordsOfOthersAreBoundedText: text of a caller or a back end neither makes the
// log large nor prevents the record of a decision.
func TestWordsOfOthersAreBoundedText(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.submit(op.Ask{Op: strings.Repeat("x", 199) + "ä" + strings.Repeat("y", 1<<20), Target: op.Target{Kind: "guest", Name: "a"}})
	require.ErrorIs(t, err, refusal.UnknownOp)
	last := w.lastRefusal()
	require.LessOrEqual(t, len(last.Op), 200)
	require.LessOrEqual(t, len(last.Detail), 1024)

	j := w.mustSubmit(ask("guest.start", "a"))
	w.use(j.Steps[0].ID)
	_, err = w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Err: errors.New("open \xff\xfe: " + strings.Repeat("ä", 4096))})
	require.NoError(t, err, "an end that is not text is recorded all the same")
	s := w.job(j.ID).Steps[0]
	require.Equal(t, op.StateFailed, s.State)
	require.LessOrEqual(t, len(s.Detail), 1024)
	require.NoError(t, op.CheckText("detail", s.Detail))
	w.verifyLog()
}

func TestFloodIsCountedPerCallerAndCode(t *testing.T) {
	w := newWorld(t)
	before := len(w.kinds())
	for i := range 40 {
		by := hub
		by.UID = uint32(2000 + i%2)
		code, a := refusal.UnknownOp, ask("guest.nonsense", "a")
		if i%4 >= 2 {
			code, a = refusal.UnknownTarget, ask("guest.start", "nobody")
		}
		must.Fail(w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: []op.Ask{a}}))(t, code)
	}
	require.Len(t, w.kinds(), before+40, "ten of each of two callers and two codes")
	must.Fail(w.submit(ask("guest.nonsense", "a")))(t, refusal.UnknownOp)
	require.Len(t, w.kinds(), before+41)
	w.Pass(61 * time.Second)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Len(t, w.kinds(), before+41, "there is nothing to sum up")
}

// TestWhatIsWithheldIsCounted: the entries that a flood did not get are one entry with their number, which comes with the next refusal
// of the same caller and code.
func TestWhatIsWithheldIsCounted(t *testing.T) {
	w := newWorld(t)
	for range 13 {
		must.Fail(w.submit(ask("guest.nonsense", "a")))(t, refusal.UnknownOp)
	}
	before := len(w.kinds())
	w.Pass(61 * time.Second)
	must.Fail(w.submit(ask("guest.nonsense", "a")))(t, refusal.UnknownOp)
	es := must.Get(w.gate.Events(w.ctx, int64(before), 10))(t)
	require.Len(t, es, 2)
	require.Equal(t, 3, es[0].Count)
	require.Equal(t, refusal.UnknownOp, es[0].Code)
	require.Zero(t, es[1].Count)
}

// TestTheLogNamesTheStepOfARefusedJob: also if it is the only one, and before the gate has looked at it.
func TestTheLogNamesTheStepOfARefusedJob(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceDesired, Set: "fleet"}, Steps: []op.Ask{ask("guest.destroy", "a")}})
	require.ErrorIs(t, err, refusal.NotAllowed)
	e := w.lastRefusal()
	require.Equal(t, "guest.destroy", e.Op)
	require.Equal(t, "guest/a", e.Target)
}

func TestASetThatIsNotThereIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	before := len(w.kinds())
	require.ErrorIs(t, w.gate.DeleteSet(w.ctx, hub, "none"), refusal.UnknownTarget)
	require.Equal(t, []audit.Kind{audit.Refused}, w.kinds()[before:])
}
