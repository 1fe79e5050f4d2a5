package matrix_test

import (
	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// saying is a row in which the authenticator says other flags, or extension data, beside a right signature.
func saying(id, what string, code refusal.Code, stage refusal.Stage, flags byte, extensions ...byte) attack {
	return browsing(id, what, code, stage, func(b *mint.Browser) { b.Flags, b.Extensions = flags, extensions })
}

// saidAfter is a row in which what the authenticator said is changed after it signed.
func saidAfter(id, what string, change func(rest []byte)) attack {
	return attack{id: id, what: what, want: refusal.BadSignature, run: func(w *world) error {
		w.browse()
		return w.bothWays(reflagged(pam, change)(w), refusal.BadSignature, refusal.StageCrypto)
	}}
}

// otherForm is a row in which a listed key signs in the form that its application does not have.
func otherForm(id, what string, key func(w *world) mint.Key) attack {
	return attack{id: id, what: what, want: refusal.Malformed, run: func(w *world) error {
		w.browse(key(w).Line("dora@example.com", lineOptions(operational)))
		return w.bothWays(minted(key(w)), refusal.Malformed, refusal.StageDecode)
	}}
}

// misused is a row in which pam's passkey signed one thing, and the signature is used for another.
func misused(id, what string, code refusal.Code, stage refusal.Stage, use func(w *world, r op.Request) error) attack {
	return attack{id: id, what: "a passkey's signature " + what, want: code, run: func(w *world) error {
		w.browse()
		r := w.destroyRequest()
		w.arm()
		return w.refusedAt(use(w, r), code, stage)
	}}
}

// rejects is pam's signed rejection of a request.
func rejects(w *world, r op.Request, v vote) authz.Envelope {
	w.t.Helper()
	return w.by(w.rejection(r, w.alice).Payload, v)
}

// passkeyUseRows are S26: what a passkey says and signs, and what that is used for.
var passkeyUseRows = []attack{
	saying("S26a", "nobody was there", refusal.TouchRequired, refusal.StageCrypto, mint.UserVerified),
	{id: "S26b", what: "a rule asks for a verified person, and somebody touched the passkey", want: refusal.TouchRequired, run: func(w *world) error {
		w.browse()
		w.rule(touchRule("", op.TouchVerified))
		b := mint.Console
		b.Flags = mint.UserPresent
		return w.bothWays(minted(mint.Passkey(w.t, "pam", b)), refusal.TouchRequired, refusal.StagePolicy)
	}},
	{id: "S26c", what: "a passkey that a vault may copy, where only others count", want: refusal.WeakKey, run: func(w *world) error {
		w.browse()
		w.rules.Passkeys.Synced = false
		w.reload()
		b := mint.Console
		b.Flags |= mint.BackupEligible | mint.BackedUp
		return w.bothWays(minted(mint.Passkey(w.t, "pam", b)), refusal.WeakKey, refusal.StageCrypto)
	}},
	saying("S26d", "the key is copied and may not be", refusal.Malformed, refusal.StageDecode, mint.UserPresent|mint.BackedUp),
	saying("S26e", "attested credential data", refusal.Malformed, refusal.StageDecode, mint.UserPresent|mint.Attests),
	saying("S26f", "a reserved flag", refusal.Malformed, refusal.StageDecode, mint.UserPresent|0x02),
	saying("S26g", "the flag of extension data, and none", refusal.Malformed, refusal.StageDecode, mint.UserPresent|mint.Extends),
	saying("S26h", "extension data without its flag", refusal.Malformed, refusal.StageDecode, mint.UserPresent, 0xa0),
	saidAfter("S26i", "the counter is another than was signed", func(rest []byte) { rest[4]++ }),
	saidAfter("S26j", "the flag of verification is taken away after the signature", func(rest []byte) { rest[0] &^= mint.UserVerified }),
	otherForm("S26k", "a passkey signs in the plain form, in which no page asks", func(w *world) mint.Key {
		return mint.SKECDSA(w.t, "plain", mint.Authenticator{Application: mint.Console.Party, Flags: mint.UserPresent})
	}),
	otherForm("S26l", "a key for ssh: signs for a page", func(w *world) mint.Key {
		b := mint.Console
		b.Party = "ssh:"
		return mint.Passkey(w.t, "web", b)
	}),
	{id: "S26m", what: "a listed passkey of another site signs on the console's page", want: refusal.OriginMismatch, run: func(w *world) error {
		b := mint.Console
		b.Party = "intranet.example.com"
		foreign := mint.Passkey(w.t, "dora", b)
		w.browse(foreign.Line("dora@example.com", lineOptions(operational)))
		return w.bothWays(minted(foreign), refusal.OriginMismatch, refusal.StageCrypto)
	}},
	{id: "S26n", what: "recovery lists a passkey as an authority", want: refusal.BadParams, run: func(w *world) error {
		w.browse()
		w.arm()
		return failure(w.submit(hub, w.next([]string{mint.Passkey(w.t, "ca", mint.Console).Line("*", "cert-authority,"+lineOptions(operational))}, nil)))
	}},
	{id: "S26o", what: "a listed authority certifies a passkey", want: refusal.Malformed, run: func(w *world) error {
		w.browse(caLine(w))
		return w.bothWays(certified(mint.Certify(theCA(w), pam(w), "dora@example.com")), refusal.Malformed, refusal.StageDecode)
	}},
	misused("S26p", "is over the payload of another gate", refusal.TargetMismatch, refusal.StageTarget, func(w *world, r op.Request) error {
		there := w.altered(r, func(p *op.Payload) { p.Gate = "00112233445566778899aabbccddeeff" })
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, over(minted(pam(w)), there))), refusal.BadSignature)
		return w.send(r.ID, w.by(there, minted(pam(w))))
	}),
	misused("S26q", "in another role gets the namespace of this one", refusal.BadSignature, refusal.StageCrypto, func(w *world, r op.Request) error {
		for _, ns := range []string{coordination, recovery, ofBatches, authz.SignInNamespace} {
			s := mint.Sign(w.t, pam(w), ns, r.Payload)
			require.Error(w.t, w.send(r.ID, one(r.Payload, s.Armored())), ns)
			s.Namespace = operational
			require.ErrorIs(w.t, w.send(r.ID, one(r.Payload, s.Armored())), refusal.BadSignature, ns)
		}
		s := mint.Sign(w.t, pam(w), "git", r.Payload)
		s.Namespace = operational
		return w.send(r.ID, one(r.Payload, s.Armored()))
	}),
	misused("S26r", "for one request is handed in for another one", refusal.BindingMismatch, refusal.StageNonce, func(w *world, r op.Request) error {
		w.allow.finale = []string{"victim", "bystander"}
		second := w.request(ask("guest.destroy", "bystander"))
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, over(minted(pam(w)), second.Payload))), refusal.BadSignature)
		return w.send(r.ID, w.by(second.Payload, minted(pam(w))))
	}),
	misused("S26s", "that approves is sent to reject", refusal.Malformed, refusal.StageDecode, func(w *world, r op.Request) error {
		return failure(w.gate.Reject(w.ctx, hub, r.ID, w.by(r.Payload, minted(pam(w)))))
	}),
	misused("S26t", "that rejects is sent to approve", refusal.Malformed, refusal.StageDecode, func(w *world, r op.Request) error {
		e := rejects(w, r, minted(pam(w)))
		require.ErrorIs(w.t, w.send(r.ID, one(r.Payload, e.Signatures[0])), refusal.BadSignature)
		return w.send(r.ID, e)
	}),
	misused("S26u", "that approves is beside the bytes of a rejection", refusal.BadSignature, refusal.StageCrypto, func(w *world, r op.Request) error {
		return failure(w.gate.Reject(w.ctx, hub, r.ID, rejects(w, r, over(minted(pam(w)), r.Payload))))
	}),
	misused("S26v", "is over a batch, and its line may sign none", refusal.UnknownSigner, refusal.StageAllowList, func(w *world, r op.Request) error {
		_, es := w.signedBatch(voteIn(pam(w), ofBatches), nil, r.Payload)
		return w.send(r.ID, es[0])
	}),
	{id: "S26w", what: "a passkey's batch, where a rule wants a verified person for each step", want: refusal.NotAllowed, run: func(w *world) error {
		b := mint.Console
		dora := mint.Passkey(w.t, "dora", b)
		w.browse(dora.Line("dora@example.com", lineOptions(bothUses)))
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.*", Threshold: 1, Touch: op.TouchVerified})
		r := w.destroyRequest()
		_, es := w.signedBatch(voteIn(dora, ofBatches), nil, r.Payload)
		w.arm()
		return w.refusedAt(w.send(r.ID, es[0]), refusal.NotAllowed, refusal.StagePolicy)
	}},
	misused("S26x", "with which it signs in at a console approves", refusal.NamespaceMismatch, refusal.StageNamespace, func(w *world, r op.Request) error {
		return w.send(r.ID, w.by(r.Payload, voteIn(pam(w), authz.SignInNamespace)))
	}),
	misused("S26y", "with which it signs in at a console rejects", refusal.NamespaceMismatch, refusal.StageNamespace, func(w *world, r op.Request) error {
		return failure(w.gate.Reject(w.ctx, hub, r.ID, rejects(w, r, voteIn(pam(w), authz.SignInNamespace))))
	}),
	misused("S26z", "that approves signs in at a console", refusal.NamespaceMismatch, refusal.StageNamespace, func(w *world, r op.Request) error {
		w.allow.unlogged = "a console asks, and not a gate"
		return failure(w.gate.Trust().SignIn(r.Payload, minted(pam(w))(w.t, r.Payload), console, nil, w.now()))
	}),
}
