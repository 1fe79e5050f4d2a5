package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// minters make a key of each of the two types.
var minters = map[string]func(mint.TB, string, mint.Authenticator) mint.Key{"ed25519": mint.SKEd25519, "ecdsa": mint.SKECDSA}

func TestTouch(t *testing.T) { // S08
	t.Parallel()
	for name, make := range minters {
		for flags, touch := range map[byte]op.Touch{
			0: op.TouchNone, mint.UserVerified: op.TouchNone, 0xfe: op.TouchNone,
			mint.UserPresent: op.TouchPresent, 0xfb: op.TouchPresent,
			mint.UserPresent | mint.UserVerified: op.TouchVerified, 0xff: op.TouchVerified,
		} {
			key := make(t, "frank", said(flags))
			got, err := approves(t, loaded(t, key.Line("frank", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t)), noon)
			if touch == op.TouchNone {
				refusedAs(t, err, refusal.TouchRequired, refusal.StageCrypto)
				continue
			}
			require.NoError(t, err, "%s %#x", name, flags)
			require.Equal(t, &op.Attested{Flags: flags, Counter: 42}, got.Attested)
			require.Equal(t, touch, got.Attested.Touch())
		}
	}
}

func TestSecurityKeyRefusals(t *testing.T) { // S08, S12
	t.Parallel()
	for name, make := range minters {
		touched, untouched := make(t, "frank", said(mint.UserPresent)), make(t, "frank", said(0))
		trust := loaded(t, touched.Line("frank", asOperator))
		for _, c := range []struct {
			name   string
			key    mint.Key
			change func(*mint.Signature)
			code   refusal.Code
			stage  refusal.Stage
		}{
			{"forged, without a touch", untouched, func(s *mint.Signature) { s.Value[10] ^= 1 }, refusal.BadSignature, refusal.StageCrypto},
			{"touch added", untouched, func(s *mint.Signature) { s.Rest[0] = mint.UserPresent }, refusal.BadSignature, refusal.StageCrypto},
			{"touch taken away", touched, func(s *mint.Signature) { s.Rest[0] = 0 }, refusal.BadSignature, refusal.StageCrypto},
			{"verification added", touched, func(s *mint.Signature) { s.Rest[0] |= mint.UserVerified }, refusal.BadSignature, refusal.StageCrypto},
			{"other counter", touched, func(s *mint.Signature) { s.Rest[4]++ }, refusal.BadSignature, refusal.StageCrypto},
			{"no counter", touched, func(s *mint.Signature) { s.Rest = s.Rest[:1] }, refusal.Malformed, refusal.StageDecode},
			{"no flags", touched, func(s *mint.Signature) { s.Rest = nil }, refusal.Malformed, refusal.StageDecode},
			{"trailing", touched, func(s *mint.Signature) { s.Rest = append(s.Rest, 0) }, refusal.Malformed, refusal.StageDecode},
			{"trailing string", touched, func(s *mint.Signature) { s.Rest = append(s.Rest, 0, 0, 0, 0) }, refusal.Malformed, refusal.StageDecode},
			{"value cut short", touched, func(s *mint.Signature) { s.Value = s.Value[:len(s.Value)-1] }, refusal.Malformed, refusal.StageDecode},
			{"value longer", touched, func(s *mint.Signature) { s.Value = append(s.Value, 0) }, refusal.Malformed, refusal.StageDecode},
			{"webauthn", touched, func(s *mint.Signature) { s.Format = "webauthn-" + s.Format }, refusal.Malformed, refusal.StageDecode},
			{"plain format", touched, func(s *mint.Signature) { s.Format = "ssh-ed25519" }, refusal.Malformed, refusal.StageDecode},
			{"other application", make(t, "frank", mint.Authenticator{Application: "ssh:x", Flags: 1}), func(*mint.Signature) {}, refusal.UnknownSigner, refusal.StageAllowList},
			{"a web site's", make(t, "frank", mint.Authenticator{Application: "https://example.com", Flags: 1}), func(*mint.Signature) {}, refusal.Malformed, refusal.StageDecode},
		} {
			s := mint.Sign(t, c.key, nsOperational, payloadOf(t))
			c.change(&s)
			_, err := approves(t, trust, s, noon)
			t.Run(name+" "+c.name, func(t *testing.T) { refusedAs(t, err, c.code, c.stage) })
		}
	}
}

func TestCertifiedSecurityKey(t *testing.T) { // S08: a certificate's options take nothing away, and may add
	t.Parallel()
	ca := mint.Ed25519(t, "ca")
	trust := loaded(t, ca.Line("*", asAuthority))
	for _, make := range minters {
		approve := func(flags byte, change func(*mint.Cert)) error {
			key := make(t, "frank", said(flags))
			cert := mint.Certify(ca, key, "frank")
			change(&cert)
			_, err := approves(t, trust, mint.SignWith(t, cert, key, nsOperational, payloadOf(t)), noon)
			return err
		}
		noTouch := func(c *mint.Cert) { c.Extensions = []mint.Option{{Name: "no-touch-required"}} }
		require.NoError(t, approve(mint.UserPresent, noTouch))
		refusedAs(t, approve(0, noTouch), refusal.TouchRequired, refusal.StageCrypto)

		verify := func(c *mint.Cert) { c.Critical = []mint.Option{{Name: "verify-required"}} }
		require.NoError(t, approve(mint.UserPresent|mint.UserVerified, verify))
		refusedAs(t, approve(mint.UserPresent, verify), refusal.TouchRequired, refusal.StageCrypto)
		refusedAs(t, approve(mint.UserVerified, verify), refusal.TouchRequired, refusal.StageCrypto)
	}
}

func TestSoftwareKeys(t *testing.T) {
	t.Parallel()
	for _, key := range everyKey(t) {
		listed := loaded(t, key.Line("alice", asOperator), key.Line("*", asAuthority)).Signers()
		require.Equal(t, attestedOf(key) == nil, listed[0].Software, key.Type())
		require.False(t, listed[0].CA)
		require.True(t, listed[1].Software, "a CA may certify any key")
		require.True(t, listed[1].CA)
	}
}
