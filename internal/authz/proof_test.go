package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// rotation is a payload that adds lines.
func rotation(t testing.TB, params op.Params) []byte {
	t.Helper()
	p := examplePayload
	p.Op, p.Target, p.Params = "trust.rotate", op.Target{Kind: "trust", Name: "signers"}, params
	return must.Get(p.Encode())(t)
}

func adding(t testing.TB, lines ...string) []byte {
	t.Helper()
	var add []any
	for _, l := range lines {
		add = append(add, bare(l))
	}
	return rotation(t, op.Params{"add": add, "epoch": int64(2)})
}

func sent(payload []byte, signatures ...mint.Signature) authz.Envelope {
	e := authz.Envelope{Payload: payload}
	for _, s := range signatures {
		e.Signatures = append(e.Signatures, s.Armored())
	}
	return e
}

func TestProofs(t *testing.T) { // S18
	t.Parallel()
	alice, bob := mint.Ed25519(t, "alice"), mint.SKEd25519(t, "bob", said(mint.UserPresent))
	ca, expired := mint.RSA(t, "ca", 3072), mint.Ed25519(t, "expired")
	v := verifier(loaded(t, alice.Line("alice", asOperator), expired.Line("old", asOperator+`,valid-before="20310101Z"`)))
	payload := adding(t, bob.Line("bob", `namespaces="operational@gated,recovery@gated"`), ca.Line("*@example.com", asAuthority),
		expired.Line("renewed", asOperator))
	proof := func(k mint.Key, role op.Role, principal string, said *op.Attested) authz.Signer {
		return authz.Signer{Principal: principal, Role: role, Key: k.Fingerprint(), KeyType: k.Type(), Attested: said,
			Armor: mint.Sign(t, k, role.Namespace(), payload).Armored()}
	}
	touch := &op.Attested{Flags: op.FlagPresent, Counter: 42}
	proofs := []authz.Signer{proof(bob, op.Recovery, "bob", touch), proof(ca, op.Operational, "*@example.com", nil),
		proof(bob, op.Operational, "bob", touch), proof(expired, op.Operational, "renewed", nil)}
	e := authz.Envelope{Payload: payload, Signatures: []string{proofs[0].Armor, proofs[1].Armor,
		mint.Sign(t, alice, nsOperational, payload).Armored(), proofs[2].Armor, proofs[3].Armor}}
	got := must.Get(v.Approval(e, noon))(t)
	require.Equal(t, proofs, got.Proofs)
	require.Len(t, got.Signers, 1)
	require.Equal(t, "alice", got.Signers[0].Principal)

	got, err := v.Approval(authz.Envelope{Payload: payload, Signatures: []string{proofs[1].Armor}}, noon)
	require.NoError(t, err, "proofs alone")
	require.Empty(t, got.Signers)
	require.Equal(t, proofs[1:2], got.Proofs)

	_, err = authz.VerifyFile(payload, proofs[1].Armor, v.Trust, noon)
	refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

// TestAcceptedIsNoProof: a key that may sign already counts, and gives no proof.
func TestAcceptedIsNoProof(t *testing.T) {
	t.Parallel()
	alice := mint.Ed25519(t, "alice")
	payload := adding(t, alice.Line("alicia", asOperator))
	got, err := verifier(loaded(t, alice.Line("alice", asOperator))).Approval(sent(payload, mint.Sign(t, alice, nsOperational, payload)), noon)
	require.NoError(t, err)
	require.Empty(t, got.Proofs)
	require.Equal(t, "alice", got.Signers[0].Principal)
}

func TestProofRefusals(t *testing.T) { // S18
	t.Parallel()
	alice, bob, mallory, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob"), mint.Ed25519(t, "mallory"), mint.Ed25519(t, "ca")
	sk, untouched := mint.SKECDSA(t, "sk", said(mint.UserPresent)), mint.SKECDSA(t, "sk", said(0))
	trust := loaded(t, alice.Line("alice", asOperator))
	payload := adding(t, bob.Line("bob", asOperator), ca.Line("*", asAuthority), sk.Line("sk", `namespaces="operational@gated,manager@gated"`),
		"not a line", "# a comment", bob.Line("bob", `namespaces="git"`))
	sign := func(k mint.Key, ns string) mint.Signature { return mint.Sign(t, k, ns, payload) }
	forged := sign(bob, nsOperational)
	forged.Value[5] ^= 1
	for _, c := range []struct {
		name  string
		trust *authz.Trust
		s     mint.Signature
		code  refusal.Code
		stage refusal.Stage
	}{
		{"key that is not added", trust, sign(mallory, nsOperational), refusal.UnknownSigner, refusal.StageAllowList},
		{"added for another role", trust, sign(bob, nsRecovery), refusal.UnknownSigner, refusal.StageAllowList},
		{"added for git too", trust, sign(bob, "git"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"role that the gate has not", trust, sign(sk, "manager@gated"), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"forged", trust, forged, refusal.BadSignature, refusal.StageCrypto},
		{"over other bytes", trust, mint.Sign(t, bob, nsOperational, adding(t, bob.Line("bob", asOperator))), refusal.BadSignature, refusal.StageCrypto},
		{"not touched", trust, sign(untouched, nsOperational), refusal.TouchRequired, refusal.StageCrypto},
		{"revoked", trust.WithRevoked(revoking(t, bob.Fingerprint())), sign(bob, nsOperational), refusal.SignerRevoked, refusal.StageAllowList},
		{"revocation file unreadable", trust.WithRevoked(authz.UnreadableRevoked(nil)), sign(bob, nsOperational), refusal.Unavailable, refusal.StageAllowList},
		{"certificate of an added key", trust, mint.SignWith(t, mint.Certify(alice, bob, "bob"), bob, nsOperational, payload), refusal.UnknownSigner, refusal.StageAllowList},
		{"certificate by an added CA", trust, mint.SignWith(t, mint.Certify(ca, bob, "bob"), bob, nsOperational, payload), refusal.UnknownSigner, refusal.StageAllowList},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := verifier(c.trust).Approval(sent(payload, sign(alice, nsOperational), c.s), noon)
			if refusal.CodeOf(err) == refusal.Unavailable {
				refusedAs(t, err, c.code, c.stage)
				return
			}
			refusedAs(t, err, c.code, c.stage)
			require.Contains(t, err.Error(), "signature 2: ")
		})
	}
}

// TestProofsOfRotationAlone: params of other operations, and params that are not a
// rotation's, exempt no signature.
func TestProofsOfRotationAlone(t *testing.T) {
	t.Parallel()
	alice, bob := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob")
	v, line := verifier(loaded(t, alice.Line("alice", asOperator))), bare(bob.Line("bob", asOperator))
	other := examplePayload
	other.Params = op.Params{"add": []any{line}}
	encoded := must.Get(other.Encode())(t)
	payloads := map[string][]byte{"another operation": encoded}
	for name, add := range map[string]any{
		"a string": line, "a number": int64(1), "a boolean": true, "an object": map[string]any{"0": line},
		"numbers": []any{int64(1), false}, "nested": []any{[]any{line}}, "nothing": []any{},
	} {
		payloads[name] = rotation(t, op.Params{"add": add, "remove": add, "epoch": add})
	}
	for name, payload := range payloads {
		_, err := v.Approval(sent(payload, mint.Sign(t, bob, nsOperational, payload)), noon)
		refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
		must.Get(v.Approval(sent(payload, mint.Sign(t, alice, nsOperational, payload)), noon))(t, name)
	}
	rejection := op.Rejection{Gate: other.Gate, Host: other.Host, Request: op.RequestID{Job: 1, Index: 1}, PayloadSHA256: op.SHA256(nil),
		Nonce: other.Nonce, IssuedAt: other.IssuedAt, ExpiresAt: other.ExpiresAt}
	b := must.Get(rejection.Encode())(t)
	_, err := v.Rejection(sent(b, mint.Sign(t, bob, nsOperational, b)), noon)
	refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

func TestRolesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	alice := mint.Ed25519(t, "alice")
	v := verifier(loaded(t, alice.Line("alice", `namespaces="zoo@gated,manager@gated,recovery@gated,git,operational@gated,Odd@gated"`)))
	require.Equal(t, []op.Role{op.Operational, op.Recovery, "manager", "zoo"}, v.Trust.Signers()[0].Roles)
	s := mint.Sign(t, alice, "manager@gated", payloadOf(t))
	_, err := v.Approval(sent(payloadOf(t), s), noon)
	refusedAs(t, err, refusal.NamespaceMismatch, refusal.StageNamespace)
	v.Roles = []op.Role{"clerk", "manager"}
	got := must.Get(v.Approval(sent(payloadOf(t), s), noon))(t)
	require.Equal(t, op.Role("manager"), got.Signers[0].Role)
	_, err = v.Approval(sent(payloadOf(t), mint.Sign(t, alice, "clerk@gated", payloadOf(t))), noon)
	refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
	who := must.Get(authz.VerifyFile(payloadOf(t), s.Armored(), v.Trust, noon))(t)
	require.Equal(t, op.Role("manager"), who.Role)
}
