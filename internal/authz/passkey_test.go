package authz_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// consoles are the origins of the tests. Synced keys count.
var consoles = op.Passkeys{Origins: []string{mint.Console.Origin}, Synced: true}

// approvesOn verifies one passkey's signature over the example, for those pages.
func approvesOn(t testing.TB, p op.Passkeys, trust *authz.Trust, s mint.Signature) (authz.Signer, error) {
	t.Helper()
	v := verifier(trust)
	v.Passkeys = p
	got, err := v.Approval(authz.Envelope{Payload: payloadOf(t), Signatures: []string{s.Armored()}}, noon)
	if err != nil {
		return authz.Signer{}, err
	}
	require.Len(t, got.Signers, 1)
	return got.Signers[0], nil
}

// on is the console with a change.
func on(change func(*mint.Browser)) mint.Browser {
	b := mint.Console
	change(&b)
	return b
}

// goodBrowsers are what OpenSSH and a gate accept.
var goodBrowsers = map[string]mint.Browser{
	"touched":                 on(func(b *mint.Browser) { b.Flags = mint.UserPresent }),
	"verified":                mint.Console,
	"may be copied":           on(func(b *mint.Browser) { b.Flags |= mint.BackupEligible }),
	"copied":                  on(func(b *mint.Browser) { b.Flags |= mint.BackupEligible | mint.BackedUp; b.Counter = 0 }),
	"with extension data":     on(func(b *mint.Browser) { b.Flags |= mint.Extends; b.Extensions = []byte{0xa1, 0x63, 'u', 'v', 'm', 0x80} }),
	"with no extension in it": on(func(b *mint.Browser) { b.Flags |= mint.Extends; b.Extensions = []byte{0xa0} }),
	"nothing after the origin": on(func(b *mint.Browser) {
		b.ClientData = func(c, o string) string {
			return `{"type":"webauthn.get","challenge":"` + c + `","origin":"` + o + `"}`
		}
	}),
	"unknown members": on(func(b *mint.Browser) {
		b.ClientData = func(c, o string) string {
			return strings.TrimSuffix(mint.ClientData(c, o), "}") + `,"other_keys_can_be_added_here":"do not compare","more":{"a":[1]}}`
		}
	}),
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	for name, b := range goodBrowsers {
		key := mint.Passkey(t, "alice", b)
		got, err := approvesOn(t, consoles, loaded(t, key.Line("alice", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t)))
		require.NoError(t, err, name)
		require.Equal(t, &op.Attested{Flags: b.Flags, Counter: b.Counter, Origin: b.Origin}, got.Attested, name)
		require.NoError(t, opensshAccepts(t, key, nsOperational, payloadOf(t)), name)
	}
}

// client is a browser that writes the usual client data with one text in the place of another.
func client(old, new string) mint.Browser {
	return on(func(b *mint.Browser) {
		b.ClientData = func(c, o string) string { return strings.Replace(mint.ClientData(c, o), old, new, 1) }
	})
}

func from(origin string) mint.Browser { return on(func(b *mint.Browser) { b.Origin = origin }) }

func flags(f byte) mint.Browser { return on(func(b *mint.Browser) { b.Flags = f }) }

func extended(flags byte, data []byte) mint.Browser {
	return on(func(b *mint.Browser) { b.Flags |= flags; b.Extensions = data })
}

// badBrowsers each differ in one thing from what is accepted. All are rightly signed by the listed key.
var badBrowsers = []struct {
	name    string
	browser mint.Browser
	code    refusal.Code
	stage   refusal.Stage
	openssh bool // accepts it
}{
	{"made, not used", client("webauthn.get", "webauthn.create"), refusal.BadSignature, refusal.StageCrypto, false},
	{"another challenge", client(`"challenge":"`, `"challenge":"A`), refusal.BadSignature, refusal.StageCrypto, false},
	{"challenge with padding", client(`","origin"`, `=","origin"`), refusal.BadSignature, refusal.StageCrypto, false},
	{"members in another order", on(func(b *mint.Browser) {
		b.ClientData = func(c, o string) string {
			return `{"challenge":"` + c + `","origin":"` + o + `","type":"webauthn.get"}`
		}
	}), refusal.BadSignature, refusal.StageCrypto, false},
	{"a blank after a colon", client(`"type":`, `"type": `), refusal.BadSignature, refusal.StageCrypto, false},
	{"a blank after the origin", client(`","crossOrigin"`, `" ,"crossOrigin"`), refusal.BadSignature, refusal.StageCrypto, true},
	{"nothing after the origin", client(`,"crossOrigin":false}`, ``), refusal.BadSignature, refusal.StageCrypto, true},
	{"a blank before the object", client(`{"type`, ` {"type`), refusal.BadSignature, refusal.StageCrypto, false},
	{"a byte-order mark", client(`{"type`, "\ufeff"+`{"type`), refusal.BadSignature, refusal.StageCrypto, false},
	{"another origin inside", client("https://console", "https://other"), refusal.BadSignature, refusal.StageCrypto, false},
	{"another type at the end", client(`false}`, `false,"type":"webauthn.create"}`), refusal.Malformed, refusal.StageCrypto, true},
	{"another challenge at the end", client(`false}`, `false,"challenge":"AAAA"}`), refusal.Malformed, refusal.StageCrypto, true},
	{"another origin at the end", client(`false}`, `false,"origin":"https://evil.example"}`), refusal.Malformed, refusal.StageCrypto, true},
	{"a member doubled deep inside", client(`false}`, `false,"x":{"a":1,"a":2}}`), refusal.Malformed, refusal.StageCrypto, true},
	{"two objects", client(`false}`, `false}{}`), refusal.Malformed, refusal.StageCrypto, true},
	{"not closed", client(`false}`, `false`), refusal.Malformed, refusal.StageCrypto, true},
	{"no UTF-8", client(`false}`, "false,\"x\":\"\xff\"}"), refusal.Malformed, refusal.StageCrypto, true},
	{"a comma at the end", client(`false}`, `false,}`), refusal.Malformed, refusal.StageCrypto, true},
	{"too long", client(`false}`, `false,"x":"`+strings.Repeat("x", 4096)+`"}`), refusal.Malformed, refusal.StageDecode, true},
	{"in a frame of another site", client(`"crossOrigin":false`, `"crossOrigin":true`), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"crossOrigin is null", client(`"crossOrigin":false`, `"crossOrigin":null`), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"crossOrigin is a text", client(`"crossOrigin":false`, `"crossOrigin":"false"`), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a top origin", client(`false}`, `false,"topOrigin":"https://console.example.com"}`), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"another port", from("https://console.example.com:8443"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"the default port", from("https://console.example.com:443"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"http", from("http://console.example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a page below", from("https://a.console.example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"the parent domain", from("https://example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"another site", from("https://evil.example"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a name that ends so", from("https://evilconsole.example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"upper case", from("https://Console.example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a dot at the end", from("https://console.example.com."), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a slash at the end", from("https://console.example.com/"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"a user", from("https://alice@console.example.com"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"no page", from("null"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"an app", from("android:apk-key-hash:2FM4"), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"no touch", flags(mint.UserVerified), refusal.TouchRequired, refusal.StageCrypto, true},
	{"no flags", flags(0), refusal.TouchRequired, refusal.StageCrypto, true},
	{"copied, and may not be", flags(mint.UserPresent | mint.BackedUp), refusal.Malformed, refusal.StageDecode, true},
	{"attests a key", flags(mint.UserPresent | mint.Attests), refusal.Malformed, refusal.StageDecode, false},
	{"a reserved flag", flags(mint.UserPresent | 0x02), refusal.Malformed, refusal.StageDecode, true},
	{"the other reserved flag", flags(mint.UserPresent | 0x20), refusal.Malformed, refusal.StageDecode, true},
	{"extensions without data", flags(mint.UserPresent | mint.Extends), refusal.Malformed, refusal.StageDecode, false},
	{"data without extensions", extended(0, []byte{0xa0}), refusal.Malformed, refusal.StageDecode, false},
	{"extension data is no map", extended(mint.Extends, []byte{0x80}), refusal.Malformed, refusal.StageDecode, true},
	{"extension data goes on after its map", extended(mint.Extends, []byte{0xa0, 0x00}), refusal.Malformed, refusal.StageDecode, true},
	{"extension data is cut short", extended(mint.Extends, []byte{0xa1, 0x63, 'u', 'v', 'm'}), refusal.Malformed, refusal.StageDecode, true},
	{"extension data says no length", extended(mint.Extends, []byte{0xbf, 0xff}), refusal.Malformed, refusal.StageDecode, true},
	{"extension data says a length that it has not", extended(mint.Extends, []byte{0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), refusal.Malformed, refusal.StageDecode, true},
	{"extension data nests too deep", extended(mint.Extends, append(bytes.Repeat([]byte{0xa1, 0x00}, 4), 0xa0)), refusal.Malformed, refusal.StageDecode, true},
	{"crossOrigin with an escape", client(`"crossOrigin":false`, `"cross\u004frigin":true`), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"an origin that brings members", from(`https://console.example.com","crossOrigin":false,"x":"y`), refusal.Malformed, refusal.StageCrypto, false},
	{"an origin that ends in a zero byte", from("https://console.example.com\x00"), refusal.Malformed, refusal.StageCrypto, false},
	{"no origin", from(""), refusal.OriginMismatch, refusal.StageCrypto, true},
	{"too much extension data", extended(mint.Extends, append([]byte{0xa0}, make([]byte, 1024)...)), refusal.Malformed, refusal.StageDecode, true},
}

func TestPasskeyRefusals(t *testing.T) {
	t.Parallel()
	trust := loaded(t, mint.Passkey(t, "alice", mint.Console).Line("alice", asOperator))
	for _, c := range badBrowsers {
		t.Run(c.name, func(t *testing.T) {
			key := mint.Passkey(t, "alice", c.browser)
			_, err := approvesOn(t, consoles, trust, mint.Sign(t, key, nsOperational, payloadOf(t)))
			refusedAs(t, err, c.code, c.stage)
			if c.openssh {
				require.NoError(t, opensshAccepts(t, key, nsOperational, payloadOf(t)), "then gated is not stricter here")
			} else {
				require.Error(t, opensshAccepts(t, key, nsOperational, payloadOf(t)))
			}
		})
	}
}

// opensshAccepts asks ssh-keygen about a signature by the key.
func opensshAccepts(t *testing.T, key mint.Key, namespace string, payload []byte) error {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "allowed_signers"), []byte(key.Line("alice", `namespaces="`+namespace+`"`)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sig"), []byte(mint.Sign(t, key, namespace, payload).Armored()), 0o600))
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", "allowed_signers", "-I", "alice", "-n", namespace, "-s", "sig")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestPasskeyPages(t *testing.T) {
	t.Parallel()
	local := on(func(b *mint.Browser) { b.Party, b.Origin = "localhost", "http://localhost:7480" })
	parent := on(func(b *mint.Browser) { b.Party = "example.com" })
	synced := flags(mint.UserPresent | mint.BackupEligible)
	for _, c := range []struct {
		name    string
		browser mint.Browser
		pages   op.Passkeys
		code    refusal.Code // empty: accepted
	}{
		{"no page is configured", mint.Console, op.Passkeys{}, refusal.OriginMismatch},
		{"one of two", mint.Console, op.Passkeys{Origins: []string{"https://a.example.com", mint.Console.Origin}}, ""},
		{"another one", mint.Console, op.Passkeys{Origins: []string{"https://a.example.com"}}, refusal.OriginMismatch},
		{"a key of the parent domain", parent, consoles, ""},
		{"local", local, op.Passkeys{Origins: []string{"http://localhost:7480"}}, ""},
		{"another local port", local, op.Passkeys{Origins: []string{"http://localhost:7481"}}, refusal.OriginMismatch},
		{"synced", synced, consoles, ""},
		{"synced, refused", synced, op.Passkeys{Origins: consoles.Origins}, refusal.WeakKey},
	} {
		key := mint.Passkey(t, "alice", c.browser)
		_, err := approvesOn(t, c.pages, loaded(t, key.Line("alice", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t)))
		if c.code == "" {
			require.NoError(t, err, c.name)
		} else {
			refusedAs(t, err, c.code, refusal.StageCrypto)
		}
	}
}

// TestALineSaysItsForm: OpenSSH accepts both forms for one key, and a gate one.
func TestALineSaysItsForm(t *testing.T) {
	t.Parallel()
	plain := mint.SKECDSA(t, "alice", mint.Authenticator{Application: mint.Console.Party, Flags: mint.UserPresent})
	_, err := approvesOn(t, consoles, loaded(t, plain.Line("alice", asOperator)), mint.Sign(t, plain, nsOperational, payloadOf(t)))
	refusedAs(t, err, refusal.Malformed, refusal.StageDecode)
	require.NoError(t, opensshAccepts(t, plain, nsOperational, payloadOf(t)))

	web := mint.Passkey(t, "alice", on(func(b *mint.Browser) { b.Party = "ssh:" }))
	_, err = approvesOn(t, consoles, loaded(t, web.Line("alice", asOperator)), mint.Sign(t, web, nsOperational, payloadOf(t)))
	refusedAs(t, err, refusal.Malformed, refusal.StageDecode)

	for _, party := range []string{"", "com", "localhost.", "Console.example.com", "console..example.com", "127.0.0.1", "1.2.3", "[::1]", "console.example.com:443",
		"https://console.example.com", "-a.example.com", "a-.example.com", "a_b.example.com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com"} {
		key := mint.Passkey(t, "alice", on(func(b *mint.Browser) { b.Party = party }))
		must.Fail(authz.LoadTrust([]byte(key.Line("alice", asOperator))))(t, refusal.Malformed, party)
	}
	long := strings.Repeat("a.", 125) + "com" // 253 bytes
	must.Get(authz.LoadTrust([]byte(mint.Passkey(t, "alice", on(func(b *mint.Browser) { b.Party = long })).Line("alice", asOperator))))(t)
}

// TestAPasskeyHasALineOfItsOwn: it neither certifies keys nor is certified.
func TestAPasskeyHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	key, alice, ca := mint.Passkey(t, "alice", mint.Console), mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca")
	must.Fail(authz.LoadTrust([]byte(key.Line("*", asAuthority))))(t, refusal.Malformed)
	trust := loaded(t, ca.Line("*", asAuthority), key.Line("alice", asOperator))
	_, err := approvesOn(t, consoles, trust, mint.SignWith(t, mint.Certify(ca, key, "alice"), key, nsOperational, payloadOf(t)))
	refusedAs(t, err, refusal.Malformed, refusal.StageDecode)
	_, err = approvesOn(t, consoles, trust, mint.SignWith(t, mint.Certify(key, alice, "alice"), alice, nsOperational, payloadOf(t)))
	refusedAs(t, err, refusal.Malformed, refusal.StageDecode)
}

func TestEveryBitOfAPasskeysSignatureCounts(t *testing.T) {
	t.Parallel()
	key := mint.Passkey(t, "alice", goodBrowsers["with extension data"])
	v := verifier(loaded(t, key.Line("alice", asOperator)))
	v.Passkeys = consoles
	payload, blob := payloadOf(t), mint.Sign(t, key, nsOperational, payloadOf(t)).Blob()
	must.Get(v.Approval(authz.Envelope{Payload: payload, Signatures: []string{mint.Armor(blob, 70)}}, noon))(t)
	for i := range len(blob) * 8 {
		changed := slices.Clone(blob)
		changed[i/8] ^= 1 << (i % 8)
		must.Err(v.Approval(authz.Envelope{Payload: payload, Signatures: []string{mint.Armor(changed, 70)}}, noon))(t, "bit %d", i)
	}
	for i := range len(blob) {
		for what, changed := range map[string][]byte{
			"cut": blob[:i], "dropped": slices.Delete(slices.Clone(blob), i, i+1), "doubled": slices.Insert(slices.Clone(blob), i, blob[i]),
		} {
			if len(changed) > 0 {
				must.Err(v.Approval(authz.Envelope{Payload: payload, Signatures: []string{mint.Armor(changed, 70)}}, noon))(t, "byte %d %s", i, what)
			}
		}
	}
}

// TestAChallengeIsTheWholeBlob: a page that has the bare payload signed, or its hash, has nothing that counts.
func TestAChallengeIsTheWholeBlob(t *testing.T) {
	t.Parallel()
	hash := sha512.Sum512(payloadOf(t))
	for _, challenge := range [][]byte{payloadOf(t), hash[:], nil} {
		key := mint.Passkey(t, "alice", on(func(b *mint.Browser) {
			b.ClientData = func(_, o string) string { return mint.ClientData(base64.RawURLEncoding.EncodeToString(challenge), o) }
		}))
		_, err := approvesOn(t, consoles, loaded(t, key.Line("alice", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t)))
		refusedAs(t, err, refusal.BadSignature, refusal.StageCrypto)
	}
}

// TestAStoredPasskeyHasItsPage: a row whose attestation is gone does not count as a signature of an ordinary key.
func TestAStoredPasskeyHasItsPage(t *testing.T) {
	t.Parallel()
	key := mint.Passkey(t, "alice", mint.Console)
	trust := loaded(t, key.Line("alice", asOperator))
	stored := op.Signed{Principal: "alice", Role: op.Operational, Key: key.Fingerprint(), Attested: &op.Attested{Flags: 5, Counter: 3, Origin: mint.Console.Origin}}
	require.NoError(t, trust.Still(stored, noon))
	for _, a := range []*op.Attested{nil, {Flags: 5, Counter: 3}} {
		stored.Attested = a
		require.ErrorIs(t, trust.Still(stored, noon), refusal.UnknownSigner)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	key, other, soft := mint.Passkey(t, "alice", mint.Console), mint.Passkey(t, "bob", mint.Console), mint.Ed25519(t, "carol")
	trust := loaded(t, key.Line("alice", asOperator), soft.Line("carol", asOperator))
	message := []byte("a challenge")
	sign := func(k mint.Key, namespace string) string { return mint.Sign(t, k, namespace, message).Armored() }

	require.Equal(t, authz.SignedIn{Principal: "alice", Key: key.Fingerprint(), Listed: true},
		must.Get(trust.SignIn(message, sign(key, authz.SignInNamespace), consoles, nil, noon))(t))
	require.Equal(t, authz.SignedIn{Principal: "bob", Key: other.Fingerprint()},
		must.Get(trust.SignIn(message, sign(other, authz.SignInNamespace), consoles, []string{"no line", strings.TrimSpace(other.Line("bob", asOperator))}, noon))(t))

	revoked := trust.WithRevoked(must.Get(authz.LoadRevoked([]byte(key.Fingerprint() + "\n")))(t))
	for _, c := range []struct {
		name  string
		trust *authz.Trust
		armor string
		pages op.Passkeys
		code  refusal.Code
		stage refusal.Stage
	}{
		{"not listed", trust, sign(other, authz.SignInNamespace), consoles, refusal.UnknownSigner, refusal.StageAllowList},
		{"no passkey", trust, sign(soft, authz.SignInNamespace), consoles, refusal.UnknownSigner, refusal.StageAllowList},
		{"an approval", trust, sign(key, nsOperational), consoles, refusal.NamespaceMismatch, refusal.StageNamespace},
		{"revoked", revoked, sign(key, authz.SignInNamespace), consoles, refusal.SignerRevoked, refusal.StageAllowList},
		{"on another page", trust, sign(key, authz.SignInNamespace), op.Passkeys{Origins: []string{"https://a.example.com"}}, refusal.OriginMismatch, refusal.StageCrypto},
		{"another challenge", trust, mint.Sign(t, key, authz.SignInNamespace, []byte("another")).Armored(), consoles, refusal.BadSignature, refusal.StageCrypto},
		{"no list", nil, sign(key, authz.SignInNamespace), consoles, refusal.UnknownSigner, refusal.StageAllowList},
	} {
		_, err := c.trust.SignIn(message, c.armor, c.pages, nil, noon)
		require.NotNil(t, err, c.name)
		refusedAs(t, err, c.code, c.stage)
	}

	// A signature for signing in approves nothing, also over a payload.
	_, err := approvesOn(t, consoles, trust, mint.Sign(t, key, authz.SignInNamespace, payloadOf(t)))
	refusedAs(t, err, refusal.NamespaceMismatch, refusal.StageNamespace)
}
