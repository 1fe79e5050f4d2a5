package matrix_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const breakGlass = "breakglass@gated"

// greta and hans have keys for break-glass alone.
func greta(w *world) key { return keyOf(w.t, "greta") }
func hans(w *world) key  { return keyOf(w.t, "hans") }

// reviewOf is a wish to close the incidents.
var reviewOf = op.Ask{Op: op.Review, Target: op.Incidents}

// breaking puts break-glass for destroys in force, and lists its keys.
func (w *world) breaking(change func(*policy.BreakGlass)) {
	w.t.Helper()
	w.list(greta(w).line(breakGlass), hans(w).line(breakGlass))
	b := &policy.BreakGlass{Where: "gated.yaml:9", Ops: []string{"guest.destroy"}, Threshold: 1, Delay: 15 * time.Minute, AtMost: 2}
	if change != nil {
		change(b)
	}
	w.rules.BreakGlass = b
	w.rule()
}

// broke has greta approve the end of a guest that was made for it, and an operator stop that: the incident has ended.
func (w *world) broke(name string) {
	w.t.Helper()
	w.first("guest.create", name)
	r := w.mustSign(w.request(ask("guest.destroy", name)), greta(w).votes(breakGlass))
	require.Equal(w.t, op.StateAuthorized, r.Step.State)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.alice)))(w.t)
}

// breaks is a row about the victim's request while break-glass is in force.
func breaks(id, what string, want refusal.Code, change func(*policy.BreakGlass), run func(w *world, r op.Request) error) attack {
	return attack{id: id, what: "break-glass: " + what, want: want, run: func(w *world) error {
		w.breaking(change)
		r := w.destroyRequest()
		w.arm()
		return run(w, r)
	}}
}

// byGreta signs as break-glass.
func byGreta(w *world, r op.Request) error {
	return w.send(r.ID, w.by(r.Payload, greta(w).votes(breakGlass)))
}

// breakGlassRows are S31: a way without operators never weakens the gate.
var breakGlassRows = []attack{
	{id: "S31a", what: "break-glass: a listed key, and no section in gated.yaml", want: refusal.RoleDenied, run: func(w *world) error {
		w.list(greta(w).line(breakGlass))
		r := w.destroyRequest()
		w.arm()
		return w.refusedAt(byGreta(w, r), refusal.RoleDenied, refusal.StageRole)
	}},
	breaks("S31b", "an operation that it is not for", refusal.RoleDenied, func(b *policy.BreakGlass) { b.Ops = []string{"guest.stop", "command.*"} }, byGreta),
	breaks("S31c", "a rotation of keys", refusal.RoleDenied, func(b *policy.BreakGlass) { b.Ops = []string{"*"} }, func(w *world, _ op.Request) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		return w.signsBoth(r, greta(w).votes(breakGlass), w.mallory.votes(operational))
	}),
	breaks("S31d", "a key that is an operator's, in the namespace of break-glass", refusal.UnknownSigner, nil, func(w *world, r op.Request) error {
		return w.send(r.ID, w.by(r.Payload, w.alice.votes(breakGlass)))
	}),
	breaks("S31e", "its key, in the namespace of operators", refusal.UnknownSigner, nil, func(w *world, r op.Request) error {
		return w.send(r.ID, w.by(r.Payload, greta(w).votes(operational)))
	}),
	breaks("S31f", "an operator lists a key for it", refusal.RoleDenied, nil, func(w *world, _ op.Request) error {
		r := w.request(w.next([]string{w.mallory.line(breakGlass)}, nil))
		return w.signsBoth(r, w.alice.votes(operational), w.mallory.votes(breakGlass))
	}),
	breaks("S31g", "a batch", refusal.NamespaceMismatch, nil, func(w *world, r op.Request) error {
		_, es := w.signedBatch(greta(w).votes("breakglass@batch.gated"), nil, r.Payload)
		_, err := op.Batch{Role: op.BreakGlass, Count: 1, IssuedAt: w.now(), ExpiresAt: w.now().Add(time.Minute)}.Encode()
		require.ErrorIs(w.t, err, refusal.Malformed, "no batch has that role")
		return w.send(r.ID, es[0])
	}),
	breaks("S31h", "a payload that the gate did not issue", refusal.RoleDenied, nil, func(w *world, r op.Request) error {
		return w.sendOffline(w.by(w.freshPayload(r), greta(w).votes(breakGlass)))
	}),
	breaks("S31i", "it runs before its delay is over", refusal.Unavailable, nil, func(w *world, r op.Request) error {
		require.Equal(w.t, op.StateAuthorized, w.mustSign(r, greta(w).votes(breakGlass)).Step.State)
		w.pass(15*time.Minute - time.Second)
		err := w.executor().execute(w.ctx, r.ID)
		w.allow.unlogged = "a step that waits is no decision"
		w.stop(r)
		return err
	}),
	breaks("S31j", "one of two signatures", refusal.PendingSignature, func(b *policy.BreakGlass) { b.Threshold = 2 }, func(w *world, r op.Request) error {
		w.seconds, w.allow.wait = []vote{hans(w).votes(breakGlass)}, 15*time.Minute
		return w.unmet(1)(w.signs(r, greta(w).votes(breakGlass)))
	}),
	{id: "S31k", what: "break-glass: one of two operators and one of two break-glass keys", want: refusal.PendingSignature, run: func(w *world) error {
		w.breaking(func(b *policy.BreakGlass) { b.Threshold = 2 })
		w.two()
		r := w.destroyRequest()
		w.arm()
		w.allow.wait = 15 * time.Minute // as soon as one signature is of break-glass
		return w.unmet(1)(w.signs(r, w.bob.votes(operational), greta(w).votes(breakGlass)))
	}},
	breaks("S31l", "a software key, where a rule asks for a touch", refusal.TouchRequired, nil, func(w *world, r op.Request) error {
		w.rule(touchRule("", op.TouchPresent))
		w.allow.repair = func() { w.rule() }
		return byGreta(w, r)
	}),
	{id: "S31m", what: "break-glass: three times in a minute", want: refusal.OverLimit, run: func(w *world) error {
		w.breaking(nil)
		w.broke("spare-1")
		w.broke("spare-2")
		r := w.destroyRequest()
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, hans(w).votes(breakGlass))), refusal.OverLimit, "another key makes no difference")
		return w.refusedAt(byGreta(w, r), refusal.OverLimit, refusal.StagePolicy)
	}},
	{id: "S31n", what: "break-glass: its key closes the incident", want: refusal.RoleDenied, run: func(w *world) error {
		w.breaking(func(b *policy.BreakGlass) { b.Ops = []string{"*"} })
		w.broke("spare-1")
		r := w.requestBy(admin, reviewOf)
		w.arm()
		w.allow.repair = func() { must.Get(w.gate.Cancel(w.ctx, admin, r.ID.Job))(w.t) }
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.carol.votes(coordination))), refusal.RoleDenied)
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.rita.votes(recovery))), refusal.RoleDenied)
		return byGreta(w, r)
	}},
	{id: "S31o", what: "break-glass: an agent asks for the review", want: refusal.NotAllowed, run: func(w *world) error {
		w.breaking(nil)
		w.broke("spare-1")
		w.arm()
		_, err := w.submit(builder, reviewOf)
		return err
	}},
	{id: "S31p", what: "break-glass: a review before the step has ended", want: refusal.Conflict, run: func(w *world) error {
		w.breaking(nil)
		w.first("guest.create", "spare-1")
		r := w.mustSign(w.request(ask("guest.destroy", "spare-1")), greta(w).votes(breakGlass))
		w.arm()
		w.allow.repair = func() { w.cancel(hub, r.ID.Job) }
		_, err := w.submit(admin, reviewOf)
		return err
	}},
	{id: "S31q", what: "break-glass: a review closes an incident that was not shown", want: refusal.StaleTarget, run: func(w *world) error {
		w.breaking(nil)
		w.broke("spare-1")
		r := w.requestBy(admin, reviewOf)
		w.broke("spare-2")
		w.arm()
		w.allow.repair = func() { must.Get(w.gate.Cancel(w.ctx, admin, r.ID.Job))(w.t) }
		return w.send(r.ID, w.by(r.Payload, w.alice.votes(operational)))
	}},
	{id: "S31r", what: "break-glass: a review that was signed, before another incident ended", want: refusal.StaleTarget, run: func(w *world) error {
		w.breaking(nil)
		w.broke("spare-1")
		r := w.mustSign(w.requestBy(admin, reviewOf), w.alice.votes(operational))
		w.broke("spare-2")
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		in := must.Get(w.gate.Incidents(w.ctx))(w.t)
		require.Len(w.t, in.Ended, 2)
		return err
	}},
	{id: "S31s", what: "break-glass: a review of another gate's payload", want: refusal.TargetMismatch, run: func(w *world) error {
		w.breaking(nil)
		w.broke("spare-1")
		r := w.requestBy(admin, reviewOf)
		foreign := w.altered(r, func(p *op.Payload) { p.Gate = strangeGate })
		w.arm()
		w.allow.repair = func() { must.Get(w.gate.Cancel(w.ctx, admin, r.ID.Job))(w.t) }
		return w.send(r.ID, w.by(foreign, w.alice.votes(operational)))
	}},
	{id: "S31t", what: "break-glass: a certificate for it by a CA of operators", want: refusal.UnknownSigner, run: func(w *world) error {
		w.breaking(nil)
		ca, leaf := mint.Ed25519(w.t, "ca"), mint.Ed25519(w.t, "leaf")
		w.list(ca.Line("*@example.com", `cert-authority,namespaces="`+operational+`"`))
		r := w.destroyRequest()
		w.arm()
		return w.send(r.ID, w.by(r.Payload, func(t testing.TB, payload []byte) string {
			return mint.SignWith(t, mint.Certify(ca, leaf, "eve@example.com"), leaf, breakGlass, payload).Armored()
		}))
	}},
	{id: "S31u", what: "break-glass: the section goes while its step waits", want: refusal.RoleDenied, run: func(w *world) error {
		w.breaking(nil)
		r := w.mustSign(w.destroyRequest(), greta(w).votes(breakGlass))
		w.rules.BreakGlass = nil
		w.rule()
		w.pass(time.Hour)
		w.arm()
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "S31v", what: "break-glass: a shorter delay while its step waits", want: refusal.Unavailable, run: func(w *world) error {
		w.breaking(nil)
		r := w.mustSign(w.destroyRequest(), greta(w).votes(breakGlass))
		w.rules.BreakGlass.Delay = time.Minute
		w.rule()
		w.pass(time.Minute)
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		w.allow.unlogged = "a step that waits is no decision"
		w.stop(r)
		return err
	}},
	{id: "S31w", what: "break-glass: its key is revoked while its step waits", want: refusal.SignerRevoked, run: func(w *world) error {
		w.breaking(nil)
		r := w.mustSign(w.destroyRequest(), greta(w).votes(breakGlass))
		w.revoke(greta(w).print(w.t))
		w.pass(15 * time.Minute)
		w.arm()
		w.allow.repair = w.pardon
		return w.executor().execute(w.ctx, r.ID)
	}},
}

// signsBoth hands in votes of which one is of a role that may not approve.
func (w *world) signsBoth(r op.Request, votes ...vote) error {
	w.t.Helper()
	return w.send(r.ID, w.by(r.Payload, votes...))
}
