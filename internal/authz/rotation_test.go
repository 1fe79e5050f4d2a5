package authz_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// bare is a line as in a payload, without its newline.
func bare(line string) string { return strings.TrimSuffix(line, "\n") }

const asRecovery = `namespaces="recovery@gated"`

func TestRotate(t *testing.T) {
	t.Parallel()
	alice, bob, carol, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "ca")
	text := "# operators\n" + alice.Line("alice", asOperator) + "\n  # recovery\n" + carol.Line("carol", asRecovery) +
		alice.Line("alice", `namespaces="coordination@gated"`) + "# the end"
	list := revoking(t, ca.Fingerprint())
	trust := loaded(t, text).WithRevoked(list)
	add := bare(bob.Line("bob", `namespaces="git,operational@gated,coordination@gated"`))

	r := must.Get(trust.Rotate([]string{add}, []string{alice.Fingerprint()}, noon))(t)
	require.Equal(t, "# operators\n\n  # recovery\n"+carol.Line("carol", asRecovery)+"# the end\n"+add+"\n", string(r.Text))
	require.Equal(t, r.Text, r.Trust.Text())
	require.Equal(t, []op.Role{op.Operational, op.Coordination}, r.Roles)
	require.False(t, r.Reserved)
	require.Equal(t, []int{2, 6}, []int{r.Removed[0].Line, r.Removed[1].Line})
	require.Len(t, r.Removed, 2)
	require.Len(t, r.Added, 1)
	require.Equal(t, bob.Fingerprint(), r.Added[0].Key)
	require.Equal(t, []authz.Owed{{Key: bob.Fingerprint(), Role: op.Operational}, {Key: bob.Fingerprint(), Role: op.Coordination}}, r.Owed())
	_, err := r.Trust.Rotate([]string{bare(ca.Line("*", asAuthority))}, nil, noon)
	refusedAs(t, err, refusal.BadParams, "")
	require.Contains(t, err.Error(), "revoked", "the list goes along")
	require.Equal(t, text, string(trust.Text()), "the file in force is as it was")

	r, err = trust.Rotate(nil, []string{carol.Fingerprint()}, noon)
	refusedAs(t, err, refusal.BadParams, "")
	require.Nil(t, r.Trust, "what is refused hands out nothing")

	first := must.Get((*authz.Trust)(nil).Rotate([]string{add}, nil, noon))(t)
	require.Equal(t, add+"\n", string(first.Text))
}

func TestRotationReserved(t *testing.T) { // S22
	t.Parallel()
	alice, carol, dave, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "dave"), mint.Ed25519(t, "ca")
	trust := loaded(t, alice.Line("alice", asOperator), carol.Line("carol", asRecovery), dave.Line("dave", asRecovery),
		alice.Line("alice", `namespaces="git"`), ca.Line("*", asAuthority))
	for _, c := range []struct {
		name   string
		add    []string
		remove []string
	}{
		{"recovery line added", []string{bare(mint.Ed25519(t, "x").Line("x", asRecovery))}, nil},
		{"recovery beside operational", []string{bare(mint.Ed25519(t, "x").Line("x", `namespaces="operational@gated,recovery@gated"`))}, nil},
		{"recovery line removed", nil, []string{dave.Fingerprint()}},
		{"CA line added", []string{bare(mint.Ed25519(t, "x").Line("*", asAuthority))}, nil},
		{"CA line removed", nil, []string{ca.Fingerprint()}},
		{"CA line turned into a plain one", []string{bare(ca.Line("ca", asOperator))}, []string{ca.Fingerprint()}},
	} {
		r := must.Get(trust.Rotate(c.add, c.remove, noon))(t, c.name)
		require.True(t, r.Reserved, c.name)
	}
	r, err := trust.Rotate([]string{bare(mint.Ed25519(t, "x").Line("x", asOperator))}, []string{alice.Fingerprint()}, noon)
	require.NoError(t, err)
	require.False(t, r.Reserved)
}

func TestRotateRefusals(t *testing.T) { // S18
	t.Parallel()
	alice, bob, carol, lost := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "lost")
	trust := loaded(t, alice.Line("alice", asOperator), carol.Line("carol", asRecovery), lost.Line("lost", asOperator),
		bob.Line("bob", asOperator+`,valid-before="20310504115959Z"`),
	).WithRevoked(revoking(t, lost.Fingerprint()))
	x := mint.Ed25519(t, "x")
	line := func(options string) []string { return []string{bare(x.Line("x", options))} }
	remove := func(keys ...mint.Key) (out []string) {
		for _, k := range keys {
			out = append(out, k.Fingerprint())
		}
		return out
	}
	for _, c := range []struct {
		name   string
		add    []string
		remove []string
		says   string
	}{
		{"nothing", nil, nil, "neither adds nor removes"},
		{"S18 last recovery key", nil, remove(carol), "last key of the role recovery"},
		{"S18 last operational key that is valid and not revoked", nil, remove(alice), "last key of the role operational"},
		{"S18 last key, its successor not valid yet", line(asOperator + `,valid-after="20310504120001Z"`), remove(alice), "last key"},
		{"S18 last key, its successor for another role", line(`namespaces="coordination@gated"`), remove(alice), "last key"},
		{"S18 last key, re-added for later", []string{bare(alice.Line("alice", asOperator+`,valid-after="20310504120001Z"`))}, remove(alice), "last key"},
		{"ended addition", line(asOperator + `,valid-before="20310504115959Z"`), nil, "valid-before has passed"},
		{"listed key", []string{bare(alice.Line("alice", `namespaces="coordination@gated"`))}, nil, "listed already"},
		{"listed key as a CA", []string{bare(alice.Line("*", asAuthority))}, nil, "listed already"},
		{"revoked key", []string{bare(lost.Line("lost", asOperator))}, remove(lost), "revoked"},
		{"unlisted key", nil, remove(x), "no line lists"},
		{"no fingerprint", nil, []string{""}, "no line lists"},
		{"twice removed", nil, remove(lost, lost), "twice"},
		{"no role", line(`namespaces="git"`), nil, "no key for a role"},
		{"no namespaces", line(`valid-before="20400101Z"`), nil, "namespaces is missing"},
		{"a comment", []string{"# x"}, nil, "no key for a role"},
		{"an empty line", []string{""}, nil, "no key for a role"},
		{"two lines in one", []string{x.Line("x", asOperator) + bare(bob.Line("y", asRecovery))}, nil, "U+000A"},
		{"a newline", []string{x.Line("x", asOperator)}, nil, "U+000A"},
		{"a weak key", []string{bare(mint.RSA(t, "weak", 2048).Line("x", asOperator))}, nil, "too weak"},
		{"two principals", []string{bare(x.Line("x,y", asOperator))}, nil, "one principal"},
		{"a file that grows too long", []string{bare(x.Line("x", asOperator)) + " " + strings.Repeat("x", authz.MaxTrust)}, nil, "would not load"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := trust.Rotate(c.add, c.remove, noon)
			refusedAs(t, err, refusal.BadParams, "")
			require.Contains(t, err.Error(), c.says)
		})
	}
	must.Get(trust.Rotate(line(asOperator), remove(alice, lost, bob), noon))(t, "with a successor they may go")
}

// TestOwed: a rotation owes a proof for each key and role that the file does not
// list for the same use now.
func TestOwed(t *testing.T) {
	t.Parallel()
	alice, carol, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "ca")
	trust := loaded(t, alice.Line("alice", asOperator), carol.Line("carol", asOperator+`,valid-before="20310101Z"`), ca.Line("*", asAuthority),
		mint.Ed25519(t, "other").Line("other", asOperator))
	operational := func(k mint.Key) authz.Owed { return authz.Owed{Key: k.Fingerprint(), Role: op.Operational} }
	for _, c := range []struct {
		name string
		key  mint.Key
		line string
		want []authz.Owed
	}{
		{"the same again", alice, alice.Line("alice", asOperator), nil},
		{"another principal", alice, alice.Line("alicia", asOperator), nil},
		{"another end", alice, alice.Line("alice", asOperator+`,valid-before="20320101Z"`), nil},
		{"one role more", alice, alice.Line("alice", `namespaces="operational@gated,manager@gated"`), []authz.Owed{{Key: alice.Fingerprint(), Role: "manager"}}},
		{"as a CA", alice, alice.Line("*", asAuthority), []authz.Owed{operational(alice)}},
		{"an expired one made valid", carol, carol.Line("carol", asOperator), []authz.Owed{operational(carol)}},
		{"a CA as a CA", ca, ca.Line("*@example.com", asAuthority), nil},
		{"a CA as a signer", ca, ca.Line("ca", asOperator), []authz.Owed{operational(ca)}},
	} {
		r := must.Get(trust.Rotate([]string{bare(c.line)}, []string{c.key.Fingerprint()}, noon))(t, c.name)
		require.Equal(t, c.want, r.Owed(), c.name)
	}
	x := mint.Ed25519(t, "x")
	r, err := trust.Rotate([]string{bare(x.Line("x", asOperator)), bare(x.Line("x", asOperator+`,valid-after="20320101Z"`))}, nil, noon)
	require.NoError(t, err)
	require.Equal(t, []authz.Owed{operational(x)}, r.Owed(), "each pair once")
}
