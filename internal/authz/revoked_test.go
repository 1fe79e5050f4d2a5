package authz_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func revoking(t require.TestingT, lines ...string) *authz.Revoked {
	return must.Get(authz.LoadRevoked([]byte(strings.Join(lines, "\n"))))(t)
}

func TestRevokedKeys(t *testing.T) { // S14
	t.Parallel()
	alice, bob, ca := mint.Ed25519(t, "alice"), mint.SKEd25519(t, "bob", mint.Touched), mint.RSA(t, "ca", 3072)
	trust := loaded(t, alice.Line("alice", asOperator), bob.Line("bob", asOperator), ca.Line("*", asAuthority))
	signatures := map[string]mint.Signature{
		"alice": mint.Sign(t, alice, nsOperational, payloadOf(t)), "bob": mint.Sign(t, bob, nsOperational, payloadOf(t)),
		"certified alice": mint.SignWith(t, mint.Certify(ca, alice, "alice"), alice, nsOperational, payloadOf(t)),
		"certified bob":   mint.SignWith(t, mint.Certify(ca, bob, "bob"), bob, nsOperational, payloadOf(t)),
	}
	for _, c := range []struct {
		list    string
		revoked string
	}{
		{"", ""},
		{"# " + alice.Fingerprint(), ""},
		{mint.Ed25519(t, "carol").Fingerprint(), ""},
		{alice.Fingerprint(), "alice, certified alice"},
		{" \t" + alice.Fingerprint() + "\t ", "alice, certified alice"},
		{alice.Text(), "alice, certified alice"},
		{"\n# lost\n\t" + alice.Text() + "\t \talice's laptop # 1\n", "alice, certified alice"},
		{bob.Text() + "\n" + bob.Fingerprint(), "bob, certified bob"},
		{ca.Text(), "certified alice, certified bob"},
		{ca.Fingerprint() + "\n", "certified alice, certified bob"},
		{mint.Certify(ca, alice, "alice").Text(t), "alice, certified alice"}, // the certificate's key, as in ssh-keygen -r
		{mint.RSA(t, "weak", 2048).Text() + "\n" + mint.DSA(t, "old").Text(), ""},
		{bob.Fingerprint() + "\n" + alice.Text() + " x\n" + ca.Text() + "\n", "alice, bob, certified alice, certified bob"},
	} {
		revoked := trust.WithRevoked(revoking(t, c.list))
		require.NoError(t, revoked.Blocked())
		for name, s := range signatures {
			signer := must.Get(approves(t, trust, s, noon))(t)
			signed := op.Signed{Principal: signer.Principal, Role: signer.Role, Key: signer.Key, CA: signer.CA, Armor: signer.Armor}
			_, err := approves(t, revoked, s, noon)
			still := revoked.Still(signed, noon)
			if strings.Contains(", "+c.revoked+",", ", "+name+",") {
				refusedAs(t, err, refusal.SignerRevoked, refusal.StageAllowList)
				require.ErrorIs(t, still, refusal.SignerRevoked)
			} else {
				require.NoError(t, err, "%s with %q", name, c.list)
				require.NoError(t, still)
			}
		}
	}
}

func TestRevokedComesFirst(t *testing.T) {
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	list := revoking(t, alice.Fingerprint(), ca.Fingerprint())
	for name, s := range map[string]mint.Signature{
		"unlisted":    mint.Sign(t, alice, nsOperational, payloadOf(t)),
		"other role":  mint.Sign(t, alice, nsRecovery, payloadOf(t)),
		"host":        mint.SignWith(t, mint.Cert{Key: alice, CA: ca, Kind: mint.HostCert}, alice, nsOperational, payloadOf(t)),
		"wrong bytes": mint.Sign(t, alice, nsOperational, []byte("other")),
	} {
		must.Fail(approves(t, loaded(t).WithRevoked(list), s, noon))(t, refusal.SignerRevoked, name)
		must.Fail(approves(t, (*authz.Trust)(nil).WithRevoked(list), s, noon))(t, refusal.SignerRevoked, name)
	}
}

func TestRevokedRefusals(t *testing.T) {
	t.Parallel()
	alice := mint.Ed25519(t, "alice")
	print := alice.Fingerprint()
	for name, line := range map[string]string{
		"word":                   "alice",
		"path":                   "/etc/ssh/revoked",
		"KRL":                    "SSHKRL\n",
		"bare fingerprint":       strings.TrimPrefix(print, "SHA256:"),
		"MD5":                    "MD5:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff",
		"lower-case prefix":      strings.ToLower(print[:7]) + print[7:],
		"42 characters":          print[:len(print)-1],
		"44 characters":          print + "A",
		"padding":                print + "=",
		"stray bits":             "SHA256:" + strings.Repeat("A", 42) + "B",
		"URL alphabet":           "SHA256:" + strings.Repeat("_", 43),
		"space inside":           print[:20] + " " + print[20:],
		"fingerprint, comment":   print + " alice",
		"ssh-keygen -l":          "256 " + print + " alice (ED25519)",
		"type alone":             "ssh-ed25519",
		"options":                asOperator + " " + alice.Text(),
		"principal":              "alice " + alice.Text(),
		"type of another":        "ssh-rsa " + strings.Fields(alice.Text())[1],
		"cut base64":             alice.Text()[:40],
		"stray bits in a key":    mint.ECDSA(t, "bob", 256).Text()[:10] + "!",
		"unknown type":           mint.Text("ssh-xmss@openssh.com", mint.String("ssh-xmss@openssh.com")),
		"two encodings":          mint.Text("ssh-rsa", mint.Strings("ssh-rsa", "\x00\x01\x00\x01", "\x00"+strings.Repeat("\xff", 384))),
		"certificate, cut short": mint.Text("ssh-ed25519-cert-v01@openssh.com", mint.String("ssh-ed25519-cert-v01@openssh.com")),
		"CR":                     print + "\r",
		"NUL":                    print + "\x00",
		"BOM":                    "\ufeff" + print,
		"invalid UTF-8":          "# \xff",
		"bidirectional comment":  "# \u202e",
	} {
		list, err := authz.LoadRevoked([]byte("# one\n" + line + "\n" + print + "\n"))
		refusedAs(t, err, refusal.Malformed, "")
		require.True(t, strings.HasPrefix(refusal.As(err).Detail, "line 2: "), "%s: %v", name, err)
		require.NotContains(t, err.Error(), strings.Fields(alice.Text())[1][30:40], "%s: no key material", name)
		require.Nil(t, list)
	}
	for n, ok := range map[int]bool{authz.MaxRevoked - 1: true, authz.MaxRevoked: true, authz.MaxRevoked + 1: false} {
		_, err := authz.LoadRevoked([]byte("#" + strings.Repeat("x", n-1)))
		require.Equal(t, ok, err == nil, "%d bytes", n)
	}
}

func TestUnreadableRevoked(t *testing.T) {
	t.Parallel()
	alice, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	trust := loaded(t, alice.Line("alice", asOperator), ca.Line("*", asAuthority))
	_, malformed := authz.LoadRevoked([]byte("\nnonsense"))
	for _, err := range []error{malformed, errors.New("open /secret/path: no such file"), nil} {
		blocked := trust.WithRevoked(authz.UnreadableRevoked(err))
		refusedAs(t, blocked.Blocked(), refusal.Unavailable, refusal.StageAllowList)
		require.NotContains(t, blocked.Blocked().Error(), "secret")
		require.Equal(t, err == malformed, strings.Contains(blocked.Blocked().Error(), "line 2: "))
		for _, s := range []mint.Signature{
			mint.Sign(t, alice, nsOperational, payloadOf(t)), mint.Sign(t, ca, nsOperational, payloadOf(t)),
			mint.SignWith(t, mint.Certify(ca, alice, "alice"), alice, nsOperational, payloadOf(t)),
		} {
			_, err := approves(t, blocked, s, noon)
			refusedAs(t, err, refusal.Unavailable, refusal.StageAllowList)
		}
		for _, s := range []op.Signed{
			{Principal: "alice", Role: op.Operational, Key: alice.Fingerprint()},
			{Principal: "alice", Role: op.Operational, Key: alice.Fingerprint(), CA: ca.Fingerprint()},
		} {
			refusedAs(t, blocked.Still(s, noon), refusal.Unavailable, refusal.StageAllowList)
		}
		require.Empty(t, blocked.Could(op.Operational, op.TouchNone, false, noon))
		_, err := blocked.Rotate(nil, []string{alice.Fingerprint()}, noon)
		refusedAs(t, err, refusal.Unavailable, refusal.StageAllowList)
		require.NoError(t, blocked.WithRevoked(nil).Blocked(), "and back")
	}
	require.NoError(t, trust.Blocked())
	require.NoError(t, (*authz.Trust)(nil).Blocked())
}

// TestWhatRevokes: a gate must not start without a list that revokes a key, or may. A file that never existed revoked none.
func TestWhatRevokes(t *testing.T) {
	t.Parallel()
	alice := mint.Ed25519(t, "alice")
	one := must.Get(authz.LoadRevoked([]byte(alice.Fingerprint() + "\n")))(t)
	none := must.Get(authz.LoadRevoked(nil))(t)
	unreadable, missing := authz.UnreadableRevoked(nil), authz.MissingRevoked(nil)
	require.True(t, one.Revokes())
	require.True(t, unreadable.Revokes())
	require.False(t, missing.Revokes())
	require.False(t, none.Revokes())
	require.False(t, (*authz.Revoked)(nil).Revokes())
	refusedAs(t, loaded(t, alice.Line("alice", asOperator)).WithRevoked(missing).Blocked(), refusal.Unavailable, refusal.StageAllowList)

	require.False(t, none.Covers(one))
	require.False(t, (*authz.Revoked)(nil).Covers(one))
	for _, covers := range []*authz.Revoked{one, unreadable, missing} {
		require.True(t, covers.Covers(one))
		require.True(t, covers.Covers(nil))
	}
}

func TestRevokedForLogs(t *testing.T) {
	t.Parallel()
	alice := mint.Ed25519(t, "alice")
	text := alice.Text() + "\n" + alice.Fingerprint() + "\n" + mint.Ed25519(t, "bob").Fingerprint() + "\n"
	r := revoking(t, text)
	require.Equal(t, 2, r.Count())
	require.Equal(t, op.SHA256([]byte(text)), r.Digest())
	for _, none := range []*authz.Revoked{nil, authz.UnreadableRevoked(nil)} {
		require.Zero(t, none.Count())
		require.Empty(t, none.Digest())
	}
}
