package authz_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// The common parts of the external tests. Keys and certificates are minted.

const (
	nsOperational = "operational@gated"
	nsRecovery    = "recovery@gated"
	asOperator    = `namespaces="operational@gated"`
	asAuthority   = `cert-authority,namespaces="operational@gated"`
)

func loaded(t require.TestingT, lines ...string) *authz.Trust {
	var text string
	for _, l := range lines {
		text += l
	}
	return must.Get(authz.LoadTrust([]byte(text)))(t)
}

func verifier(trust *authz.Trust) authz.Verifier {
	return authz.Verifier{Gate: examplePayload.Gate, Host: examplePayload.Host, Trust: trust, Skew: time.Minute, MaxValidity: 24 * time.Hour}
}

// approves verifies one signature over the example.
func approves(t testing.TB, trust *authz.Trust, s mint.Signature, at time.Time) (authz.Signer, error) {
	t.Helper()
	v := verifier(trust)
	v.Skew, v.MaxValidity = 1000*time.Hour, 1000*time.Hour // the payload's own time does not matter here
	got, err := v.Approval(authz.Envelope{Payload: payloadOf(t), Signatures: []string{s.Armored()}}, at)
	if err != nil {
		return authz.Signer{}, err
	}
	require.Empty(t, got.Proofs)
	require.Len(t, got.Signers, 1)
	return got.Signers[0], nil
}

// refusedAs asserts the exact code and stage, and that there is a text for people
// without a key in it.
func refusedAs(t testing.TB, err error, code refusal.Code, stage refusal.Stage) {
	t.Helper()
	require.Error(t, err)
	r := refusal.As(err)
	require.Equal(t, code, r.Code, "%v", err)
	require.Equal(t, stage, r.Stage, "%v", err)
	require.NotEmpty(t, r.Detail)
	require.NotContains(t, r.Detail, "AAAA")
}

// said is an authenticator with those flags.
func said(flags byte) mint.Authenticator {
	return mint.Authenticator{Application: mint.Application, Flags: flags, Counter: 42}
}

// everyKey has a key of each accepted type.
func everyKey(t mint.TB) []mint.Key {
	return []mint.Key{
		mint.Ed25519(t, "alice"), mint.ECDSA(t, "bob", 256), mint.ECDSA(t, "carol", 384), mint.ECDSA(t, "dave", 521),
		mint.RSA(t, "erin", 3072), mint.SKEd25519(t, "frank", said(mint.UserPresent)), mint.SKECDSA(t, "grace", said(mint.UserPresent)),
	}
}

// attestedOf is what a key of everyKey attests.
func attestedOf(k mint.Key) *op.Attested {
	if slices.Contains([]string{"frank", "grace"}, k.Name) {
		return &op.Attested{Flags: op.FlagPresent, Counter: 42}
	}
	return nil
}
