package authz_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func TestAccepts(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	ca, key, other := mint.Ed25519(t, "ca"), mint.Ed25519(t, "key"), mint.SKEd25519(t, "other", mint.Touched)
	trust := must.Get(authz.LoadTrust([]byte(key.Line("alice", `namespaces="operational@gated"`) +
		other.Line("bob", `namespaces="recovery@gated",valid-before="20310101Z"`) +
		ca.Line("*@example.com", `cert-authority,namespaces="operational@gated,manager@gated"`))))(t)
	certified := func(principal string) []byte { return mint.Certify(ca, key, principal).Blob(t) }
	expired := mint.Certify(ca, key, "alice@example.com")
	expired.ValidBefore = at
	for name, c := range map[string]struct {
		blob []byte
		role op.Role
		want string
		code refusal.Code
	}{
		"a key":                           {key.Blob(), op.Operational, "alice", ""},
		"for another role":                {key.Blob(), op.Recovery, "", refusal.UnknownSigner},
		"whose line expired":              {other.Blob(), op.Recovery, "", refusal.SignerExpired},
		"not listed":                      {mint.Ed25519(t, "x").Blob(), op.Operational, "", refusal.UnknownSigner},
		"a CA is not a signer":            {ca.Blob(), op.Operational, "", refusal.UnknownSigner},
		"a certificate":                   {certified("alice@example.com"), "manager", "alice@example.com", ""},
		"that the pattern does not match": {certified("alice@example.org"), "manager", "", refusal.UnknownSigner},
		"by an unlisted CA":               {mint.Certify(other, key, "alice@example.com").Blob(t), op.Operational, "", refusal.UnknownSigner},
		"that expired":                    {expired.Blob(t), op.Operational, "", refusal.SignerExpired},
		"no key":                          {[]byte("x"), op.Operational, "", refusal.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := trust.Accepts(c.blob, c.role, false, at)
			require.Equal(t, c.want, got)
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.code)
		})
	}
}

// A key signs batches only if its line says so, and Accepts says the same.
func TestAcceptsOfABatch(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	one, many := mint.Ed25519(t, "one"), mint.Ed25519(t, "many")
	trust := must.Get(authz.LoadTrust([]byte(one.Line("alice", `namespaces="operational@gated"`) +
		many.Line("bob", `namespaces="operational@gated,operational@batch.gated"`))))(t)
	require.Equal(t, "bob", must.Get(trust.Accepts(many.Blob(), op.Operational, true, at))(t))
	must.Fail(trust.Accepts(one.Blob(), op.Operational, true, at))(t, refusal.UnknownSigner)
	must.Get(trust.Accepts(one.Blob(), op.Operational, false, at))(t)
}
