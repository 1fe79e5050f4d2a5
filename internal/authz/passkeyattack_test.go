package authz_test

import (
	"crypto/elliptic"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// fields reads the strings of SSH's encoding that b has.
func fields(t testing.TB, b []byte) (out []string) {
	t.Helper()
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), 4)
		n := 4 + int(binary.BigEndian.Uint32(b))
		require.GreaterOrEqual(t, len(b), n)
		out, b = append(out, string(b[4:n])), b[n:]
	}
	return out
}

// TestOtherReadersOfClientData: a member that a reader without regard to letters takes for another one. Many do that, so
// what is accepted has none.
func TestOtherReadersOfClientData(t *testing.T) {
	t.Parallel()
	trust := loaded(t, mint.Passkey(t, "alice", mint.Console).Line("alice", asOperator))
	for members, code := range map[string]refusal.Code{
		`,"Origin":"https://evil.example"`: refusal.Malformed, `,"CHALLENGE":"AAAA"`: refusal.Malformed, `,"Type":"webauthn.create"`: refusal.Malformed,
		`,"CrossOrigin":true`: refusal.Malformed, `,"toporigin":"https://evil.example"`: refusal.OriginMismatch, `,"TOPORIGIN":null`: refusal.OriginMismatch,
	} {
		key := mint.Passkey(t, "alice", client(`}`, members+`}`))
		_, err := approvesOn(t, consoles, trust, mint.Sign(t, key, nsOperational, payloadOf(t)))
		require.Error(t, err, members)
		refusedAs(t, err, code, refusal.StageCrypto)
	}
	for _, b := range []mint.Browser{client(`"crossOrigin":false`, `"CrossOrigin":true`), client(`"crossOrigin":false`, `"crossorigin":true`)} {
		key := mint.Passkey(t, "alice", b)
		_, err := approvesOn(t, consoles, trust, mint.Sign(t, key, nsOperational, payloadOf(t)))
		require.Error(t, err)
		refusedAs(t, err, refusal.OriginMismatch, refusal.StageCrypto)
	}
	for _, b := range []mint.Browser{client(`}`, `,"androidPackageName":"com.android.chrome","tokenBinding":{"status":"supported"}}`), client(`,"crossOrigin":false`, ``)} {
		key := mint.Passkey(t, "alice", b)
		must.Get(approvesOn(t, consoles, trust, mint.Sign(t, key, nsOperational, payloadOf(t))))(t)
	}
}

// TestOtherCeremonies: only an assertion for WebAuthn counts, and not what a page has signed to pay or to make a key.
func TestOtherCeremonies(t *testing.T) {
	t.Parallel()
	trust := loaded(t, mint.Passkey(t, "alice", mint.Console).Line("alice", asOperator))
	for _, typ := range []string{"webauthn.create", "payment.get", "webauthn.get ", "WEBAUTHN.GET", ""} {
		key := mint.Passkey(t, "alice", client("webauthn.get", typ))
		_, err := approvesOn(t, consoles, trust, mint.Sign(t, key, nsOperational, payloadOf(t)))
		refusedAs(t, err, refusal.BadSignature, refusal.StageCrypto)
	}
}

// TestAPasskeysSignatureMoves takes a signature that counts, changes one part of what is beside the challenge, and hands it in again.
func TestAPasskeysSignatureMoves(t *testing.T) {
	t.Parallel()
	page := on(func(b *mint.Browser) { b.Flags |= mint.Extends; b.Extensions = []byte{0xa1, 0x61, 'x', 0x01} })
	key := mint.Passkey(t, "alice", page)
	trust := loaded(t, key.Line("alice", `namespaces="operational@gated,recovery@gated,operational@batch.gated"`))
	made := mint.Sign(t, key, nsOperational, payloadOf(t))
	must.Get(approvesOn(t, consoles, trust, made))(t)

	rest := func(flags byte, origin, client string, extensions []byte) []byte {
		return slices.Concat([]byte{flags}, mint.Uint32(page.Counter), mint.Strings([]byte(origin), []byte(client), extensions))
	}
	written := fields(t, made.Rest[5:])[1]
	for name, c := range map[string]struct {
		change func(s *mint.Signature)
		code   refusal.Code
	}{
		"another role":      {func(s *mint.Signature) { s.Namespace = "recovery@gated" }, refusal.BadSignature},
		"another hash":      {func(s *mint.Signature) { s.Hash = mint.SHA256 }, refusal.BadSignature},
		"no extension data": {func(s *mint.Signature) { s.Rest = rest(page.Flags&^mint.Extends, page.Origin, written, nil) }, refusal.BadSignature},
		"an empty map":      {func(s *mint.Signature) { s.Rest = rest(page.Flags, page.Origin, written, []byte{0xa0}) }, refusal.BadSignature},
		"not copied": {func(s *mint.Signature) {
			s.Rest = rest(page.Flags|mint.BackupEligible, page.Origin, written, page.Extensions)
		}, refusal.BadSignature},
		"another page": {func(s *mint.Signature) {
			s.Rest = rest(page.Flags, "https://a.console.example.com", written, page.Extensions)
		}, refusal.BadSignature},
		"client data anew":   {func(s *mint.Signature) { s.Rest = rest(page.Flags, page.Origin, written+" ", page.Extensions) }, refusal.BadSignature},
		"the plain form":     {func(s *mint.Signature) { s.Format, s.Rest = "sk-ecdsa-sha2-nistp256@openssh.com", s.Rest[:5] }, refusal.Malformed},
		"the format of sk":   {func(s *mint.Signature) { s.Format = "sk-ecdsa-sha2-nistp256@openssh.com" }, refusal.Malformed},
		"no security key":    {func(s *mint.Signature) { s.Format = "ecdsa-sha2-nistp256" }, refusal.Malformed},
		"bytes after it":     {func(s *mint.Signature) { s.Rest = append(slices.Clone(s.Rest), 0) }, refusal.Malformed},
		"nothing beside it":  {func(s *mint.Signature) { s.Rest = nil }, refusal.Malformed},
		"a length that lies": {func(s *mint.Signature) { s.Rest = slices.Concat(s.Rest[:5], mint.Uint32(1<<31), s.Rest[9:]) }, refusal.Malformed},
	} {
		s := made
		c.change(&s)
		_, err := approvesOn(t, consoles, trust, s)
		require.Error(t, err, name)
		require.Equal(t, c.code, refusal.CodeOf(err), "%s: %v", name, err)
	}
}

// TestOnePointUnderOtherNames: the same point is listed as a plain key, for ssh:, for another site, and as the passkey. What
// one of them signed counts for no other one.
func TestOnePointUnderOtherNames(t *testing.T) {
	t.Parallel()
	key := mint.Passkey(t, "alice", mint.Console)
	point := []byte(fields(t, key.Blob())[2])
	sk := func(application string) []byte {
		return mint.Strings([]byte("sk-ecdsa-sha2-nistp256@openssh.com"), []byte("nistp256"), point, []byte(application))
	}
	blobs := map[string][]byte{
		"plain": mint.Strings([]byte("ecdsa-sha2-nistp256"), []byte("nistp256"), point),
		"ssh":   sk("ssh:"), "ssh of the site": sk("ssh:" + mint.Console.Party),
		"site": sk("example.com"), "below": sk("a.console.example.com"), "local": sk("localhost"),
	}
	lines := []string{key.Line("alice", asOperator)}
	for name, blob := range blobs {
		lines = append(lines, strings.ReplaceAll(name, " ", "-")+" "+asOperator+" "+mint.Text(fields(t, blob)[0], blob)+"\n")
	}
	trust := loaded(t, lines...)
	made := mint.Sign(t, key, nsOperational, payloadOf(t))
	require.Equal(t, "alice", must.Get(approvesOn(t, consoles, trust, made))(t).Principal)
	for name, blob := range blobs {
		for _, format := range []string{made.Format, "sk-ecdsa-sha2-nistp256@openssh.com", "ecdsa-sha2-nistp256"} {
			for _, rest := range [][]byte{made.Rest, made.Rest[:5], nil} {
				s := made
				s.Key, s.Format, s.Rest = blob, format, rest
				_, err := approvesOn(t, consoles, trust, s)
				require.Error(t, err, "%s, %s, %d bytes", name, format, len(rest))
				require.Contains(t, []refusal.Code{refusal.Malformed, refusal.BadSignature}, refusal.CodeOf(err), "%s, %s", name, format)
			}
		}
	}
}

// TestTheOtherHalfOfACurve: who has a signature can make another one of it, of the negative s. It is by the same key, so it
// counts for the same person, and there is no third one.
func TestTheOtherHalfOfACurve(t *testing.T) {
	t.Parallel()
	key := mint.Passkey(t, "alice", mint.Console)
	trust, made := loaded(t, key.Line("alice", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t))
	pair := fields(t, made.Value)
	r, s := new(big.Int).SetBytes([]byte(pair[0])), new(big.Int).SetBytes([]byte(pair[1]))
	n := elliptic.P256().Params().N
	for name, c := range map[string]struct {
		r, s *big.Int
		ok   bool
	}{
		"as it was": {r, s, true}, "negative": {r, new(big.Int).Sub(n, s), true},
		"above the order": {r, new(big.Int).Add(n, s), false}, "r above the order": {new(big.Int).Add(n, r), s, false},
		"exchanged": {s, r, false}, "the order": {r, n, false}, "r is the order": {n, s, false}, "one": {big.NewInt(1), big.NewInt(1), false},
	} {
		changed := made
		changed.Value = slices.Concat(mint.Mpint(c.r), mint.Mpint(c.s))
		got, err := approvesOn(t, consoles, trust, changed)
		if !c.ok {
			require.Error(t, err, name)
			refusedAs(t, err, refusal.BadSignature, refusal.StageCrypto)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, key.Fingerprint(), got.Key)
	}
}

// TestSignInHasItsOwnMessages: no signature of another namespace signs in, whatever the message is, and one for signing in
// counts in no role and for no batch. A line that names no role's namespace, but this one, lists nobody who signs in.
func TestSignInHasItsOwnMessages(t *testing.T) {
	t.Parallel()
	key := mint.Passkey(t, "alice", mint.Console)
	trust := loaded(t, key.Line("alice", asOperator))
	for _, namespaces := range []string{authz.SignInNamespace, "git", "*"} {
		foreign, err := authz.LoadTrust([]byte(key.Line("alice", `namespaces="`+namespaces+`"`)))
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed, namespaces)
			continue
		}
		_, err = foreign.SignIn([]byte("c"), mint.Sign(t, key, authz.SignInNamespace, []byte("c")).Armored(), consoles, nil, noon)
		require.Error(t, err, namespaces)
		refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
		_, err = approvesOn(t, consoles, foreign, mint.Sign(t, key, authz.SignInNamespace, payloadOf(t)))
		refusedAs(t, err, refusal.NamespaceMismatch, refusal.StageNamespace)
	}
	require.NotContains(t, namespacesOfRoles(), authz.SignInNamespace)
	for _, namespace := range append(namespacesOfRoles(), "", "sign-in.console@gated", "SIGN-IN.CONSOLE", "sign-in.console ", "sign-in.consol", "git", "file") {
		moved := mint.Sign(t, key, namespace, payloadOf(t))
		_, err := trust.SignIn(payloadOf(t), moved.Armored(), consoles, nil, noon)
		refusedAs(t, err, refusal.NamespaceMismatch, refusal.StageNamespace)
		moved.Namespace = authz.SignInNamespace
		_, err = trust.SignIn(payloadOf(t), moved.Armored(), consoles, nil, noon)
		refusedAs(t, err, refusal.BadSignature, refusal.StageCrypto)
		moved = mint.Sign(t, key, authz.SignInNamespace, payloadOf(t))
		moved.Namespace = namespace
		_, err = approvesOn(t, consoles, trust, moved)
		require.Error(t, err, namespace)
	}
	for _, c := range badBrowsers {
		bad := mint.Passkey(t, "alice", c.browser)
		_, err := trust.SignIn([]byte("a challenge"), mint.Sign(t, bad, authz.SignInNamespace, []byte("a challenge")).Armored(), consoles, nil, noon)
		require.Error(t, err, c.name)
		refusedAs(t, err, c.code, c.stage)
	}
	plain := mint.SKECDSA(t, "plain", mint.Authenticator{Application: "ssh:", Flags: mint.UserPresent | mint.UserVerified})
	list := loaded(t, plain.Line("bob", asOperator))
	_, err := list.SignIn([]byte("c"), mint.Sign(t, plain, authz.SignInNamespace, []byte("c")).Armored(), consoles, []string{strings.TrimSpace(plain.Line("bob", asOperator))}, noon)
	refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
	over := loaded(t, key.Line("alice", asOperator+`,valid-before="20200101Z"`))
	_, err = over.SignIn([]byte("c"), mint.Sign(t, key, authz.SignInNamespace, []byte("c")).Armored(), consoles, nil, noon)
	require.Error(t, err)
	refusedAs(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

func namespacesOfRoles() []string {
	var out []string
	for _, r := range op.Roles {
		out = append(out, r.Namespace(), r.BatchNamespace())
	}
	return out
}
