package matrix_test

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// noPasskeys is a rule that refuses passkeys.
func noPasskeys(threshold int) policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: threshold, NoPasskey: true}
}

// pages puts another section passkeys in force, by a reload.
func (w *world) pages(p op.Passkeys) {
	w.t.Helper()
	w.rules.Passkeys = p
	w.reload()
}

// asBefore takes back what a row configured.
func (w *world) asBefore() { w.rules.Passkeys, w.revoked = console, nil; w.rule() }

// taken is a row in which the configuration changes while a step cools off that a passkey approved.
func taken(id, what string, want refusal.Code, change func(w *world)) attack {
	return attack{id: id, what: "while a step cools off that a passkey approved, " + what, want: want, run: func(w *world) error {
		w.browse()
		w.rule(cool(coolOff))
		b := mint.Console
		b.Flags |= mint.BackupEligible
		r := w.mustSign(w.destroyRequest(), minted(mint.Passkey(w.t, "pam", b)))
		require.Equal(w.t, op.StateAuthorized, r.Step.State)
		w.pass(coolOff / 2)
		change(w)
		w.pass(coolOff / 2)
		w.arm()
		w.allow.repair = w.asBefore
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate, "the nonce stays spent")
		return err
	}}
}

// ruled is a row in which rules refuse passkeys, and something with one is handed in for a destroy.
func ruled(id, what string, votes func(w *world) []vote, rules ...policy.Rule) attack {
	return attack{id: id, what: what, want: refusal.NotAllowed, run: func(w *world) error {
		mona := mint.Passkey(w.t, "mona", mint.Console)
		w.browse(mona.Line("mona@example.com", lineOptions(manager)), otherPasskey(w).Line("dora@example.com", lineOptions(operational)))
		r := w.destroyRequest() // from before the rules, which hold for it all the same
		w.rule(rules...)
		fresh := w.freshPayload(r)
		w.arm()
		w.allow.repair = w.asBefore
		_ = w.refusedAt(w.sendOffline(w.by(fresh, votes(w)...)), refusal.NotAllowed, refusal.StagePolicy)
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, votes(w)...)), refusal.NotAllowed, refusal.StagePolicy)
	}}
}

func otherPasskey(w *world) mint.Key { return mint.Passkey(w.t, "dora", mint.Console) }

// proving is a row about a rotation that would list pam, which recovery signs, with something that is to be her proof.
func proving(id, what string, code refusal.Code, stage refusal.Stage, proof func(w *world, payload []byte) []vote) attack {
	return attack{id: id, what: "a rotation lists a passkey, and " + what, want: code, run: func(w *world) error {
		w.pages(console)
		r := w.request(w.next([]string{pamLine(w)}, nil))
		fresh := w.freshPayload(r)
		votes := func(payload []byte) []vote { return append(proof(w, payload), w.rita.votes(recovery)) }
		w.arm()
		_ = w.refusedAt(w.sendOffline(w.by(fresh, votes(fresh)...)), code, stage)
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, votes(r.Payload)...)), code, stage)
	}}
}

func pamOn(w *world, change func(b *mint.Browser)) vote {
	b := mint.Console
	change(&b)
	return minted(mint.Passkey(w.t, "pam", b))
}

// passkeyRuleRows are S27: what the configuration says of passkeys, and how one is listed.
var passkeyRuleRows = []attack{
	{id: "S27a", what: "a listed passkey signs, and no page is configured", want: refusal.OriginMismatch, run: func(w *world) error {
		w.list(pamLine(w))
		return w.bothWays(minted(pam(w)), refusal.OriginMismatch, refusal.StageCrypto)
	}},
	{id: "S27b", what: "a passkey of localhost signs on another port than the configured one", want: refusal.OriginMismatch, run: func(w *world) error {
		local := func(port string) mint.Key {
			b := mint.Console
			b.Party, b.Origin = "localhost", "http://localhost:"+port
			return mint.Passkey(w.t, "local", b)
		}
		w.browse(local("7480").Line("dora@example.com", lineOptions(operational)))
		w.pages(op.Passkeys{Origins: []string{"http://localhost:7480"}})
		w.approver = minted(local("7480"))
		return w.bothWays(minted(local("8000")), refusal.OriginMismatch, refusal.StageCrypto)
	}},
	taken("S27c", "the page's origin is taken out", refusal.OriginMismatch, func(w *world) {
		w.pages(op.Passkeys{Origins: []string{"https://other.example.com"}, Synced: true})
	}),
	taken("S27d", "the section goes", refusal.OriginMismatch, func(w *world) { w.pages(op.Passkeys{}) }),
	taken("S27e", "keys that a vault may copy are refused", refusal.WeakKey, func(w *world) { w.pages(op.Passkeys{Origins: console.Origins}) }),
	taken("S27f", "a rule begins to refuse passkeys", refusal.NotAllowed, func(w *world) { w.rule(noPasskeys(1)) }),
	taken("S27g", "the passkey is revoked", refusal.SignerRevoked, func(w *world) { w.revoke(pam(w).Fingerprint()) }),
	ruled("S27h", "a rule refuses passkeys, and two sign", func(w *world) []vote { return []vote{minted(pam(w)), minted(otherPasskey(w))} }, noPasskeys(2)),
	ruled("S27i", "a rule refuses passkeys, and one signs beside another key", func(w *world) []vote {
		return []vote{w.alice.votes(operational), minted(pam(w))}
	}, noPasskeys(2)),
	ruled("S27j", "one rule asks for two people, another one refuses passkeys", func(w *world) []vote {
		return []vote{minted(pam(w)), w.alice.votes(operational)}
	}, two(), noPasskeys(1)),
	ruled("S27k", "managers may use no passkey, and one does", func(w *world) []vote {
		return []vote{minted(pam(w)), voteIn(mint.Passkey(w.t, "mona", mint.Console), manager)}
	}, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Role: "manager", Threshold: 1, NoPasskey: true}),
	{id: "S27l", what: "a rule refuses passkeys, and a person's passkey signs before her other key", want: refusal.NotAllowed, run: func(w *world) error {
		both := mint.Passkey(w.t, "alice", mint.Console)
		w.rules.Passkeys = console
		w.list(both.Line("alice@example.com", lineOptions(operational)))
		w.rule(noPasskeys(1))
		return w.bothWays(minted(both), refusal.NotAllowed, refusal.StagePolicy) // alice's other key counts afterwards
	}},
	{id: "S27m", what: "a rule refuses passkeys, and one signs a batch", want: refusal.NotAllowed, run: func(w *world) error {
		w.browse(otherPasskey(w).Line("dora@example.com", lineOptions(bothUses)))
		w.rule(noPasskeys(1))
		r := w.destroyRequest()
		_, es := w.signedBatch(voteIn(otherPasskey(w), ofBatches), nil, r.Payload)
		w.arm()
		w.approver = nil // the rule stays, and alice's key counts
		return w.refusedAt(w.send(r.ID, es[0]), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S27n", what: "a rule refuses passkeys for a destroy, and a passkey lists a key without a touch, to get round it", want: refusal.NotAllowed, run: func(w *world) error {
		w.browse()
		w.rule(noPasskeys(1))
		r := w.request(w.next([]string{w.mallory.line(operational)}, nil))
		w.arm()
		w.allow.repair = w.asBefore
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, minted(pam(w)), w.mallory.votes(operational))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S27o", what: "a rule refuses passkeys for rotations, and a recovery passkey signs one", want: refusal.NotAllowed, run: func(w *world) error {
		rhea := mint.Passkey(w.t, "rhea", mint.Console)
		w.browse(rhea.Line("rhea@example.com", lineOptions(recovery)))
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "trust.rotate", Threshold: 1, NoPasskey: true})
		r := w.request(w.next(nil, prints(bob)(w)))
		w.arm()
		w.allow.repair = w.asBefore
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, voteIn(rhea, recovery))), refusal.NotAllowed, refusal.StagePolicy)
	}},
	{id: "S27p", what: "the page's origin is taken out between the verification and the commit", want: refusal.OriginMismatch, run: func(w *world) error {
		w.browse()
		r := w.destroyRequest()
		var once sync.Once
		fn := func(t op.Target) {
			if t == guest("victim") {
				once.Do(func() { w.pages(op.Passkeys{}) })
			}
		}
		w.arm()
		w.allow.repair = w.asBefore
		w.meanwhile.Store(&fn)
		defer w.meanwhile.Store(nil)
		return w.refusedAt(w.send(r.ID, w.by(r.Payload, minted(pam(w)))), refusal.OriginMismatch, refusal.StageCrypto)
	}},
	{id: "S27q", what: "the page's origin is taken out after the driver got its permit", want: refusal.OriginMismatch, run: func(w *world) error {
		w.browse()
		r := w.mustSign(w.destroyRequest(), minted(pam(w)))
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		w.pages(op.Passkeys{})
		w.arm()
		w.allow.repair = w.asBefore
		_, err := driver.Run(w.ctx, p, w.driver)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		return err
	}},
	{id: "S27r", what: "two people are needed, and one passkey signs on two pages", want: refusal.ThresholdUnmet, run: func(w *world) error {
		w.browse()
		w.pages(op.Passkeys{Origins: []string{mint.Console.Origin, "https://b.console.example.com"}})
		w.two()
		r := w.mustSign(w.destroyRequest(), minted(pam(w)))
		require.Equal(w.t, 1, r.Missing())
		w.arm()
		return w.send(r.ID, w.by(r.Payload, pamOn(w, func(b *mint.Browser) { b.Origin = "https://b.console.example.com" })))
	}},
	{id: "S27s", what: "a page that is not configured has a passkey reject", want: refusal.OriginMismatch, run: func(w *world) error {
		w.browse()
		r := w.destroyRequest()
		e := rejects(w, r, pamOn(w, func(b *mint.Browser) { b.Origin = "https://a.console.example.com" }))
		w.arm()
		return w.refusedAt(failure(w.gate.Reject(w.ctx, hub, r.ID, e)), refusal.OriginMismatch, refusal.StageCrypto)
	}},
	proving("S27t", "nobody with it signed", refusal.BadParams, refusal.StagePolicy, func(*world, []byte) []vote { return nil }),
	proving("S27u", "another passkey of the page signed", refusal.UnknownSigner, refusal.StageAllowList, func(w *world, _ []byte) []vote {
		return []vote{minted(otherPasskey(w))}
	}),
	proving("S27v", "it signed on another page", refusal.OriginMismatch, refusal.StageCrypto, func(w *world, _ []byte) []vote {
		return []vote{pamOn(w, func(b *mint.Browser) { b.Origin = "https://console.example.com:8443" })}
	}),
	proving("S27w", "it signed while nobody was there", refusal.TouchRequired, refusal.StageCrypto, func(w *world, _ []byte) []vote {
		return []vote{pamOn(w, func(b *mint.Browser) { b.Flags = 0 })}
	}),
	proving("S27x", "it signed to sign in at the console", refusal.NamespaceMismatch, refusal.StageNamespace, func(w *world, _ []byte) []vote {
		return []vote{voteIn(pam(w), "sign-in.console")}
	}),
	{id: "S27y", what: "a passkey's proof of possession alone, without an approval: its facts name the page", want: refusal.PendingSignature, run: func(w *world) error {
		w.pages(console)
		r := w.request(w.next([]string{pamLine(w)}, nil))
		require.Contains(w.t, fmt.Sprint(r.Facts), "with a PASSKEY on pages of "+mint.Console.Party)
		w.arm()
		return w.unmet(1)(w.signs(r, minted(pam(w))))
	}},
	{id: "S27z", what: "the proof and the approval that listed a passkey are handed in again", want: refusal.Replayed, run: func(w *world) error {
		w.pages(console)
		r := w.request(w.next([]string{pamLine(w)}, nil))
		e := w.by(r.Payload, w.rita.votes(recovery), minted(pam(w)))
		require.Equal(w.t, op.StateAuthorized, must.Get(w.gate.Approve(w.ctx, hub, r.ID, e))(w.t).Step.State)
		require.NoError(w.t, w.executor().execute(w.ctx, r.ID))
		require.Equal(w.t, op.StateSucceeded, w.stepOf(r.ID).State)
		next := w.request(w.next(nil, prints(bob)(w)))
		require.Contains(w.t, fmt.Sprint(next.Facts), "passkey of "+mint.Console.Party)
		w.approver = minted(pam(w))
		w.arm()
		return w.send(r.ID, e)
	}},
}
