package authz

import (
	"errors"
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

func TestApprovalAccepted(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	for _, c := range []struct{ key, principal, keyType string }{
		{"alice", "alice@example.com", "ssh-ed25519"},
		{"ecdsa-p256", "erin@example.com", "ecdsa-sha2-nistp256"},
		{"rsa-3072", "rolf@example.com", "ssh-rsa"},
	} {
		for _, hash := range []string{mint.SHA512, mint.SHA256} {
			key := testKey(t, c.key)
			sig := mint.Unsigned(key.Blob(), "operational@gated")
			sig.Hash = hash
			armored := sig.By(t, key, payload).Armored()
			got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{armored}}, issued)
			require.NoError(t, err, "%s %s", c.key, hash)
			require.Equal(t, testPayload, got.Payload)
			require.Equal(t, payload, got.Bytes)
			require.Equal(t, []Signer{{Principal: c.principal, Role: op.Operational,
				Key: ssh.FingerprintSHA256(key.PublicKey()), KeyType: c.keyType, Armor: armored}}, got.Signers)
		}
	}
}

func TestRSASHA256Accepted(t *testing.T) {
	t.Parallel()
	payload, key := encode(t, testPayload), testKey(t, "rsa-3072")
	f := mint.Sign(t, key, "operational@gated", payload).As(t, key, ssh.KeyAlgoRSASHA256, payload)
	must.Get(testVerifier(t).Approval(Envelope{Payload: payload, Signatures: []string{f.Armored()}}, issued))(t)
}

func TestEverySignatureHasToPass(t *testing.T) {
	t.Parallel()
	v, payload := testVerifier(t), encode(t, testPayload)
	alice, rolf, mallory := testKey(t, "alice"), testKey(t, "rsa-3072"), testKey(t, "bob")

	got := must.Get(v.Approval(envelope(t, payload, alice, rolf, alice), issued))(t)
	require.Len(t, got.Signers, 3, "who counts twice is for the gate to say")

	_, err := v.Approval(envelope(t, payload, alice, mallory), issued)
	refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
	require.Contains(t, err.Error(), "signature 2: ")

	e := envelope(t, payload, alice, rolf)
	e.Signatures[1] = envelope(t, []byte("other bytes"), rolf).Signatures[0]
	_, err = v.Approval(e, issued)
	refused(t, err, refusal.BadSignature, refusal.StageCrypto)
}

func TestRejectionAndApprovalAreNotEachOther(t *testing.T) { // S19
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	approval, rejection := envelope(t, encode(t, testPayload), alice), envelope(t, encode(t, testRejection), alice)

	got := must.Get(v.Rejection(rejection, issued))(t)
	require.Equal(t, testRejection, got.Rejection)
	require.Equal(t, rejection.Payload, got.Bytes)
	require.Len(t, got.Signers, 1)

	_, err := v.Approval(rejection, issued)
	refused(t, err, refusal.Malformed, refusal.StageDecode)
	_, err = v.Rejection(approval, issued)
	refused(t, err, refusal.Malformed, refusal.StageDecode)
}

func TestRoleIsTheNamespace(t *testing.T) { // S06, and gated's part of S07
	t.Parallel()
	payload, key := encode(t, testPayload), testKey(t, "bob")
	v := testVerifier(t)
	v.Trust = loadTrust(t, trustLine("bob", `namespaces="recovery@gated,git,coordination@gated"`, key.PublicKey()))
	for _, role := range op.Roles {
		sig := mint.Sign(t, key, role.Namespace(), payload).Armored()
		got, err := v.Approval(Envelope{Payload: payload, Signatures: []string{sig}}, issued)
		if role == op.Operational || role == op.BreakGlass {
			refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
			require.Contains(t, err.Error(), "only for coordination@gated, recovery@gated")
			require.Contains(t, refusal.As(err).Hint, ": --role coordination or --role recovery; ")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, role, got.Signers[0].Role, "whether the role may do this is the gate's to say")
	}
}

func TestTimeAndTarget(t *testing.T) { // T01, and the target stage
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	hour := func(*op.Payload) {}
	for _, c := range []struct {
		name   string
		change func(*op.Payload)
		now    time.Time
		code   refusal.Code
	}{
		{"at issue", hour, issued, ""},
		{"skew before issue", hour, issued.Add(-time.Minute), ""},
		{"more than the skew before", hour, issued.Add(-time.Minute - time.Nanosecond), refusal.NotYetValid},
		{"skew after expiry", hour, issued.Add(time.Hour + time.Minute), ""},
		{"more than the skew after", hour, issued.Add(time.Hour + time.Minute + time.Nanosecond), refusal.Expired},
		{"years before", hour, issued.AddDate(-70, 0, 0), refusal.NotYetValid},
		{"years after", hour, issued.AddDate(70, 0, 0), refusal.Expired},
		{"longest validity", func(p *op.Payload) { p.ExpiresAt = issued.Add(24 * time.Hour) }, issued, ""},
		{"longer validity", func(p *op.Payload) { p.ExpiresAt = issued.Add(24*time.Hour + time.Second) }, issued, refusal.ValidityTooLong},
		{"centuries", func(p *op.Payload) { p.ExpiresAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, issued, refusal.ValidityTooLong},
		{"other host", func(p *op.Payload) { p.Host = "pve2" }, issued, refusal.TargetMismatch},
		{"host in other case", func(p *op.Payload) { p.Host = "PVE1" }, issued, refusal.TargetMismatch},
		{"other gate", func(p *op.Payload) { p.Gate = "10112233445566778899aabbccddeeff" }, issued, refusal.TargetMismatch},
		{"other gate and expired", func(p *op.Payload) { p.Gate = "10112233445566778899aabbccddeeff" }, issued.AddDate(1, 0, 0), refusal.TargetMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testPayload
			c.change(&p)
			_, err := v.Approval(envelope(t, encode(t, p), alice), c.now)
			r := testRejection
			r.Gate, r.Host, r.ExpiresAt = p.Gate, p.Host, p.ExpiresAt
			_, rejErr := v.Rejection(envelope(t, encode(t, r), alice), c.now)
			switch c.code {
			case "":
				require.NoError(t, errors.Join(err, rejErr))
			case refusal.TargetMismatch:
				refused(t, err, c.code, refusal.StageTarget)
				refused(t, rejErr, c.code, refusal.StageTarget)
			default:
				refused(t, err, c.code, refusal.StageTime)
				refused(t, rejErr, c.code, refusal.StageTime)
			}
		})
	}
}

func TestKeyValidity(t *testing.T) { // S13
	t.Parallel()
	payload, bob := encode(t, testPayload), testKey(t, "bob")
	v := testVerifier(t)
	v.Skew = 24 * time.Hour // so that only the key's own times can refuse
	check := func(options string, now time.Time) error {
		v.Trust = loadTrust(t, trustLine("bob", `namespaces="operational@gated",`+options, bob.PublicKey()))
		_, err := v.Approval(envelope(t, payload, bob), now)
		return err
	}
	const options = `valid-after="20310504120000Z",valid-before="203105041230Z"`
	from, to := issued, issued.Add(30*time.Minute)
	require.NoError(t, check(options, from), "exactly on valid-after")
	require.NoError(t, check(options, to), "exactly on valid-before")
	require.NoError(t, check(options, to.Add(999*time.Millisecond)), "seconds are whole, as in ssh-keygen")
	refused(t, check(options, from.Add(-time.Nanosecond)), refusal.SignerExpired, refusal.StageAllowList)
	refused(t, check(options, from.Add(-time.Second)), refusal.SignerExpired, refusal.StageAllowList)
	refused(t, check(options, to.Add(time.Second)), refusal.SignerExpired, refusal.StageAllowList)
	require.NoError(t, check(`valid-before="20310505Z"`, from))
	refused(t, check(`valid-before="20310504Z"`, from), refusal.SignerExpired, refusal.StageAllowList)
	refused(t, check(`valid-after="20310505Z"`, from), refusal.SignerExpired, refusal.StageAllowList)
}

func TestPayloadRefusals(t *testing.T) { // B10, B11, B13, B16, T10: validly signed, and still not a payload
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	good := string(encode(t, testPayload))
	for _, c := range []struct{ name, old, new string }{
		{"B10 duplicate member", `"host":"pve1",`, `"host":"pve1","host":"pve1",`},
		{"B10 case variant", `"target":`, `"Target":`},
		{"B10 case variant beside", `"target":`, `"Target":"guest/other","target":`},
		{"B10 unknown member", `"type":`, `"tz":"","type":`},
		{"B10 trailing newline", `"gated/signed-op/v1"}`, `"gated/signed-op/v1"}` + "\n"},
		{"B10 trailing value", `"gated/signed-op/v1"}`, `"gated/signed-op/v1"}{}`},
		{"B10 space", `{"expires_at"`, `{ "expires_at"`},
		{"B10 escaped letter", `pve1`, `\u0070ve1`},
		{"B10 invalid UTF-8", `the upgrade`, "the \xff upgrade"},
		{"B10 lone surrogate", `the upgrade`, `the \ud800 upgrade`},
		{"B10 exponent", `"before-upgrade"`, `1e2`},
		{"B10 minus zero", `"before-upgrade"`, `-0`},
		{"B10 2^53", `"before-upgrade"`, `9007199254740992`},
		{"B10 fraction", `"before-upgrade"`, `1.5`},
		{"B10 null", `"before-upgrade"`, `null`},
		{"B10 null member", `"the upgrade went wrong"`, `null`},
		{"B11 zero width", `the upgrade`, "the\u200bupgrade"},
		{"B11 bidirectional", `the upgrade`, "the \u202eupgrade"},
		{"B11 ANSI", `the upgrade`, `the \u001b[31mupgrade`},
		{"B11 newline", `the upgrade`, `the\nupgrade`},
		{"B11 line separator", `the upgrade`, "the\u2028upgrade"},
		{"B13 homoglyph", `guest/web-1`, "guest/w\u0435b-1"},
		{"B15 path", `guest/web-1`, `guest/..`},
		{"B16 wildcard", `guest/web-1`, `guest/web-*`},
		{"T10 15 bytes", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0O`},
		{"T10 33 bytes", `AAECAwQFBgcICQoLDA0ODw`, strings.Repeat("AAEC", 11)},
		{"T10 padded", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0ODw==`},
		{"T10 standard alphabet", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0+/w`},
		{"T10 stray bits", `AAECAwQFBgcICQoLDA0ODw`, `AAECAwQFBgcICQoLDA0ODx`},
		{"a rejection's type", `gated/signed-op/v1`, `gated/rejection/v1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.new, 1)
			require.NotEqual(t, good, bad)
			_, err := v.Approval(envelope(t, []byte(bad), alice), issued)
			refused(t, err, refusal.Malformed, refusal.StageDecode)
			_, err = VerifyFile([]byte(bad), envelope(t, []byte(bad), alice).Signatures[0], v.Trust, issued)
			refused(t, err, refusal.Malformed, refusal.StageDecode)
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	v, payload, alice := testVerifier(t), encode(t, testPayload), testKey(t, "alice")
	one := envelope(t, payload, alice).Signatures[0]
	times := func(n int) Envelope {
		e := Envelope{Payload: payload}
		for range n {
			e.Signatures = append(e.Signatures, one)
		}
		return e
	}
	_, err := v.Approval(times(0), issued)
	refused(t, err, refusal.Malformed, refusal.StageDecode)
	for _, n := range []int{1, 15, 16} {
		must.Get(v.Approval(times(n), issued))(t, n)
	}
	for _, n := range []int{17, 10_000} {
		_, err := v.Approval(times(n), issued)
		refused(t, err, refusal.Oversized, refusal.StageDecode)
	}

	e := times(1)
	for _, n := range []int{MaxArmor + 1, 16 << 20} {
		e.Signatures[0] = one + strings.Repeat("A", n-len(one))
		_, err = v.Approval(e, issued)
		refused(t, err, refusal.Oversized, refusal.StageDecode)
	}
	for _, n := range []int{MaxArmor - 1, MaxArmor} {
		e.Signatures[0] = one + strings.Repeat("A", n-len(one))
		_, err = v.Approval(e, issued)
		refused(t, err, refusal.Malformed, refusal.StageDecode)
	}

	big := Envelope{Payload: make([]byte, op.MaxPayload+1), Signatures: []string{one}}
	_, err = v.Approval(big, issued)
	refused(t, err, refusal.Oversized, refusal.StageDecode)
	deep := []byte(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000))
	_, err = v.Approval(Envelope{Payload: deep, Signatures: []string{one}}, issued)
	refused(t, err, refusal.Malformed, refusal.StageDecode)
}

func TestZeroVerifierRefuses(t *testing.T) {
	t.Parallel()
	e := envelope(t, encode(t, testPayload), testKey(t, "alice"))
	_, err := Verifier{}.Approval(e, issued)
	refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
	v := testVerifier(t)
	v.MaxValidity = 0
	_, err = v.Approval(e, issued)
	refused(t, err, refusal.ValidityTooLong, refusal.StageTime)
	v = testVerifier(t)
	v.Gate, v.Host = "", ""
	_, err = v.Approval(e, issued)
	refused(t, err, refusal.TargetMismatch, refusal.StageTarget)
}

func BenchmarkApproval(b *testing.B) {
	v, payload := testVerifier(b), encode(b, testPayload)
	for _, name := range mutatedKeys {
		b.Run(name, func(b *testing.B) {
			e := envelope(b, payload, testKey(b, name))
			for b.Loop() {
				_, err := v.Approval(e, issued)
				require.NoError(b, err)
			}
		})
	}
}

func TestVerifyFile(t *testing.T) {
	t.Parallel()
	v, alice := testVerifier(t), testKey(t, "alice")
	later := issued.AddDate(1, 0, 0) // the payload's own time does not matter
	for _, p := range []interface{ Encode() ([]byte, error) }{testPayload, testRejection} {
		e := envelope(t, encode(t, p), alice)
		got := must.Get(VerifyFile(e.Payload, e.Signatures[0], v.Trust, later))(t)
		require.Equal(t, "alice@example.com", got.Principal)
		require.Equal(t, op.Operational, got.Role)
		require.Equal(t, ssh.FingerprintSHA256(alice.PublicKey()), got.Key)

		_, err := VerifyFile(append(e.Payload, '\n'), e.Signatures[0], v.Trust, later)
		refused(t, err, refusal.Malformed, refusal.StageDecode)
		_, err = VerifyFile(e.Payload, e.Signatures[0], nil, later)
		refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
	}

	// A label may be called type. The type of a payload is its own last member.
	p := testPayload
	p.Op, p.Params = "guest.set-config", op.Params{"labels": map[string]any{"type": op.TypeRejection}}
	e := envelope(t, encode(t, p), alice)
	must.Get(VerifyFile(e.Payload, e.Signatures[0], v.Trust, later))(t)
}
