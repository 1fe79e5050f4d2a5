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

// cyrillic looks like alice@example.com in most fonts.
const cyrillic = "\u0430lice@example.com"

// A rotation lists no name that looks like another: names of keys and authorities
// must be printable ASCII.
func TestRotationTakesASCIINamesAlone(t *testing.T) {
	t.Parallel()
	alice, eve := mint.Ed25519(t, "alice"), mint.Ed25519(t, "eve")
	trust := loaded(t, alice.Line("alice@example.com", asOperator))
	for _, name := range []string{cyrillic, "al\u0131ce@example.com", "bj\u00f6rn", "\u05d0", "a\u00a0b"} {
		for _, what := range []string{asOperator, asAuthority} {
			_, err := trust.Rotate([]string{bare(eve.Line(`"`+name+`"`, what))}, nil, noon)
			refusedAs(t, err, refusal.BadParams, "")
			require.NotContains(t, err.Error(), name)
		}
	}
	must.Get(trust.Rotate([]string{bare(eve.Line(`"eve of ops"`, asOperator))}, nil, noon))(t)
}

// An older file with such a name still loads, and the name is shown escaped.
func TestForeignNamesAreShownEscaped(t *testing.T) {
	t.Parallel()
	trust := loaded(t, mint.Ed25519(t, "alice").Line(cyrillic, asOperator))
	require.Equal(t, cyrillic, trust.Signers()[0].Principal)
	require.Regexp(t, `^"\\u0430lice@example.com" operational SHA256:`, trust.Signers()[0].String())
	r, err := trust.Rotate([]string{bare(mint.Ed25519(t, "bob").Line("bob", asOperator))}, []string{trust.Signers()[0].Key}, noon)
	require.NoError(t, err, "it can be taken out")
	require.Equal(t, `of "\u0430lice@example.com" goes, who can sign nothing afterwards: `+trust.Signers()[0].Key+" could sign as operational",
		trust.Effects(r, noon)[1].Fact().Text)
}

func TestEffects(t *testing.T) {
	t.Parallel()
	alice, bob, carol, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "ca")
	other, third, eve := mint.Ed25519(t, "other"), mint.Ed25519(t, "third"), mint.Ed25519(t, "eve")
	const ended = `valid-before="20200101Z",` + asOperator
	trust := loaded(t, alice.Line("alice@example.com", asOperator), bob.Line("bob", `namespaces="coordination@gated,operational@gated"`),
		carol.Line("carol", asRecovery), third.Line("alice@example.com", ended),
		mint.Ed25519(t, "dave").Line("dave", `namespaces="coordination@gated,operational@gated"`))
	key := func(k mint.Key) string { return k.Fingerprint() }
	for name, c := range map[string]struct {
		add, remove []string
		want        []op.Fact
	}{
		"a new person": {[]string{eve.Line("eve", asOperator)}, nil,
			[]op.Fact{{Name: "NEW person", Text: "eve: no line names them now, and they could sign as operational"}}},
		"a new person whose name is read as another": {[]string{eve.Line("a1ice@example.com", asOperator)}, nil,
			[]op.Fact{{Name: "NEW person", Text: "a1ice@example.com, who is NOT alice@example.com: no line names them now, and they could sign as operational"}}},
		"another case": {[]string{eve.Line("Bob", asOperator)}, nil,
			[]op.Fact{{Name: "NEW person", Text: "Bob, who is NOT bob: no line names them now, and they could sign as operational"}}},
		"rn as m": {[]string{eve.Line("rnallory", asOperator), other.Line("mallory", asOperator)}, nil,
			[]op.Fact{{Name: "NEW person", Text: "rnallory, who is NOT mallory: no line names them now, and they could sign as operational"},
				{Name: "NEW person", Text: "mallory, who is NOT rnallory: no line names them now, and they could sign as operational"}}},
		"a second key": {[]string{other.Line("alice@example.com", asOperator)}, nil,
			[]op.Fact{{Name: "second key", Text: "of alice@example.com: " + key(other) + " could sign as operational"}}},
		"two more keys": {[]string{other.Line("bob", asOperator), eve.Line("bob", asOperator)}, nil,
			[]op.Fact{{Name: "key number 3", Text: "of bob: " + key(other) + " could sign as operational"},
				{Name: "key number 3", Text: "of bob: " + key(eve) + " could sign as operational"}}},
		"a key in the place of the one": {[]string{other.Line("bob", asOperator)}, []string{key(bob)},
			[]op.Fact{{Name: "only key", Text: "of bob, who keeps no other: " + key(other) + " could sign as operational"},
				{Name: "key goes", Text: "of bob, who keeps 1: " + key(bob) + " could sign as coordination, operational"}}},
		"the last key of a person": {nil, []string{key(bob)},
			[]op.Fact{{Name: "LAST key", Text: "of bob goes, who can sign nothing afterwards: " + key(bob) + " could sign as coordination, operational"}}},
		"one key of two that count no more": {[]string{eve.Line("eve", asOperator)}, []string{key(alice)},
			[]op.Fact{{Name: "NEW person", Text: "eve: no line names them now, and they could sign as operational"},
				{Name: "LAST key", Text: "of alice@example.com goes, who can sign nothing afterwards: " + key(alice) + " could sign as operational"}}},
		"other roles for a key": {[]string{bob.Line("bob", asOperator)}, []string{key(bob)},
			[]op.Fact{{Name: "changed key", Text: key(bob) + " of bob could sign as operational, until now as coordination, operational"}}},
		"a key under another name": {[]string{bob.Line("eve", asOperator)}, []string{key(bob)},
			[]op.Fact{{Name: "NEW person", Text: "eve: no line names them now, and they could sign as operational"},
				{Name: "LAST key", Text: "of bob goes, who can sign nothing afterwards: " + key(bob) + " could sign as coordination, operational"}}},
		"an authority": {[]string{ca.Line("*@example.com", asAuthority)}, nil,
			[]op.Fact{{Name: "NEW authority", Text: key(ca) + ": people that it certifies as *@example.com could sign as operational"}}},
		"for a time": {[]string{eve.Line("eve", `valid-before="20900101Z",`+asOperator)}, nil,
			[]op.Fact{{Name: "NEW person", Text: "eve: no line names them now, and they could sign as operational, until 2090-01-01T00:00:00Z"}}},
	} {
		var add []string
		for _, line := range c.add {
			add = append(add, bare(line))
		}
		r := must.Get(trust.Rotate(add, c.remove, noon))(t, name)
		var got []op.Fact
		for _, e := range trust.Effects(r, noon) {
			got = append(got, e.Fact())
		}
		require.Equal(t, c.want, got, name)
	}

	withCA := loaded(t, alice.Line("alice", asOperator), ca.Line("*@example.com", asAuthority))
	r := must.Get(withCA.Rotate(nil, []string{key(ca)}, noon))(t)
	require.Equal(t, op.Fact{Name: "authority goes", Text: key(ca) + ": people that it certifies as *@example.com could sign as operational"}, withCA.Effects(r, noon)[0].Fact())

	// A revoked key does not count as one that a person keeps.
	twice := loaded(t, alice.Line("alice", asOperator), other.Line("alice", asOperator), bob.Line("bob", asOperator)).WithRevoked(revoking(t, key(other)))
	r = must.Get(twice.Rotate(nil, []string{key(alice)}, noon))(t)
	require.Equal(t, "LAST key", twice.Effects(r, noon)[0].Fact().Name)
	r, err := (*authz.Trust)(nil).Rotate([]string{bare(alice.Line("alice", asOperator))}, nil, noon.Add(time.Hour))
	require.NoError(t, err)
	require.True(t, (*authz.Trust)(nil).Effects(r, noon)[0].New)
}
