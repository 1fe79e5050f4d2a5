package matrix_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
)

// withManager has a rule ask for a manager beside an operator, and mona is one.
func (w *world) withManager(more ...string) {
	w.t.Helper()
	w.list(append([]string{mona(w).line(manager)}, more...)...)
	w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Role: "manager", Threshold: 1})
	w.seconds = []vote{mona(w).votes(manager)}
}

// managed is a row about a destroy that takes an operator and a manager.
func managed(id, what string, want refusal.Code, votes func(w *world) []vote, more ...func(w *world) string) attack {
	return attack{id: id, what: "an operator and a manager are needed: " + what, want: want, run: func(w *world) error {
		var lines []string
		for _, l := range more {
			lines = append(lines, l(w))
		}
		w.withManager(lines...)
		r := w.destroyRequest()
		w.arm()
		if want == refusal.PendingSignature {
			return w.unmet(1)(w.signs(r, votes(w)...))
		}
		return w.send(r.ID, w.by(r.Payload, votes(w)...))
	}}
}

// relabelled is a row about a guest in production, which takes two to destroy.
func relabelled(id, what string, want refusal.Code, run func(w *world) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		w.makeGuest("db", "labels", labels("tier", "prod"))
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Labels: map[string]string{"tier": "prod"}, Threshold: 2})
		w.seconds = []vote{w.bob.votes(operational)}
		w.allow.finale = []string{"victim", "db"}
		return run(w)
	}}
}

var ownPeopleRows = []attack{
	{id: "X31a", what: "a proof of possession is to count as the approval of its own rotation", want: refusal.PendingSignature, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		fresh := w.freshPayload(r)
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, w.mallory.votes(operational))), refusal.UnknownSigner)
		return w.unmet(1)(w.signs(r, w.mallory.votes(operational)))
	}},
	{id: "X31b", what: "the holder of a key that is being added approves a destroy", want: refusal.UnknownSigner, run: func(w *world) error {
		add, r := w.request(w.next([]string{w.mallory.line(operational)}, nil)), w.destroyRequest()
		add = w.mustSign(add, w.mallory.votes(operational))
		require.Empty(w.t, add.Signatures)
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.mallory.votes(operational), w.alice.votes(operational))), refusal.UnknownSigner)
		return w.send(r.ID, w.by(r.Payload, w.mallory.votes(operational)))
	}},
	{id: "X31c", what: "the holder of a key that is being added rejects the rotation", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		w.arm()
		return failure(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.mallory)))
	}},
	{id: "X31d", what: "a proof of possession for one rotation is sent with another", want: refusal.BadSignature, run: func(w *world) error {
		first := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		second := w.request(w.next([]string{w.mallory.line("operational@gated,coordination@gated")}, nil))
		proof := w.mallory.forge(w.t, operational, first.Payload)
		w.arm()
		return w.send(second.ID, w.by(second.Payload, w.alice.votes(operational), func(testing.TB, []byte) string { return proof }))
	}},
	{id: "X31e", what: "a proof of possession in the envelope of a destroy whose params look like a rotation's", want: refusal.UnknownSigner,
		run: func(w *world) error {
			r := w.destroyRequest()
			b := w.altered(r, func(p *op.Payload) {
				p.Nonce, p.Params = "QUJDREVGR0hJSktMTU5PUA", w.next([]string{w.mallory.line(operational)}, nil).Params
			})
			w.arm()
			return w.sendOffline(w.by(b, w.alice.votes(operational), w.mallory.votes(operational)))
		}},
	managed("X32a", "a manager signs as an operator", refusal.UnknownSigner, func(w *world) []vote { return []vote{mona(w).votes(operational)} }),
	managed("X32b", "two operators sign", refusal.PendingSignature, func(w *world) []vote {
		return []vote{w.alice.votes(operational), w.bob.votes(operational)}
	}),
	managed("X32c", "two managers sign", refusal.PendingSignature, func(w *world) []vote {
		return []vote{mona(w).votes(manager), w.mallory.votes(manager)}
	}, func(w *world) string { return w.mallory.line(manager) }),
	managed("X32d", "one who is both signs as both", refusal.PendingSignature, func(w *world) []vote {
		return []vote{w.mallory.votes(manager), w.mallory.votes(operational)}
	}, func(w *world) string { return w.mallory.line("manager@gated,operational@gated") }),
	managed("X32e", "an operator signs as a manager", refusal.UnknownSigner, func(w *world) []vote {
		return []vote{w.alice.votes(operational), w.bob.votes(manager)}
	}),
	managed("X32f", "somebody signs in a role that there is not", refusal.NamespaceMismatch, func(w *world) []vote {
		return []vote{w.alice.votes(operational), mona(w).votes("managers@gated")}
	}),
	{id: "X33a", what: "a manager rejects what no rule asks managers about", want: refusal.RoleDenied, run: func(w *world) error {
		w.list(mona(w).line(manager))
		w.rule()
		r := w.destroyRequest()
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, mona(w).votes(manager))), refusal.RoleDenied)
		return failure(w.gate.Reject(w.ctx, hub, r.ID, w.by(w.rejection(r, w.alice).Payload, mona(w).votes(manager))))
	}},
	{id: "X33b", what: "a manager, whom a rule asks, rejects; then both approve", want: refusal.Rejected, run: func(w *world) error {
		w.withManager()
		r := w.destroyRequest()
		_, err := w.gate.Reject(w.ctx, hub, r.ID, w.by(w.rejection(r, w.alice).Payload, mona(w).votes(manager)))
		require.NoError(w.t, err, "who may approve may reject")
		w.arm()
		return w.send(r.ID, w.by(r.Payload, w.alice.votes(operational), mona(w).votes(manager)))
	}},
	relabelled("X34a", "one signature takes away the label that a rule looks at", refusal.PendingSignature, func(w *world) error {
		r := w.request(ask("guest.set-config", "db", "labels", labels("tier", "dev")))
		w.arm()
		w.allow.finale = []string{"db"}
		return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
	}),
	relabelled("X34b", "two people take the label away while the destroy, for which two signed, waits for its turn", refusal.StaleTarget, func(w *world) error {
		destroy := w.request(ask("guest.destroy", "db"))
		w.mustApprove(destroy)
		relabel := w.request(ask("guest.set-config", "db", "labels", labels("tier", "dev")))
		w.mustApprove(relabel)
		require.NoError(w.t, w.executor().execute(w.ctx, relabel.ID))
		w.arm()
		return w.executor().execute(w.ctx, destroy.ID)
	}),
	relabelled("X34c", "one signature for a guest that is put into production before it runs", refusal.StaleTarget, func(w *world) error {
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		require.Equal(w.t, op.StateAuthorized, r.Step.State)
		// By other hands: through the gate, a change waits until what was signed has run.
		w.edit(`"labels":{}`, `"labels":{"tier":"prod"}`, "victim", "guest.json")
		w.arm()
		return w.executor().execute(w.ctx, r.ID)
	}),
	relabelled("X34d", "an offline payload for a guest in production, signed by one", refusal.PendingSignature, func(w *world) error {
		r := w.request(ask("guest.destroy", "db"))
		b := w.freshPayload(r)
		w.arm()
		w.allow.finale = []string{"db"}
		return w.unmet(1)(w.gate.ApproveOffline(w.ctx, hub, w.by(b, w.alice.votes(operational))))
	}),
	{id: "X35a", what: "a request from before a rule asked for two is approved by one", want: refusal.PendingSignature, run: func(w *world) error {
		r := w.destroyRequest()
		require.Equal(w.t, 1, r.Missing())
		w.two()
		w.arm()
		return w.unmet(1)(w.signs(r, w.alice.votes(operational)))
	}},
	crowd("X35b", "the rule is taken away by a reload, and she signs again", refusal.ThresholdUnmet, func(w *world, r op.Request) error {
		w.rule()
		return again(func(w *world) []vote { return []vote{w.alice.votes(operational)} })(w, r)
	}),
	renamed("X35c", "a rotation gives her key another name, under which she signs", func(w *world) vote {
		w.rotate([]string{w.alice.as("alicia")}, prints(alice)(w), w.rita.votes(recovery))
		return w.alice.votes(operational)
	}),
	renamed("X35d", "a rotation gives her name to another key, with which she signs", func(w *world) vote {
		w.rotate([]string{w.mallory.as("alice")}, prints(alice)(w), w.rita.votes(recovery), w.mallory.votes(operational))
		w.alice = w.mallory // whom the finale signs as
		return w.alice.votes(operational)
	}),
}

// renamed is a row in which alice, who signed what takes two, is somebody else
// by the time she signs again: her first signature counts no more then.
func renamed(id, what string, rename func(w *world) vote) attack {
	return attack{id: id, what: "two people are needed, alice signed, then " + what, want: refusal.PendingSignature, run: func(w *world) error {
		w.two()
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		again := rename(w)
		w.arm()
		return w.unmet(1)(w.signs(r, again))
	}}
}
