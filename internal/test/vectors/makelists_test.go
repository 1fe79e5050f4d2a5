package vectors

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// lists makes the cases of allowed_signers.json.
func lists(t *testing.T) (out []Vector) {
	alice, ca, sk := mint.Ed25519(t, "alice"), mint.Ed25519(t, "ca"), mint.SKECDSA(t, "sk", mint.Touched)
	p256, rsa, phone := mint.ECDSA(t, "p256", 256), mint.RSA(t, "rsa", 3072), mint.Passkey(t, "phone", mint.Console)
	line := func(number int, principal string, k mint.Key, roles ...op.Role) listed {
		return listed{Line: number, Principal: principal, Key: k.Fingerprint(), KeyType: k.Type(), Roles: append([]op.Role{}, roles...), Batches: []op.Role{}}
	}
	good := func(n, text string, lines ...listed) {
		out = append(out, &listCase{Name: Name(n), content: contentOf(text), Outcome: Accepted(t, map[string]any{"lines": append([]listed{}, lines...)})})
	}
	authority, batches, timed := line(3, "*@example.com,!trainee-*@example.com", ca, op.Operational), line(6, "alice", alice, "manager", op.Operational), line(8, "rsa", rsa, op.Recovery)
	authority.CA, batches.Batches = true, []op.Role{op.Operational}
	timed.ValidAfter, timed.ValidBefore = time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC), time.Date(2027, 12, 31, 0, 0, 0, 0, time.UTC)
	good("every kind of line", "# people\n\n"+
		ca.Line("*@example.com,!trainee-*@example.com", "cert-authority,"+operational)+
		p256.Line(`"Bob Smith"`, operational)+
		"\t "+strings.TrimSuffix(sk.Line("sk", operational), "\n")+"\t a comment of\tblanks \n"+
		alice.Line("alice", `namespaces="git,operational@gated,manager@gated,operational@batch.gated,coordination@batch.gated"`)+
		phone.Line("phone", `namespaces="operational@gated"`)+
		strings.TrimSuffix(rsa.Line("rsa", `valid-before="20271231Z",namespaces="recovery@gated",valid-after="202601010800Z"`), "\n"),
		authority, line(4, "Bob Smith", p256, op.Operational), line(5, "sk", sk, op.Operational), batches, line(7, "phone", phone, op.Operational), timed)
	good("an empty file", "")
	good("one key in two lines", alice.Line("alice", operational)+alice.Line("alice", `namespaces="recovery@gated"`), line(1, "alice", alice, op.Operational), line(2, "alice", alice, op.Recovery))
	good("a principal of 255 bytes", alice.Line(strings.Repeat("a", 255), operational), line(1, strings.Repeat("a", 255), alice, op.Operational))
	good("seconds", alice.Line("alice", operational+`,valid-after="19700101000001Z"`), func() listed {
		l := line(1, "alice", alice, op.Operational)
		l.ValidAfter = time.Unix(1, 0).UTC()
		return l
	}())
	bad := func(n, why string, number int, text string) {
		c := &listCase{Name: Name(n), content: contentOf(text), Outcome: Refuses("", refusal.Malformed, why)}
		c.Refused.Line = number
		out = append(out, c)
	}
	first := func(n, why, text string) { bad(n, why, 1, text) }
	bad("a wrong line at the end", "a wrong line refuses the whole file", 2, alice.Line("alice", operational)+"no line\n")
	first("no namespaces", "namespaces is required", alice.Line("alice", `valid-after="20260101Z"`))
	first("no options", "namespaces is required", "alice "+alice.Text()+"\n")
	for _, o := range [][3]string{
		{"a namespace with a star", `namespaces="*@gated"`, "a namespace has no * ? !"},
		{"an empty namespace", `namespaces="operational@gated,"`, "no namespace is empty"},
		{"a namespace with a backslash", `namespaces="a\b"`, "a namespace has no backslash"},
		{"a namespace with a blank", `namespaces="operational@gated, git"`, "a namespace has no blank"},
		{"a namespace of 256 bytes", `namespaces="` + strings.Repeat("n", 256) + `"`, "a namespace has at most 255 bytes"},
		{"an option in capitals", `Namespaces="operational@gated"`, "options are in lower case"},
		{"an unknown option", operational + `,touch-required`, "it is none of the options"},
		{"an option twice", operational + "," + operational, "each option is there once"},
		{"cert-authority twice", "cert-authority,cert-authority," + operational, "each option is there once"},
		{"cert-authority with a value", `cert-authority="yes",` + operational, "cert-authority has no value"},
		{"an option without quotes", `namespaces=operational@gated`, "a value is in quotes"},
		{"a comma at the end", operational + ",", "a comma is between options"},
		{"a time without Z", operational + `,valid-after="20260101"`, "a time ends with Z"},
		{"a time with UTC", operational + `,valid-after="20260101UTC"`, "a time ends with Z"},
		{"a date that does not exist", operational + `,valid-after="20270231Z"`, "February has no 31st"},
		{"the time zero", operational + `,valid-after="19700101Z"`, "a time is after 1970-01-01"},
		{"valid-before at valid-after", operational + `,valid-after="20260101Z",valid-before="20260101Z"`, "valid-before is after valid-after"},
	} {
		first(o[0], o[2], alice.Line("alice", o[1]))
	}
	for _, o := range [][3]string{
		{"two principals", "alice,bob", "a key line has one principal"},
		{"a principal with a star", "alice*", "a key line has no pattern"},
		{"a principal with an exclamation mark", "!alice", "a key line has no pattern"},
		{"an empty principal", `""`, "a principal is not empty"},
		{"a quote inside the principal", `al"ice`, "a quote is around the principal alone"},
		{"no blank behind the quote", `"alice"bob`, "a blank follows the closing quote"},
		{"a principal of 256 bytes", strings.Repeat("a", 256), "a principal has at most 255 bytes"},
	} {
		first(o[0], o[2], alice.Line(o[1], operational))
	}
	for _, o := range [][3]string{
		{"an empty pattern", "a,,b", "no pattern is empty"},
		{"negated patterns alone", "!a,!b", "one pattern at least is not negated"},
		{"an exclamation mark inside a pattern", "a!b", "! is at the beginning alone"},
		{"patterns of 4,097 bytes", strings.TrimSuffix(strings.Repeat(strings.Repeat("a", 240)+",", 17), ",") + ",", "a list has at most 4,096 bytes"},
	} {
		first(o[0], o[2], ca.Line(o[1], "cert-authority,"+operational))
	}
	out = append(out, brokenKeys(t)...)
	text := alice.Line("alice", operational)
	for _, o := range [][2]string{{"CR", "\r"}, {"NUL", "\x00"}, {"a byte-order mark", "\ufeff"}, {"no UTF-8", "\xff"}, {"a right-to-left override", "\u202e"}, {"a line separator", "\u2028"}, {"a control character", "\x1b"}} {
		bad(o[0]+" in a comment", "no such character is in a file", 2, text+"# a comment"+o[1]+"\n"+text)
	}
	return out
}

// brokenKeys are lines whose key is none that may be listed.
func brokenKeys(t *testing.T) (out []Vector) {
	alice, phone := mint.Ed25519(t, "alice"), mint.Passkey(t, "phone", mint.Console)
	bad := func(n, why, text string) {
		c := &listCase{Name: Name(n), content: contentOf(text), Outcome: Refuses("", refusal.Malformed, why)}
		c.Refused.Line = 1
		out = append(out, c)
	}
	bad("RSA with 2048 bits", "RSA has 3,072 bits or more", mint.RSA(t, "weak", 2048).Line("weak", operational))
	bad("DSA", "DSA is weak", mint.DSA(t, "dsa").Line("dsa", operational))
	bad("a certificate", "a line has a key", "alice "+operational+" "+mint.Certify(mint.Ed25519(t, "ca"), alice, "alice").Text(t)+"\n")
	bad("a passkey as an authority", "a passkey certifies nobody", phone.Line("*", "cert-authority,"+operational))
	bad("an Ed25519 security key of a web site", "only an ECDSA key is a passkey", mint.SKEd25519(t, "site", mint.Authenticator{Application: "console.example.com"}).Line("site", operational))
	bad("a type that is not the blob's", "the type is the blob's", "alice "+operational+" ssh-rsa "+b64(alice.Blob())+"\n")
	bad("bytes behind the key", "a key is in its one canonical encoding", "alice "+operational+" "+mint.Text(alice.Type(), append(slices.Clone(alice.Blob()), 0))+"\n")
	bad("base64 without padding", "base64 has its padding", "alice "+operational+" "+strings.TrimRight(mint.Text(mint.ECDSA(t, "p256", 256).Type(), mint.ECDSA(t, "p256", 256).Blob()), "=")+"\n")
	bad("base64 with stray bits", "base64 has one spelling", "alice "+operational+" "+stray(mint.ECDSA(t, "p256", 256).Text())+"\n")
	bad("a key that is no base64", "a key is base64", "alice "+operational+" ssh-ed25519 AAAA!\n")
	bad("no key", "a line has a key", "alice "+operational+"\n")
	bad("a key of another type", "lines list no keys of this type", "alice "+operational+" "+mint.Text("ssh-odd", mint.Strings("ssh-odd", "key"))+"\n")
	return out
}

// stray sets a bit of padded base64 that no byte has.
func stray(text string) string {
	i := len(strings.TrimRight(text, "=")) - 1
	return text[:i] + string(text[i]+1) + text[i+1:]
}

// revocations makes the cases of revoked.json.
func revocations(t *testing.T) (out []Vector) {
	alice, weak, dsa := mint.Ed25519(t, "alice"), mint.RSA(t, "weak", 2048), mint.DSA(t, "dsa")
	good := func(n, text string, keys ...string) {
		slices.Sort(keys)
		out = append(out, &revokedCase{Name: Name(n), content: contentOf(text), Outcome: Accepted(t, map[string]any{"keys": append([]string{}, keys...)})})
	}
	good("keys and fingerprints", "# lost on 4 May\n\n"+alice.Text()+" bob's old laptop\n  "+mint.Ed25519(t, "bob").Fingerprint()+"\t\n", alice.Fingerprint(), mint.Ed25519(t, "bob").Fingerprint())
	good("a short RSA key", weak.Text()+"\n", weak.Fingerprint())
	good("an empty file", "")
	good("a key twice", alice.Text()+"\n"+alice.Fingerprint()+"\n", alice.Fingerprint())
	good("a certificate revokes its key", mint.Certify(mint.Ed25519(t, "ca"), alice, "alice").Text(t)+"\n", alice.Fingerprint())
	good("a DSA key", dsa.Text()+"\n", dsa.Fingerprint())
	rsa := mint.RSA(t, "rsa", 3072)
	even := mint.Strings([]byte("ssh-rsa"), []byte{1, 0, 0}, rsa.Blob()[len(rsa.Blob())-385:])
	for _, c := range [][3]string{
		{"an RSA key with an even exponent", mint.Text("ssh-rsa", even), "an exponent is odd"},
		{"a fingerprint of 42 characters", alice.Fingerprint()[:49], "a fingerprint has 43 characters"},
		{"a fingerprint with padding", alice.Fingerprint() + "=", "a fingerprint has no padding"},
		{"a fingerprint with a comment", alice.Fingerprint() + " alice", "a fingerprint is alone on its line"},
		{"an MD5 fingerprint", "MD5:16:27:ac:a5:76:28:2d:36:63:1b:56:4d:eb:df:a6:48", "a fingerprint is SHA256"},
		{"a principal before the key", "alice " + alice.Text(), "a line has no principal"},
		{"a KRL", "SSHKRL\n\x00", "a KRL is no such file"},
		{"a line of other text", "serial: 17", "a line is a key, a fingerprint or a comment"},
	} {
		bad := &revokedCase{Name: Name(c[0]), content: contentOf(c[1]), Outcome: Refuses("", refusal.Malformed, c[2])}
		bad.Refused.Line = 1
		out = append(out, bad)
	}
	return out
}
