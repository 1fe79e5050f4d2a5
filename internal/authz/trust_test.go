package authz

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func publicText(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(testKey(t, name).PublicKey())))
}

func TestLoadTrust(t *testing.T) {
	t.Parallel()
	alice, bob := publicText(t, "alice"), publicText(t, "bob")
	data := "# operators\n" +
		"\n" +
		"alice@example.com namespaces=\"operational@gated\" " + alice + " alice's laptop\n" +
		"  \t# indented comment\n" +
		"\t\"bob smith\" \t valid-after=\"20300101Z\",namespaces=\"git,recovery@gated,operational@gated,git\",valid-before=\"203101020304Z\"\t" + bob + "\n" +
		"\"#carol\" namespaces=\"git\" " + publicText(t, "carol") + " \"quoted comment, with=options\"\n" +
		"\"*@example.com,!root *\" valid-before=\"20320101Z\",cert-authority,namespaces=\"operational@gated\" " + publicText(t, "carol") + "\n" +
		"erin namespaces=\"coordination@gated\",valid-before=\"20310102030405Z\" " + publicText(t, "ecdsa-p256")
	trust := must.Get(LoadTrust([]byte(data)))(t)
	require.Equal(t, op.SHA256([]byte(data)), trust.Digest())
	fingerprint := func(name string) string { return ssh.FingerprintSHA256(testKey(t, name).PublicKey()) }
	require.Equal(t, []Listed{
		{Line: 3, Principal: "alice@example.com", Key: fingerprint("alice"), Roles: []op.Role{op.Operational},
			KeyType: "ssh-ed25519", Software: true},
		{Line: 5, Principal: "bob smith", Key: fingerprint("bob"), Roles: []op.Role{op.Operational, op.Recovery},
			KeyType: "ssh-ed25519", Software: true,
			ValidAfter: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), ValidBefore: time.Date(2031, 1, 2, 3, 4, 0, 0, time.UTC)},
		{Line: 6, Principal: "#carol", Key: fingerprint("carol"), KeyType: "ssh-ed25519", Software: true},
		{Line: 7, Principal: "*@example.com,!root *", CA: true, Key: fingerprint("carol"), Roles: []op.Role{op.Operational},
			KeyType: "ssh-ed25519", Software: true, ValidBefore: time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Line: 8, Principal: "erin", Key: fingerprint("ecdsa-p256"), Roles: []op.Role{op.Coordination},
			KeyType: "ecdsa-sha2-nistp256", Software: true, ValidBefore: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)},
	}, trust.Signers())

	trust.Signers()[0].Roles[0] = op.Recovery
	require.Equal(t, op.Operational, trust.Signers()[0].Roles[0], "what is handed out is a copy")
}

func TestTrustMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "\n", "# nobody\n"} {
		require.Empty(t, must.Get(LoadTrust([]byte(data)))(t).Signers())
	}
	var none *Trust
	require.Empty(t, none.Signers())
	require.Empty(t, none.Digest())
	require.ErrorIs(t, none.Still(op.Signed{Principal: "alice", Key: "SHA256:x", Role: op.Operational}, issued), refusal.UnknownSigner)
}

// lineRefusals are lines for which the whole file is refused (S15, S20). KEY stands
// for a good key. The interop test shows that a good line beside them is accepted.
var lineRefusals = []struct{ name, line, says string }{
	{"S15 principal alone", `alice`, "nothing after the principal"},
	{"S15 principal and blanks", `alice  `, "nothing after the principal"},
	{"S15 no namespaces", `alice KEY`, "namespaces is missing"},
	{"S15 no namespaces, other option", `alice valid-after="20300101Z" KEY`, "namespaces is missing"},
	{"S15 unknown option", `alice namespaces="operational@gated",verify-required KEY`, "unknown option"},
	{"S15 unknown option alone", `alice principals="x" KEY`, "unknown option"},
	{"S15 option in capitals", `alice Namespaces="operational@gated" KEY`, "unknown option"},
	{"S15 option with a long s", `alice nameſpaces="operational@gated" KEY`, "unknown option"},
	{"S15 repeated namespaces", `alice namespaces="operational@gated",namespaces="git" KEY`, "there twice"},
	{"S15 repeated valid-after", `alice namespaces="git",valid-after="20300101Z",valid-after="20300101Z" KEY`, "there twice"},
	{"S15 repeated valid-before", `alice valid-before="20300101Z",valid-before="20320101Z",namespaces="git" KEY`, "there twice"},
	{"S15 CRLF", "alice namespaces=\"operational@gated\" KEY\r", "carriage return"},
	{"S15 CR inside", "alice\rnamespaces=\"operational@gated\" KEY", "carriage return"},
	{"S15 NUL", "alice namespaces=\"operational@gated\" KEY\x00", "U+0000"},
	{"S15 NUL in a comment", "# no\x00thing", "U+0000"},
	{"S15 BOM", "\ufeffalice namespaces=\"operational@gated\" KEY", "U+FEFF"},
	{"S15 vertical tab", "alice\vnamespaces=\"operational@gated\" KEY", "U+000B"},
	{"S15 invalid UTF-8", "alice\xff namespaces=\"operational@gated\" KEY", "UTF-8"},
	{"S15 bidirectional comment", "# \u202eKEY", "U+202E"},
	{"S20 wildcard namespace", `alice namespaces="*" KEY`, "wildcard"},
	{"S20 wildcard in a namespace", `alice namespaces="operational@gate?" KEY`, "wildcard"},
	{"S20 wildcard in a second namespace", `alice namespaces="git,*@gated" KEY`, "wildcard"},
	{"S20 negated namespace", `alice namespaces="operational@gated,!git" KEY`, "wildcard or !"},
	{"S20 two principals", `alice,bob namespaces="operational@gated" KEY`, "one principal"},
	{"S20 two principals in quotes", `"alice,bob" namespaces="operational@gated" KEY`, "one principal"},
	{"S20 pattern", `*@example.com namespaces="operational@gated" KEY`, "one principal"},
	{"S20 pattern, ?", `alice? namespaces="operational@gated" KEY`, "one principal"},
	{"S20 negated principal", `!alice namespaces="operational@gated" KEY`, "one principal"},
	{"empty principal", `"" namespaces="operational@gated" KEY`, "principal is empty"},
	{"open quote", `"alice namespaces=operational@gated KEY`, "not closed"},
	{"quote inside", `ali"ce" namespaces="operational@gated" KEY`, "quote inside"},
	{"no space after the quote", `"alice"namespaces="operational@gated" KEY`, "no space"},
	{"nothing after the quote", `"alice"`, "nothing after"},
	{"long principal", strings.Repeat("a", 256) + ` namespaces="operational@gated" KEY`, "255 bytes"},
	{"empty namespaces", `alice namespaces="" KEY`, "empty namespace"},
	{"empty namespace", `alice namespaces="operational@gated," KEY`, "empty namespace"},
	{"blank in namespaces", `alice namespaces="operational@gated, git" KEY`, "blank"},
	{"escaped quote", `alice namespaces="operational@gated\"" KEY`, "backslash"},
	{"long namespace", `alice namespaces="` + strings.Repeat("n", 256) + `" KEY`, "255 bytes"},
	{"unquoted namespaces", `alice namespaces=operational@gated KEY`, `="`},
	{"namespaces without a value", `alice namespaces KEY`, `="`},
	{"open option quote", `alice namespaces="operational@gated KEY`, "not closed"},
	{"option after the quote", `alice namespaces="git"valid-after="20300101Z" KEY`, "no key follows"},
	{"trailing comma", `alice namespaces="git", KEY`, "unknown option"},
	{"leading comma", `alice ,namespaces="git" KEY`, "unknown option"},
	{"space between options", `alice namespaces="git" valid-after="20300101Z" KEY`, "not base64"},
	{"options without a key", `alice namespaces="operational@gated"`, "no key follows"},
	{"options and blanks", `alice namespaces="operational@gated" `, "no key follows"},
	{"type alone", `alice namespaces="operational@gated" ssh-ed25519`, "missing or cut short"},
	{"key before options", `alice KEY namespaces="operational@gated"`, "namespaces is missing"},
	{"time without Z", `alice namespaces="git",valid-after="20300101" KEY`, "not a time"},
	{"time with z", `alice namespaces="git",valid-after="20300101z" KEY`, "not a time"},
	{"time with UTC", `alice namespaces="git",valid-after="20300101UTC" KEY`, "not a time"},
	{"time with hours alone", `alice namespaces="git",valid-after="2030010112Z" KEY`, "not a time"},
	{"31 February", `alice namespaces="git",valid-before="20300231Z" KEY`, "not a time"},
	{"second 60", `alice namespaces="git",valid-before="20300101000060Z" KEY`, "not a time"},
	{"the epoch", `alice namespaces="git",valid-after="19700101Z" KEY`, "not a time"},
	{"before the epoch", `alice namespaces="git",valid-before="19690101Z" KEY`, "not a time"},
	{"sign in a time", `alice namespaces="git",valid-before="+2030101Z" KEY`, "not a time"},
	{"empty time", `alice namespaces="git",valid-before="" KEY`, "not a time"},
	{"ends before it starts", `alice namespaces="git",valid-after="20300102Z",valid-before="20300101Z" KEY`, "not after"},
	{"ends as it starts", `alice namespaces="git",valid-after="20300101Z",valid-before="20300101Z" KEY`, "not after"},
	{"CA without namespaces", `* cert-authority KEY`, "namespaces is missing"},
	{"cert-authority twice", `* cert-authority,namespaces="git",cert-authority KEY`, "there twice"},
	{"cert-authority with a value", `* cert-authority="yes",namespaces="git" KEY`, "takes no value"},
	{"cert-authority in capitals", `* Cert-Authority,namespaces="git" KEY`, "unknown option"},
	{"cert-authority run together", `* cert-authoritynamespaces="git" KEY`, "unknown option"},
	{"CA, space between options", `* cert-authority namespaces="git" KEY`, "namespaces is missing"},
	{"CA with a wildcard namespace", `* cert-authority,namespaces="*" KEY`, "wildcard"},
	{"CA, empty principal", `"" cert-authority,namespaces="git" KEY`, "empty principal pattern"},
	{"CA, empty pattern", `alice,,bob cert-authority,namespaces="git" KEY`, "empty principal pattern"},
	{"CA, empty pattern at the end", `alice, cert-authority,namespaces="git" KEY`, "empty principal pattern"},
	{"CA, empty negated pattern", `alice,! cert-authority,namespaces="git" KEY`, "empty principal pattern"},
	{"CA, negated twice", `alice,!!bob cert-authority,namespaces="git" KEY`, "a ! inside"},
	{"CA, ! inside", `al!ce cert-authority,namespaces="git" KEY`, "a ! inside"},
	{"CA, negated patterns alone", `!alice,!b* cert-authority,namespaces="git" KEY`, "matches nobody"},
	{"CA, quote inside", `al"ice" cert-authority,namespaces="git" KEY`, "quote inside"},
	{"CA, open quote", `"*@example.com cert-authority,namespaces=git KEY`, "not closed"},
	{"CA, long pattern", strings.Repeat("a", 256) + `,b cert-authority,namespaces="git" KEY`, "255 bytes"},
	{"CA, long patterns", strings.Repeat("a,", 2048) + `b cert-authority,namespaces="git" KEY`, "4096 bytes"},
	{"pattern on a line that is no CA's", `*@example.com namespaces="operational@gated" KEY cert-authority`, "one principal"},
	{"type of another key", `alice namespaces="git" ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIOmUVyX9Bbr54jinKj6IP86dUECnXpHLulw2M0ewbJK8`, "type"},
	{"no base64", `alice namespaces="git" ssh-ed25519 AAAA!`, "base64"},
	{"cut base64", `alice namespaces="git" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOmUVyX9`, "does not decode"},
}

func TestLineRefusals(t *testing.T) { // S15, S20
	t.Parallel()
	key := publicText(t, "alice")
	good := trustLine("good", `namespaces="operational@gated"`, testKey(t, "bob").PublicKey())
	for _, c := range lineRefusals {
		t.Run(c.name, func(t *testing.T) {
			line := strings.ReplaceAll(c.line, "KEY", key)
			trust, err := LoadTrust([]byte(good + "# two\n" + line + "\n" + good))
			refused(t, err, refusal.Malformed, "")
			require.Nil(t, trust)
			detail := refusal.As(err).Detail
			require.True(t, strings.HasPrefix(detail, "line 3: "), detail)
			require.Contains(t, detail, c.says)
			require.NotContains(t, detail, strings.Fields(key)[1][30:50], "no key material")
		})
	}
}

func wireLine(typ string, blob []byte) string {
	return `alice namespaces="operational@gated" ` + typ + " " + base64.StdEncoding.EncodeToString(blob) + "\n"
}

func TestKeyRefusals(t *testing.T) {
	t.Parallel()
	ed := testKey(t, "alice").PublicKey().Marshal()
	rsaBlob := func(e, n string) []byte {
		return slices.Concat(mint.String("ssh-rsa"), mint.String(e), mint.String(n))
	}
	const e = "\x01\x00\x01"
	bits := func(n int) string { return "\x00" + strings.Repeat("\xff", n/8) }
	for _, c := range []struct {
		name, typ string
		blob      []byte
		says      string
	}{
		{"RSA 3064", "ssh-rsa", rsaBlob(e, bits(3064)), "3064 bits is too weak"},
		{"RSA 1024", "ssh-rsa", rsaBlob(e, bits(1024)), "1024 bits is too weak"},
		{"RSA 3071", "ssh-rsa", rsaBlob(e, "\x7f"+strings.Repeat("\xff", 383)), "3071 bits is too weak"},
		{"RSA negative modulus", "ssh-rsa", rsaBlob(e, "\x80"+strings.Repeat("\x01", 400)), "too weak"},
		{"RSA zero modulus", "ssh-rsa", rsaBlob(e, ""), "too weak"},
		{"RSA huge modulus", "ssh-rsa", rsaBlob(e, bits(16392)), "does not decode"},
		{"RSA exponent 1", "ssh-rsa", rsaBlob("\x01", bits(3072)), "does not decode"},
		{"RSA exponent even", "ssh-rsa", rsaBlob("\x04", bits(3072)), "does not decode"},
		{"RSA padded modulus", "ssh-rsa", rsaBlob(e, "\x00"+bits(3072)), "canonical"},
		{"RSA trailing", "ssh-rsa", append(rsaBlob(e, bits(3072)), 0), "does not decode"},
		{"DSA", "ssh-dss", mint.String("ssh-dss"), "DSA key is too weak"},
		{"ed25519 short", "ssh-ed25519", slices.Concat(mint.String("ssh-ed25519"), mint.String("short")), "does not decode"},
		{"ed25519 trailing", "ssh-ed25519", slices.Concat(ed, []byte{0}), "does not decode"},
		{"ecdsa off the curve", "ecdsa-sha2-nistp256", slices.Concat(mint.String("ecdsa-sha2-nistp256"), mint.String("nistp256"),
			mint.String("\x04"+strings.Repeat("\x01", 64))), "does not decode"},
		{"ecdsa other curve", "ecdsa-sha2-nistp256", slices.Concat(mint.String("ecdsa-sha2-nistp256"), mint.String("nistp384")), "does not decode"},
		{"ecdsa infinity", "ecdsa-sha2-nistp256", slices.Concat(mint.String("ecdsa-sha2-nistp256"), mint.String("nistp256"), mint.String("\x00")), "does not decode"},
		{"certificate", ssh.CertAlgoED25519v01, mint.String(ssh.CertAlgoED25519v01), "a certificate"},
		{"security key, cut short", "sk-ssh-ed25519@openssh.com", mint.String("sk-ssh-ed25519@openssh.com"), "does not decode"},
		{"security key, ecdsa, cut short", "sk-ecdsa-sha2-nistp256@openssh.com", mint.String("sk-ecdsa-sha2-nistp256@openssh.com"), "does not decode"},
		{"security key of a web site", ssh.KeyAlgoSKED25519, slices.Concat(mint.String(ssh.KeyAlgoSKED25519), mint.String(strings.Repeat("k", 32)), mint.String("example.com")), "starts with ssh:"},
		{"security key without an application", ssh.KeyAlgoSKED25519, slices.Concat(mint.String(ssh.KeyAlgoSKED25519), mint.String(strings.Repeat("k", 32)), mint.String("")), "starts with ssh:"},
		{"security key with a NUL", ssh.KeyAlgoSKED25519, slices.Concat(mint.String(ssh.KeyAlgoSKED25519), mint.String(strings.Repeat("k", 32)), mint.String("ssh:\x00")), "starts with ssh:"},
		{"security key, trailing", ssh.KeyAlgoSKED25519, slices.Concat(mint.String(ssh.KeyAlgoSKED25519), mint.String(strings.Repeat("k", 32)), mint.String("ssh:"), []byte{0}), "does not decode"},
		{"security key, short", ssh.KeyAlgoSKED25519, slices.Concat(mint.String(ssh.KeyAlgoSKED25519), mint.String(strings.Repeat("k", 31)), mint.String("ssh:")), "does not decode"},
		{"ML-DSA", "ssh-mldsa-44", mint.String("ssh-mldsa-44"), "not supported"},
		{"signature algorithm for a key type", "rsa-sha2-512", mint.String("rsa-sha2-512"), "not supported"},
		{"empty type", "ssh-ed25519", mint.String(""), "type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := LoadTrust([]byte("\n" + wireLine(c.typ, c.blob)))
			refused(t, err, refusal.Malformed, "")
			require.Contains(t, err.Error(), "line 2: ")
			require.Contains(t, err.Error(), c.says)
		})
	}
	trust := must.Get(LoadTrust([]byte(wireLine("ssh-rsa", rsaBlob(e, bits(3072))))))(t)
	require.Len(t, trust.Signers(), 1, "3,072 bits are enough")
}

func TestKeyHasOneBase64(t *testing.T) {
	t.Parallel()
	good := trustLine("erin", `namespaces="operational@gated"`, testKey(t, "ecdsa-p256").PublicKey())
	loadTrust(t, good)
	end := strings.Index(good, "=\n")
	require.Positive(t, end, "the last character has bits to spare")
	for _, bad := range []string{
		good[:end-1] + string(good[end-1]+1) + good[end:], // decodes to the same bytes
		good[:end] + good[end+1:],                         // no padding
		good[:end] + "==\n",
		good[:end] + "=A\n",
	} {
		_, err := LoadTrust([]byte(bad))
		refused(t, err, refusal.Malformed, "")
		require.Contains(t, err.Error(), "not base64")
	}
}

func TestTrustSize(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{MaxTrust - 1: true, MaxTrust: true, MaxTrust + 1: false} {
		_, err := LoadTrust([]byte("#" + strings.Repeat("x", n-1)))
		require.Equal(t, ok, err == nil, "%d bytes", n)
	}
}

func TestFirstAcceptingLineWins(t *testing.T) {
	t.Parallel()
	bob := testKey(t, "bob").PublicKey()
	trust := loadTrust(t,
		trustLine("old", `namespaces="operational@gated",valid-before="20310101Z"`, bob),
		trustLine("other", `namespaces="recovery@gated"`, bob),
		trustLine("first", `namespaces="operational@gated",valid-before="20320101Z"`, bob),
		trustLine("second", `namespaces="operational@gated"`, bob))
	find := func(year int) string {
		e := must.Get(trust.find(bob, use{role: op.Operational}, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)))(t)
		return e.Principal
	}
	require.Equal(t, "old", find(2030))
	require.Equal(t, "old", find(2031))
	require.Equal(t, "first", find(2032))
	require.Equal(t, "second", find(2033))
	must.Fail(trust.find(bob, use{role: op.Coordination}, issued))(t, refusal.UnknownSigner)
}

func TestStill(t *testing.T) {
	t.Parallel()
	bob := testKey(t, "bob").PublicKey()
	trust := loadTrust(t,
		trustLine("bob", `namespaces="recovery@gated"`, bob),
		trustLine("bob", `namespaces="operational@gated",valid-after="20310101Z",valid-before="20320101Z"`, bob),
		trustLine("robert", `namespaces="coordination@gated"`, bob))
	key := ssh.FingerprintSHA256(bob)
	still := func(principal, key string, role op.Role, at time.Time) error {
		return trust.Still(op.Signed{Principal: principal, Key: key, Role: role}, at)
	}
	from, to := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, still("bob", key, op.Operational, from))
	require.NoError(t, still("bob", key, op.Operational, to))
	require.NoError(t, still("bob", key, op.Recovery, from.AddDate(-9, 0, 0)))
	require.ErrorIs(t, still("bob", key, op.Operational, from.Add(-time.Second)), refusal.SignerExpired)
	require.ErrorIs(t, still("bob", key, op.Operational, to.Add(time.Second)), refusal.SignerExpired)
	require.ErrorIs(t, still("bob", key, op.Coordination, from), refusal.UnknownSigner)
	require.ErrorIs(t, still("robert", key, op.Operational, from), refusal.UnknownSigner)
	require.ErrorIs(t, still("Bob", key, op.Operational, from), refusal.UnknownSigner)
	require.ErrorIs(t, still("bob", key+"x", op.Operational, from), refusal.UnknownSigner)
	require.ErrorIs(t, still("bob", key, "", from), refusal.UnknownSigner)
}

func TestCould(t *testing.T) {
	t.Parallel()
	line := func(name, principal, options string) string {
		return trustLine(principal, options, testKey(t, name).PublicKey())
	}
	trust := loadTrust(t,
		line("bob", "bob", `namespaces="operational@gated",valid-before="20310101Z"`),
		line("alice", "alice", `namespaces="operational@gated"`),
		line("carol", "*@example.com", `cert-authority,namespaces="operational@gated"`),
		line("ecdsa-p256", "alice", `namespaces="operational@gated,manager@gated"`),
		line("alice", "alice", `namespaces="recovery@gated"`))
	require.Equal(t, []string{"alice", "*@example.com (certificate)"}, trust.Could(op.Operational, op.TouchNone, false, issued))
	require.Equal(t, []string{"bob", "alice", "*@example.com (certificate)"}, trust.Could(op.Operational, op.TouchNone, false, issued.AddDate(-1, 0, 0)))
	require.Equal(t, []string{"*@example.com (certificate)"}, trust.Could(op.Operational, op.TouchPresent, false, issued),
		"a software key attests nothing, and what a CA certifies is not known")
	require.Equal(t, []string{"alice"}, trust.Could("manager", op.TouchNone, false, issued))
	require.Equal(t, []string{"alice"}, trust.Could(op.Recovery, op.TouchNone, false, issued))
	require.Empty(t, trust.Could(op.Coordination, op.TouchNone, false, issued))
	revoked := must.Get(LoadRevoked([]byte(publicText(t, "carol") + "\n" + publicText(t, "ecdsa-p256"))))(t)
	require.Equal(t, []string{"alice"}, trust.WithRevoked(revoked).Could(op.Operational, op.TouchNone, false, issued))
	require.Empty(t, trust.WithRevoked(revoked).Could("manager", op.TouchNone, false, issued))
	var none *Trust
	require.Empty(t, none.Could(op.Operational, op.TouchNone, false, issued))
}
