package pubkey_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

const alice = "../../../testdata/keys/alice.pub"

// TestARoleIsOne: more words in a role would be more namespaces in the line.
func TestARoleIsOne(t *testing.T) {
	for _, role := range []op.Role{"", "Operators", "operational@gated,recovery", `operational" x="`} {
		must.Fail(pubkey.SignerOf(pubkey.Arg{Path: alice, Principal: "a@example.com"}, role))(t, refusal.BadParams)
	}
	s := must.Get(pubkey.SignerOf(pubkey.ArgOf(alice+":a@example.com"), op.Recovery))(t)
	require.Equal(t, "a@example.com", s.Name)
	require.Contains(t, s.Line, `a@example.com namespaces="recovery@gated" ssh-`)
}
