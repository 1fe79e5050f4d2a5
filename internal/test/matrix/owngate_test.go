package matrix_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// foundRows are the attacks X80 to X99.
func foundRows() []attack {
	return slices.Concat(gateRows, guestHostRows, backEndRows, sharedRows, wireRows)
}

// gateRows are attacks on what becomes of wishes that are withdrawn, shared,
// asked again, or made before there is what they are about.
var gateRows = []attack{
	{id: "X80a", what: "a key is used again after its job was cancelled, to have the approval count that was signed before", want: refusal.Cancelled,
		run: func(w *world) error {
			sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "victim")}, IdempotencyKey: "k"}
			j := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			r := w.reread(j.Steps[0].ID)
			e := w.envelopeOf(r)
			w.cancel(hub, j.ID)
			w.arm()
			again := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			require.Equal(w.t, j.ID, again.ID)
			require.Equal(w.t, op.StateCancelled, again.State())
			require.ErrorIs(w.t, w.sendOffline(e), refusal.Cancelled)
			return w.send(r.ID, e)
		}},
	{id: "X80b", what: "a key is used again after an operator rejected its job, by its requester and by another one", want: refusal.Rejected,
		run: func(w *world) error {
			sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "victim")}, IdempotencyKey: "k"}
			j := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			r := w.reread(j.Steps[0].ID)
			e := w.envelopeOf(r)
			must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
			sub.Requester = other
			theirs := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			w.arm()
			sub.Requester = hub
			again := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
			require.Equal(w.t, j.ID, again.ID)
			require.Equal(w.t, op.StateRejected, again.State())
			require.ErrorIs(w.t, w.send(theirs.Steps[0].ID, e), refusal.Rejected, "that payload is answered for at every request")
			require.Equal(w.t, op.StatePending, w.stepOf(theirs.Steps[0].ID).State)
			return w.send(r.ID, e)
		}},
	{id: "X81a", what: "a label is exchanged for one that looks the same and has other bytes (é composed and decomposed)", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.makeGuest("tmp", "labels", labels("tier", "priv\u00e9"))
			w.arm()
			w.allow.finale = []string{"tmp"}
			return w.waits(w.submit(hub, ask("guest.set-config", "tmp", "labels", labels("tier", "prive\u0301"))))
		}},
	{id: "X81b", what: "a signature over a label is used for one that looks the same and has other bytes", want: refusal.BindingMismatch,
		run: func(w *world) error {
			w.do("guest.set-config", "victim", "labels", labels("keep", "yes"))
			r := w.request(ask("guest.set-config", "victim", "labels", labels("tier", "priv\u00e9")))
			b := w.altered(r, func(p *op.Payload) { p.Params["labels"] = labels("tier", "prive\u0301") })
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(w.alice.envelope(w.t, b)), refusal.BindingMismatch)
			spliced := w.envelopeOf(r)
			spliced.Payload = b
			require.ErrorIs(w.t, w.send(r.ID, spliced), refusal.BadSignature)
			return w.send(r.ID, w.alice.envelope(w.t, b))
		}},
	{id: "X82a", what: "a job of 64 steps makes 32 guests and destroys each again, so that nobody is asked", want: refusal.Conflict, run: func(w *world) error {
		var asks []op.Ask
		for i := range op.MaxSteps / 2 {
			asks = append(asks, ask("guest.create", fmt.Sprintf("g%d", i), "scratch", true), ask("guest.destroy", fmt.Sprintf("g%d", i)))
		}
		w.arm()
		must.Fail(w.submit(builder, asks...))(w.t, refusal.Conflict)
		for i := range asks { // and each destroy before the create
			asks[i].Target.Name = fmt.Sprintf("g%d", (i/2+1)%3)
		}
		return failure(w.submit(builder, asks...))
	}},
	{id: "X82b", what: "one of two destroys of a job is signed, the other never: neither runs", want: refusal.Conflict, run: func(w *world) error {
		j := must.Get(w.submit(hub, ask("guest.destroy", "victim"), ask("guest.destroy", "bystander")))(w.t)
		first := w.reread(j.Steps[0].ID)
		w.arm()
		w.ends(first.ID, op.StateAuthorized, nonce.Used)
		w.mustApprove(first)
		require.NoError(w.t, w.runAll(), "there is nothing that may run")
		err := w.executor().execute(w.ctx, first.ID)
		w.allow.unlogged = "a permit that is not given is no decision"
		w.allow.finale = []string{"victim", "bystander"}
		return err
	}},
	{id: "X82c", what: "the other destroy of a job is rejected after the first was signed and its permit taken", want: refusal.Conflict, run: func(w *world) error {
		j := must.Get(w.submit(hub, ask("guest.destroy", "victim"), ask("guest.destroy", "bystander")))(w.t)
		first, second := w.reread(j.Steps[0].ID), w.reread(j.Steps[1].ID)
		w.mustApprove(first)
		w.mustApprove(second)
		p := must.Get(w.gate.Permit(w.ctx, first.ID))(w.t)
		must.Get(w.gate.Reject(w.ctx, hub, second.ID, w.rejection(second, w.bob)))(w.t)
		w.arm()
		return failure(driver.Run(w.ctx, p, w.driver))
	}},
	{id: "X83", what: "a second requester joins a request, both withdraw, and the approval that was signed meanwhile comes", want: refusal.Cancelled,
		run: func(w *world) error {
			r := w.destroyRequest()
			e := w.envelopeOf(r)
			joined := w.requestBy(other, ask("guest.destroy", "victim"))
			require.Equal(w.t, r.ID, joined.ID)
			require.Equal(w.t, r.Payload, joined.Payload)
			must.Fail(w.gate.Cancel(w.ctx, builder, r.ID.Job))(w.t, refusal.NotAllowed, "an agent is not its uid")
			w.cancel(hub, r.ID.Job)
			require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State, "the other one still wants it")
			_, err := w.gate.Cancel(w.ctx, hub, r.ID.Job)
			require.ErrorIs(w.t, err, refusal.NotAllowed, "nobody withdraws another's wish by withdrawing twice")
			w.cancel(other, r.ID.Job)
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(e), refusal.Cancelled)
			return w.send(r.ID, e)
		}},
	{id: "X84", what: "desired state protects and unprotects a guest in turns, to have it unprotected in some round or to exhaust its requests", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.makeGuest("tmp", "protected", true)
			w.arm()
			w.allow.finale, w.allow.anyFate = []string{"tmp"}, true
			for i := range 4 {
				w.apply(map[string]string{"hub": document(fmt.Sprintf("  - name: tmp\n    protected: %v\n", i%2 == 0))})
				require.True(w.t, w.observe("tmp").Protected)
				open := must.Get(w.gate.Open(w.ctx, guest("tmp")))(w.t)
				require.LessOrEqual(w.t, len(open), 1)
			}
			return w.planned("tmp")
		}},
	{id: "X85", what: "a desired set is renamed: what was signed for the old one's request, which was rejected", want: refusal.Rejected, run: func(w *world) error {
		wish := document("  - name: victim\n    state: absent\n")
		w.apply(map[string]string{"old": wish})
		open := must.Get(w.gate.Open(w.ctx, guest("victim")))(w.t)
		r := w.reread(open[0].ID)
		e := w.envelopeOf(r)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
		w.arm()
		require.NoError(w.t, w.gate.DeleteSet(w.ctx, operator, "old"))
		w.apply(map[string]string{"new": wish})
		require.ErrorIs(w.t, w.sendOffline(e), refusal.Rejected)
		return w.send(r.ID, e)
	}},
	{id: "X86a", what: "a rule looks for a label with any value, and the label is there and empty", want: refusal.PendingSignature, run: func(w *world) error {
		w.makeGuest("db", "labels", labels("tier", ""))
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Labels: map[string]string{"tier": "*"}, Threshold: 2})
		w.seconds = []vote{w.bob.votes(operational)}
		w.allow.finale = []string{"db"}
		r := w.request(ask("guest.destroy", "db"))
		w.arm()
		return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
	}},
	{id: "X86b", what: "a rule looks for a label by a pattern, and its value has the pattern's own signs in it", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.makeGuest("db", "labels", labels("tier", "prod[*]?"))
			w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Labels: map[string]string{"tier": "prod?*"}, Threshold: 2})
			w.seconds = []vote{w.bob.votes(operational)}
			w.allow.finale = []string{"db"}
			r := w.request(ask("guest.destroy", "db"))
			w.arm()
			return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
		}},
	overtaken("X86c", "a label is set beside those that were seen, and another one is added before that runs, which it would take away",
		ask("guest.set-config", "tmp", "labels", labels("a", "1")), func(w *world) { w.first("guest.set-config", "tmp", "labels", labels("keep", "yes")) }),
	overtaken("X86d", "a guest that is not protected is told not to be, and is protected before that runs",
		ask("guest.set-config", "tmp", "protected", false), func(w *world) { w.first("guest.set-config", "tmp", "protected", true) }),
	overtaken("X86e", "scratch is destroyed by its creator, and desired state mentions it before that runs",
		ask("guest.destroy", "tmp"), func(w *world) { require.NoError(w.t, w.gate.Adopt(w.ctx, "web", w.observe("tmp"))) }),
	overtaken("X86f", "scratch is wiped by its creator, and somebody takes a snapshot of it before that runs",
		ask("guest.wipe", "tmp"), func(w *world) { w.first("guest.snapshot", "tmp", "snapshot", "mine") }),
	{id: "X87a", what: "a destroy is signed offline before its guest exists, and kept until it does", want: refusal.StaleTarget, run: func(w *world) error {
		r := w.destroyRequest()
		b := w.altered(r, func(p *op.Payload) {
			p.Nonce, p.Target.Name, p.Incarnation, p.State = op.NewNonce(time.Now()), "later", "", op.FingerprintOf([]byte("absent"))
		})
		e := w.alice.envelope(w.t, b)
		require.ErrorIs(w.t, w.sendOffline(e), refusal.UnknownTarget)
		w.makeGuest("later")
		w.arm()
		return w.sendOffline(e)
	}},
	{id: "X87b", what: "a create is signed offline, and the name is taken, left and taken again before it comes", want: refusal.Conflict, run: func(w *world) error {
		r := w.destroyRequest()
		b := w.altered(r, func(p *op.Payload) {
			p.Nonce, p.Op, p.Target.Name, p.Incarnation = op.NewNonce(time.Now()), "guest.create", "later", ""
			p.State = w.observe("later").Fingerprint
		})
		e := w.alice.envelope(w.t, b)
		w.makeGuest("later")
		require.ErrorIs(w.t, w.sendOffline(e), refusal.Conflict)
		w.vanish("later")
		w.plant("later")
		w.arm()
		return w.sendOffline(e)
	}},
	{id: "X87c", what: "an agent hands in a create of scratch that an operator signed, and destroys it as its own", want: refusal.PendingSignature,
		run: func(w *world) error {
			b := w.altered(w.destroyRequest(), func(p *op.Payload) {
				p.Nonce, p.Op, p.Target.Name, p.Incarnation = op.NewNonce(time.Now()), "guest.create", "web", ""
				p.Params, p.State = op.Params{"scratch": true}, w.observe("web").Fingerprint
			})
			must.Get(w.gate.ApproveOffline(w.ctx, builder, w.alice.envelope(w.t, b)))(w.t)
			require.NoError(w.t, w.runAll())
			w.arm()
			w.allow.finale = []string{"victim", "web"}
			return w.waits(w.submit(builder, ask("guest.destroy", "web")))
		}},
	{id: "X88", what: "a reload that asks for two races with an approval of one, many times: it never runs with one", want: lostRace, run: func(w *world) error {
		w.armUnlogged("both are allowed")
		w.seconds = nil
		for range 8 {
			w.rule()
			r := w.destroyRequest()
			e := w.envelopeOf(r)
			both(func() { _ = w.send(r.ID, e) }, func() { w.rule(two()) })
			require.Error(w.t, w.executor().execute(w.ctx, r.ID))
			require.True(w.t, w.observe("victim").Present)
			s := w.stepOf(r.ID)
			require.Contains(w.t, []op.State{op.StatePending, op.StateRefused}, s.State)
			fate := nonce.Used
			if s.State == op.StatePending {
				w.cancel(hub, r.ID.Job)
				s.State, fate = op.StateCancelled, nonce.Cancelled
			}
			w.ends(r.ID, s.State, fate)
		}
		w.rule()
		return lostRace
	}},
}

// first runs a step before any that waits.
func (w *world) first(name, target string, kv ...any) {
	w.t.Helper()
	j := must.Get(w.submit(hub, ask(name, target, kv...)))(w.t)
	require.NoError(w.t, w.executor().execute(w.ctx, j.Steps[0].ID))
}

// overtaken is a row in which a step that was harmless when it was submitted is
// not any more when it runs: it comes after another one of its job.
func overtaken(id, what string, a op.Ask, meanwhile func(w *world)) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		scratch(w)
		late := must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: builder, Steps: []op.Ask{ask("guest.create", "x"), a}}))(w.t)
		require.Equal(w.t, op.StatePlanned, w.stepOf(late.Steps[1].ID).State)
		meanwhile(w)
		w.arm()
		w.allow.trash, w.allow.tree, w.allow.finale = true, []string{"x"}, []string{"tmp", "x"}
		_ = w.runAll()
		if w.stepOf(late.Steps[1].ID).State != op.StatePending {
			return nil
		}
		return refusal.New(refusal.PendingSignature, "it waits")
	}}
}
