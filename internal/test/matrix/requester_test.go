package matrix_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// The accounts of these rows. alice works as 1000, which asks for most of what rows ask for, and her agents as 2000.
var (
	accounts = policy.People{"alice@example.com": {{UID: 1000}, {UID: 2000}}, "bob@example.com": {{UID: 1001}}}
	asBob    = op.Requester{Source: op.SourceAPI, UID: 1001, PID: 78}
	asAgent  = op.Requester{Source: op.SourceAPI, UID: 2000, PID: 79, Agent: "builder#1"}
	asOther  = op.Requester{Source: op.SourceAPI, UID: 1005, PID: 80}
)

// notRequester is a rule that takes no requester's signature.
func notRequester(threshold int, of string) policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Op: of, Threshold: threshold, Apart: true}
}

// accountsAre puts people and rules in force.
func (w *world) accountsAre(p policy.People, rules ...policy.Rule) {
	w.t.Helper()
	w.rules.People = p
	w.rule(rules...)
	w.allow.repair = func() { w.rules.People = nil; w.rule() }
}

// asksAndSigns is a row in which somebody asks for the victim's end, and the votes are to be of other people.
func asksAndSigns(id, what string, by op.Requester, votes func(w *world) []vote) attack {
	return attack{id: id, what: "no requester may sign: " + what, want: refusal.NotAllowed, run: func(w *world) error {
		r := w.requestBy(by, ask("guest.destroy", "victim"))
		w.accountsAre(accounts, notRequester(1, "guest.destroy"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, votes(w)...)), refusal.NotAllowed, refusal.StagePolicy)
	}}
}

func aliceSigns(w *world) []vote { return []vote{w.alice.votes(operational)} }

// requesterRows are S29: the person who asked is not the one who approves.
var requesterRows = []attack{
	asksAndSigns("S29a", "the operator who asked signs", hub, aliceSigns),
	asksAndSigns("S29b", "the operator's agent asked", asAgent, aliceSigns),
	asksAndSigns("S29c", "an account that no person has asked", asOther, aliceSigns),
	asksAndSigns("S29d", "root asked, and is no person", op.Requester{Source: op.SourceAPI, PID: 81}, aliceSigns),
	asksAndSigns("S29e", "the operator who asked signs beside another", hub, func(w *world) []vote {
		return []vote{w.bob.votes(operational), w.alice.votes(operational)}
	}),
	{id: "S29f", what: "no requester may sign: the operator has no accounts in gated.yaml", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.destroyRequest()
		w.accountsAre(policy.People{"bob@example.com": {{UID: 1000}}}, notRequester(1, "guest.destroy"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29g", what: "no requester may sign: the operator signs an operation that nobody asked for", want: refusal.NotAllowed, run: func(w *world) error {
		fresh := w.freshPayload(w.destroyRequest())
		w.accountsAre(accounts, notRequester(1, "guest.destroy"))
		w.arm()
		_ = w.refusedAt(failure(w.gate.ApproveOffline(w.ctx, asBob, w.by(fresh, w.alice.votes(operational)))), refusal.NotAllowed, refusal.StagePolicy)
		return w.refusedAt(w.sendOffline(w.by(fresh, w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29h", what: "no requester may sign: a hub relays an operation that nobody asked for", want: refusal.NotAllowed, run: func(w *world) error {
		fresh := w.freshPayload(w.destroyRequest())
		w.accountsAre(accounts, notRequester(1, "guest.destroy"))
		w.arm()
		relay := op.Requester{Source: op.SourceHub, Set: "hub.example.com"}
		return w.refusedAt(failure(w.gate.ApproveOffline(w.ctx, relay, w.by(fresh, w.alice.votes(operational)))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29i", what: "no requester may sign: the operator's other account repeats the wish of an account that no person has", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.requestBy(asOther, ask("guest.destroy", "victim"))
		require.Equal(w.t, r.ID, w.requestBy(asAgent, ask("guest.destroy", "victim")).ID)
		w.accountsAre(accounts, notRequester(1, "guest.destroy"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29j", what: "no requester may sign: the rule comes into force while a step cools off that its requester approved", want: refusal.NotAllowed,
		run: func(w *world) error {
			w.rule(cool(coolOff))
			r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
			require.Equal(w.t, op.StateAuthorized, r.Step.State)
			w.accountsAre(accounts, notRequester(1, "guest.destroy"))
			w.pass(coolOff)
			w.arm()
			return w.executor().execute(w.ctx, r.ID)
		}},
	{id: "S29k", what: "no requester may sign: the other person who asked takes the wish back while the step cools off", want: refusal.NotAllowed,
		run: func(w *world) error {
			slow := notRequester(1, "guest.destroy")
			slow.CoolOff = coolOff
			r := w.requestBy(asOther, ask("guest.destroy", "victim"))
			require.Equal(w.t, r.ID, w.requestBy(asBob, ask("guest.destroy", "victim")).ID)
			w.accountsAre(accounts, slow)
			r = w.mustSign(r, w.alice.votes(operational))
			require.Equal(w.t, op.StateAuthorized, r.Step.State)
			must.Get(w.gate.Cancel(w.ctx, asBob, r.ID.Job))(w.t)
			w.pass(coolOff + time.Second)
			w.arm()
			return w.executor().execute(w.ctx, r.ID)
		}},
	{id: "S29l", what: "no requester may sign: who asked for a rotation signs it", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		w.accountsAre(accounts, notRequester(1, "trust.rotate"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.mallory.votes(operational), w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29m", what: "no requester may sign: a manager who is no person of gated.yaml signs beside an operator who is one", want: refusal.NotAllowed, run: func(w *world) error {
		w.withManager()
		r := w.requestBy(asBob, ask("guest.destroy", "victim"))
		rule := notRequester(1, "guest.destroy")
		rule.Role = "manager"
		w.accountsAre(accounts, rule)
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.alice.votes(operational), mona(w).votes(manager))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S29n", what: "no requester may sign: the operator put the desired state that asks", want: refusal.NotAllowed, run: func(w *world) error {
		j := must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.destroy", "victim")))(w.t)
		r := must.Get(w.gate.Request(w.ctx, op.RequestID{Job: j.ID, Index: 1}))(w.t)
		w.accountsAre(accounts, notRequester(1, "guest.destroy"))
		w.arm()
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, w.alice.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
}
