package authz

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// TestFuzzCorpora fails if a corpus is empty, because a fuzz target without inputs
// would pass.
func TestFuzzCorpora(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"FuzzLoadTrust", "FuzzEnvelope", "FuzzArmor"} {
		files := must.Get(filepath.Glob(filepath.Join("testdata", "fuzz", target, "*")))(t)
		require.NotEmpty(t, files, target)
		for _, name := range files {
			b := must.Get(os.ReadFile(name))(t)
			require.True(t, strings.HasPrefix(string(b), "go test fuzz v1\n"), name)
		}
	}
}

// seedCertificates has one for each type of key, by each type of CA.
func seedCertificates(f *testing.F) []mint.Cert {
	f.Helper()
	keys := []mint.Key{
		mint.Ed25519(f, "alice"), mint.ECDSA(f, "bob", 256), mint.ECDSA(f, "carol", 384), mint.ECDSA(f, "dave", 521),
		mint.ReadFile(f, filepath.Join("..", "..", "testdata", "keys", "rsa-3072")), mint.SKEd25519(f, "frank", mint.Touched), mint.SKECDSA(f, "grace", mint.Touched),
	}
	var out []mint.Cert
	for i, key := range keys {
		ca := keys[(i+2)%len(keys)]
		cert := mint.Certify(ca, key, key.Name+"@example.com")
		cert.ValidAfter, cert.ValidBefore = issued, issued.AddDate(0, 0, i)
		out = append(out, cert)
	}
	out[0].ValidBefore = issued.AddDate(1, 0, 0)
	out[1].Critical = []mint.Option{{Name: "force-command", Value: "/bin/true"}}
	out[2].Principals = []string{"carol", "root"}
	out[5].Critical = []mint.Option{{Name: "verify-required"}}
	return out
}

// seedTrust is a file with most of what a file may have.
func seedTrust(f *testing.F) string {
	f.Helper()
	text := "# operators\n\n"
	for i, c := range seedCertificates(f) {
		options := []string{`namespaces="operational@gated"`, `namespaces="git,recovery@gated",valid-before="20990101Z"`,
			`valid-after="203001011200Z",namespaces="operational@gated,manager@gated",valid-before="20990101120001Z"`}[i%3]
		text += c.Key.Line(c.Key.Name, options) + c.CA.Line("*@example.com,!root@*", "cert-authority,"+options) +
			"\t" + c.Key.Line(`"`+c.Key.Name+` smith"`, options)
	}
	return text
}

// FuzzLoadTrust: an accepted file can be printed and loads again to the same, and
// every line obeys the rules.
func FuzzLoadTrust(f *testing.F) {
	text := seedTrust(f)
	f.Add([]byte(text))
	for _, line := range strings.SplitAfter(text, "\n") {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		trust, err := LoadTrust(data)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, data, append([]byte{}, trust.Text()...))
		printed := trust.Print()
		again := must.Get(LoadTrust(printed))(t, "%q", printed)
		require.Equal(t, string(printed), string(again.Print()), "printed again it is the same")
		before, after := trust.Signers(), again.Signers()
		require.Len(t, after, len(before))
		for i, l := range before {
			require.NotEmpty(t, l.Principal)
			require.True(t, l.CA || !strings.ContainsAny(l.Principal, ",*?!"), "%q", l.Principal)
			for _, r := range l.Roles {
				require.True(t, r.Valid(), "%q", r)
			}
			before[i].Line, after[i].Line = 0, 0
		}
		require.Equal(t, before, after)
	})
}

// FuzzRevoked: an accepted file is a list of fingerprints, and that list is accepted
// again.
func FuzzRevoked(f *testing.F) {
	f.Add([]byte("# gone\n\n"))
	for _, c := range seedCertificates(f) {
		f.Add([]byte(c.Key.Text() + " " + c.Key.Name + "\n" + c.CA.Fingerprint()))
		f.Add([]byte("\t" + c.Text(f) + "\n"))
	}
	weak := mint.Strings([]byte("ssh-rsa"), []byte{1, 0, 1}, bytes.Repeat([]byte{0x7f}, 128))
	f.Add([]byte(mint.Text("ssh-rsa", weak) + "\n" + mint.Text(dsaKey, mint.Strings(dsaKey, "p", "q", "g", "y"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := LoadRevoked(data)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.LessOrEqual(t, list.Count(), 1+bytes.Count(data, []byte("\n")))
		var plain strings.Builder
		for key := range list.keys {
			plain.WriteString(key + "\n")
		}
		again := must.Get(LoadRevoked([]byte(plain.String())))(t, plain.String())
		require.Equal(t, list.keys, again.keys)
	})
}

// FuzzCertificate: x/crypto reads the same in a certificate that decodes, and a CA
// is responsible only for what it signed.
func FuzzCertificate(f *testing.F) {
	signed, authorities := map[string]bool{}, map[string]bool{}
	for _, c := range seedCertificates(f) {
		parsed := must.Get(parseCertificate(c.Blob(f)))(f)
		signed[string(parsed.signed)], authorities[string(parsed.caBlob)] = true, true
		f.Add(c.Blob(f))
		f.Add(c.Forged(f).Blob(f))
		nested := c
		nested.CABlob = c.Blob(f)
		f.Add(nested.Blob(f))
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		if _, ok := certifies[keyType(blob)]; !ok {
			return
		}
		c, err := parseCertificate(blob)
		if err != nil {
			require.Contains(t, []refusal.Code{refusal.Malformed, refusal.WeakKey, refusal.UnknownSigner}, refusal.CodeOf(err), "%v", err)
			return
		}
		require.True(t, bytes.HasPrefix(blob, c.signed))
		if authorities[string(c.caBlob)] {
			require.True(t, signed[string(c.signed)] || c.authentic() != nil)
		}
		_, err = c.principal()
		require.True(t, err == nil || refusal.CodeOf(err) == refusal.UnknownSigner, "%v", err)
		require.False(t, c.validAt(issued) == nil && c.before <= c.after)
		parsed, err := ssh.ParsePublicKey(blob)
		if err != nil {
			return // x/crypto wants a string inside each option's data
		}
		theirs := parsed.(*ssh.Certificate)
		require.Equal(t, theirs.Key.Marshal(), c.key.Marshal())
		require.Equal(t, theirs.SignatureKey.Marshal(), c.caBlob)
		require.Equal(t, theirs.Serial, c.serial)
		require.Equal(t, theirs.CertType, c.kind)
		require.Equal(t, theirs.ValidPrincipals, c.principals)
		require.Equal(t, []uint64{theirs.ValidAfter, theirs.ValidBefore}, []uint64{c.after, c.before})
		require.Len(t, c.critical, len(theirs.CriticalOptions))
		for _, o := range c.critical {
			require.Contains(t, theirs.CriticalOptions, o.name)
		}
	})
}

// FuzzEnvelope: only the signed bytes are accepted, and no input panics. Some kinds
// of signature can be changed and stay valid. What is accepted is accepted again,
// and counts.
func FuzzEnvelope(f *testing.F) {
	v := testVerifier(f)
	approval, rejection := encode(f, testPayload), encode(f, testRejection)
	lines := string(v.Trust.Text())
	for _, c := range seedCertificates(f) {
		lines += c.Key.Line(c.Key.Name, `namespaces="operational@gated"`) + c.CA.Line("*@example.com", `cert-authority,namespaces="operational@gated"`)
		for _, payload := range [][]byte{approval, rejection} {
			f.Add(payload, mint.Sign(f, c.Key, "operational@gated", payload).Armored())
			f.Add(payload, mint.SignWith(f, c, c.Key, "operational@gated", payload).Armored())
		}
	}
	v.Trust = loadTrust(f, lines)
	f.Fuzz(func(t *testing.T, payload []byte, armored string) {
		e := Envelope{Payload: payload, Signatures: []string{armored}}
		approved, err := v.Approval(e, issued)
		require.True(t, err != nil || string(payload) == string(approval))
		rejected, rejErr := v.Rejection(e, issued)
		require.True(t, rejErr != nil || string(payload) == string(rejection))
		signer, fileErr := VerifyFile(payload, armored, v.Trust, issued)
		if fileErr != nil {
			require.Error(t, err)
			require.Error(t, rejErr)
			require.NotEqual(t, refusal.Internal, refusal.CodeOf(fileErr))
			return
		}
		if err == nil {
			require.Equal(t, []Signer{signer}, approved.Signers)
		}
		if rejErr == nil {
			require.Equal(t, []Signer{signer}, rejected.Signers)
		}
		blob := must.Get(dearmor(armored))(t)
		again := must.Get(VerifyFile(payload, mint.Armor(blob, 64), v.Trust, issued))(t)
		require.Equal(t, signer.Key, again.Key)
		require.NoError(t, v.Trust.Still(op.Signed{Principal: signer.Principal, Role: signer.Role, Key: signer.Key, CA: signer.CA, Armor: armored}, issued))
	})
}

// FuzzArmor: an accepted armor is the only spelling of its blob at its width. An
// accepted blob is the only spelling of its fields.
func FuzzArmor(f *testing.F) {
	payload := encode(f, testPayload)
	for _, c := range seedCertificates(f) {
		f.Add(mint.Sign(f, c.Key, "operational@gated", payload).Armored())
		f.Add(mint.SignWith(f, c, c.Key, "operational@gated", payload).Armored())
	}
	f.Add(mint.Unsigned(mint.Strings(dsaKey, "p", "q", "g", "y"), "operational@gated").Armored())
	f.Fuzz(func(t *testing.T, armored string) {
		blob, err := dearmor(armored)
		if err != nil {
			must.Err(parseSignature(armored))(t)
			return
		}
		width := strings.Index(armored[len(armorBegin):], "\n")
		require.Equal(t, mint.Armor(blob, width), strings.TrimSuffix(armored, "\n")+"\n")
		s, err := parseSignature(armored)
		if err != nil || s.key == nil {
			return
		}
		key := s.key.Marshal()
		if s.cert != nil {
			key = s.blob // FuzzCertificate checks that
		}
		again := mint.Unsigned(key, s.namespace)
		again.Hash, again.Format, again.Value, again.Rest = string(s.hash), s.inner.Format, s.inner.Blob, s.inner.Rest
		require.Equal(t, blob, again.Blob())
	})
}
