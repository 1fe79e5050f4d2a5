package matrix_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// drillOf is a wish for a drill of an operation at a target.
func drillOf(as, target string) op.Ask {
	return op.Ask{Op: op.Drill, Target: op.Drilled, Params: op.Params{"as": as, "target": target}}
}

// drill is the open drill of the victim's end.
func (w *world) drill() op.Request {
	w.t.Helper()
	return w.requestBy(operator, drillOf("guest.destroy", "guest/victim"))
}

// refusedDrill is a row in which a drill is asked for that the gate does not take.
func refusedDrill(id, what string, want refusal.Code, by op.Requester, asks ...op.Ask) attack {
	return attack{id: id, what: "drill: " + what, want: want, run: func(w *world) error {
		w.arm()
		_, err := w.submit(by, asks...)
		return err
	}}
}

// drillRows are S30: a drill asks for a signature, which is worth nothing elsewhere.
var drillRows = []attack{
	{id: "S30a", what: "drill: its signature for the real end of the guest that it rehearses", want: refusal.BadSignature, run: func(w *world) error {
		real, drill := w.destroyRequest(), w.drill()
		w.arm()
		_ = w.refusedAt(w.send(real.ID, w.by(drill.Payload, w.alice.votes(operational))), refusal.BindingMismatch, refusal.StageNonce)
		return w.send(real.ID, w.by(real.Payload, func(t testing.TB, _ []byte) string { return w.alice.sign(t, op.Operational, drill.Payload) }))
	}},
	{id: "S30b", what: "drill: the signature over a real step in the place of one over the drill", want: refusal.BindingMismatch, run: func(w *world) error {
		real, drill := w.destroyRequest(), w.drill()
		w.arm()
		return w.refusedAt(w.send(drill.ID, w.by(real.Payload, w.alice.votes(operational))), refusal.BindingMismatch, refusal.StageNonce)
	}},
	{id: "S30c", what: "drill: its payload with the real operation and the drill's nonce", want: refusal.BindingMismatch, run: func(w *world) error {
		real, drill := w.destroyRequest(), w.drill()
		forged := w.altered(real, func(p *op.Payload) { p.Nonce = must.Get(op.DecodePayload(drill.Payload))(w.t).Nonce })
		w.arm()
		require.Error(w.t, w.send(real.ID, w.by(forged, w.alice.votes(operational))))
		require.Error(w.t, w.sendOffline(w.by(forged, w.alice.votes(operational))))
		return w.send(drill.ID, w.by(forged, w.alice.votes(operational)))
	}},
	refusedDrill("S30d", "of a rotation of keys", refusal.BadParams, operator, drillOf(op.Rotate, "trust/signers")),
	refusedDrill("S30e", "a caller who is no operator asks", refusal.NotAllowed, hub, drillOf("guest.destroy", "guest/victim")),
	refusedDrill("S30f", "an agent of an operator's uid asks", refusal.NotAllowed,
		op.Requester{Source: op.SourceAPI, UID: daemonUID, Agent: "builder#1"}, drillOf("guest.destroy", "guest/victim")),
	refusedDrill("S30g", "beside a real step in one job", refusal.BadParams, operator, drillOf("guest.destroy", "guest/victim"), ask("guest.destroy", "victim")),
	{id: "S30h", what: "drill: a second one beside the open one", want: refusal.OverLimit, run: func(w *world) error {
		first := w.drill()
		w.arm()
		require.Equal(w.t, first.ID, w.drill().ID, "the same one again is the open one")
		_, err := w.submit(op.Requester{Source: op.SourceAPI, PID: 83}, drillOf("guest.destroy", "guest/bystander"))
		return err
	}},
	{id: "S30i", what: "drill: who asked for it signs it, under a rule that takes no requester", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.drill()
		w.accountsAre(map[string][]op.Account{"alice@example.com": {{UID: daemonUID}}, "bob@example.com": {{UID: 1001}}}, notRequester(1, "guest.destroy"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S30j", what: "drill: a batch with it and a real step, under a rule that takes no batch for what it rehearses", want: refusal.NotAllowed, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		alone := two()
		alone.Threshold, alone.Single = 1, true
		w.rule(alone)
		w.allow.repair = func() { w.rule() }
		real, drill := w.destroyRequest(), w.drill()
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, drill.Payload, real.Payload)
		w.arm()
		err := w.send(drill.ID, es[0])
		require.Equal(w.t, refusal.CodeOf(err), refusal.CodeOf(w.send(real.ID, es[1])), "as for what it rehearses")
		return err
	}},
	{id: "S30k", what: "drill: a payload that was signed before the gate saw it", want: refusal.NotAllowed, run: func(w *world) error {
		fresh := w.freshPayload(w.drill())
		w.arm()
		_, err := w.gate.ApproveOffline(w.ctx, operator, w.by(fresh, w.alice.votes(operational)))
		return err
	}},
	{id: "S30l", what: "drill: one signature, under a rule of two for what it rehearses", want: refusal.PendingSignature, run: func(w *world) error {
		w.two()
		r := w.drill()
		require.Equal(w.t, 2, r.Missing())
		w.arm()
		return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
	}},
	{id: "S30m", what: "drill: a signature that comes after its time", want: refusal.Expired, run: func(w *world) error {
		r := w.drill()
		w.pass(r.ExpiresAt.Sub(w.now()) + 2*time.Minute)
		require.NoError(w.t, w.gate.Tick(w.ctx))
		require.Equal(w.t, op.StateExpired, w.stepOf(r.ID).State)
		w.arm()
		return w.send(r.ID, w.by(r.Payload, w.alice.votes(operational)))
	}},
}
