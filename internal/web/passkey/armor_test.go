package passkey_test

import (
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
	"gated/internal/web/passkey/passkeytest"
)

// flagsOf are the states of an authenticator that browsers are known to send.
var flagsOf = map[string]struct {
	flags      byte
	counter    uint32
	extensions []byte
}{
	"device-bound":    {0x05, 7, nil},
	"touch alone":     {0x01, 0xffffffff, nil},
	"synced":          {0x1d, 0, nil},
	"with extensions": {0x9d, 0, []byte("\xa1\x68credBlob\x42hi")},
}

func TestOpenSSHVerifiesWhatIsMade(t *testing.T) {
	t.Parallel()
	for name, c := range flagsOf {
		d := newDevice(t)
		d.Flags, d.Counter, d.Extensions = c.flags, c.counter, c.extensions
		challenge := passkey.Challenge(namespace, message)
		armored := must.Get(d.Sign(t, challenge).Armor(d.Key, namespace, challenge))(t, name)
		require.LessOrEqual(t, len(armored), authz.MaxArmor)
		require.NoError(t, keygenVerifies(t, d.Key, namespace, armored, message), name)
		require.Error(t, keygenVerifies(t, d.Key, namespace, armored, []byte("another message")), name)
		require.Error(t, keygenVerifies(t, d.Key, "recovery@gated", armored, message), name)
	}
}

// Numbers whose first bit is set need a zero before them as mpint and in DER. Each
// signature has one with a chance of three in four.
func TestOpenSSHVerifiesNumbersOfEachLength(t *testing.T) {
	t.Parallel()
	d, seen := newDevice(t), map[int]bool{}
	challenge := passkey.Challenge(namespace, message)
	for i := 0; len(seen) < 3; i++ {
		require.Less(t, i, 1000)
		a := d.Sign(t, challenge)
		if n := len(a.Signature); !seen[n] {
			seen[n] = true
			require.NoError(t, keygenVerifies(t, d.Key, namespace, must.Get(a.Armor(d.Key, namespace, challenge))(t), message))
		}
	}
}

func TestTheLongestClientDataFits(t *testing.T) {
	t.Parallel()
	d, challenge := newDevice(t), passkey.Challenge(namespace, message)
	short := d.ClientData
	pad := func(n int) {
		d.ClientData = func(c string) string {
			s := short(c)
			head := strings.TrimSuffix(s, "}") + `,"more":"`
			return head + strings.Repeat("x", n-len(head)-2) + `"}`
		}
	}
	d.Flags, d.Extensions = 0x85, slices.Concat([]byte{0xa1, 0x61, 'x', 0x59, 0x03, 0x00}, make([]byte, passkey.MaxAuthenticatorData-37-6))
	pad(passkey.MaxClientData)
	a := must.Get(passkey.DecodeAssertion(must.Get(d.Sign(t, challenge).Encode())(t)))(t)
	armored := must.Get(a.Armor(d.Key, namespace, challenge))(t)
	require.Less(t, len(armored), authz.MaxArmor)
	require.NoError(t, keygenVerifies(t, d.Key, namespace, armored, message))

	pad(passkey.MaxClientData + 1)
	must.Fail(passkey.DecodeAssertion(must.Get(d.Sign(t, challenge).Encode())(t)))(t, refusal.Oversized)
}

func TestArmorRefuses(t *testing.T) {
	t.Parallel()
	other := newDevice(t)
	for name, c := range map[string]struct {
		change func(d *passkeytest.Device)
		after  func(a *passkey.Assertion)
		want   refusal.Code
		says   string
	}{
		"no flags":                   {after: func(a *passkey.Assertion) { a.AuthenticatorData = a.AuthenticatorData[:32] }, want: refusal.Malformed, says: "has 32 bytes"},
		"counter cut short":          {after: func(a *passkey.Assertion) { a.AuthenticatorData = a.AuthenticatorData[:36] }, want: refusal.Malformed, says: "has 36 bytes"},
		"one byte more":              {change: func(d *passkeytest.Device) { d.Extensions = []byte{0xa0} }, want: refusal.Malformed, says: "do not announce"},
		"extensions that are not":    {change: func(d *passkeytest.Device) { d.Flags |= 0x80 }, want: refusal.Malformed, says: "no map"},
		"extensions that are no map": {change: func(d *passkeytest.Device) { d.Flags |= 0x80; d.Extensions = []byte{0x01} }, want: refusal.Malformed, says: "no map"},
		"a new key's data":           {change: func(d *passkeytest.Device) { d.Flags |= 0x40 }, want: refusal.Malformed, says: "new key"},
		"another relying party":      {after: func(a *passkey.Assertion) { a.AuthenticatorData[0] ^= 1 }, want: refusal.UnknownSigner, says: rpID},
		"another challenge":          {after: func(a *passkey.Assertion) { a.ClientData = []byte(other.ClientData("AAAA")) }, want: refusal.NamespaceMismatch, says: "another challenge"},
		"another ceremony": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.create","challenge":"%s","origin":"https://a"}`)
		}, want: refusal.Malformed, says: "another ceremony"},
		"members in another order": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"challenge":"%s","origin":"https://a","type":"webauthn.get"}`)
		}, want: refusal.Malformed, says: "order that OpenSSH refuses"},
		"a space": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.get", "challenge":"%s","origin":"https://a"}`)
		}, want: refusal.Malformed, says: "order that OpenSSH refuses"},
		"a member before the origin": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.get","challenge":"%s","crossOrigin":false,"origin":"https://a"}`)
		}, want: refusal.Malformed, says: "order that OpenSSH refuses"},
		"a doubled member": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.get","challenge":"%s","origin":"https://a","origin":"https://b"}`)
		}, want: refusal.Malformed, says: "strict JSON"},
		"an origin with a quote": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.get","challenge":"%s","origin":"https://a\""}`)
		}, want: refusal.Malformed, says: "plain origin"},
		"no origin": {change: func(d *passkeytest.Device) { d.ClientData = of(`{"type":"webauthn.get","challenge":"%s"}`) }, want: refusal.Malformed, says: "plain origin"},
		"JSON followed by more": {change: func(d *passkeytest.Device) {
			d.ClientData = of(`{"type":"webauthn.get","challenge":"%s","origin":"https://a"}{}`)
		}, want: refusal.Malformed, says: "strict JSON"},
		"no JSON":                     {change: func(d *passkeytest.Device) { d.ClientData = of(`%s`) }, want: refusal.Malformed, says: "strict JSON"},
		"DER with a tail":             {after: func(a *passkey.Assertion) { a.Signature = append(a.Signature, 0) }, want: refusal.Malformed, says: "DER"},
		"DER with a third number":     {after: func(a *passkey.Assertion) { a.Signature = der(t, 1, 2, 3) }, want: refusal.Malformed, says: "DER"},
		"DER with one number":         {after: func(a *passkey.Assertion) { a.Signature = der(t, 1) }, want: refusal.Malformed, says: "DER"},
		"DER with zero":               {after: func(a *passkey.Assertion) { a.Signature = der(t, 0, 1) }, want: refusal.Malformed, says: "DER"},
		"DER with a negative number":  {after: func(a *passkey.Assertion) { a.Signature = der(t, 1, -1) }, want: refusal.Malformed, says: "DER"},
		"DER with a long length":      {after: func(a *passkey.Assertion) { a.Signature = []byte{0x30, 0x81, 6, 2, 1, 1, 2, 1, 1} }, want: refusal.Malformed, says: "DER"},
		"DER with a padded number":    {after: func(a *passkey.Assertion) { a.Signature = []byte{0x30, 7, 2, 2, 0, 1, 2, 1, 1} }, want: refusal.Malformed, says: "DER"},
		"a signature of raw numbers":  {after: func(a *passkey.Assertion) { a.Signature = make([]byte, 64) }, want: refusal.Malformed, says: "DER"},
		"a number above the curve's":  {after: func(a *passkey.Assertion) { a.Signature = longNumber(t) }, want: refusal.Malformed, says: "DER"},
		"a challenge that is escaped": {change: func(d *passkeytest.Device) { d.ClientData = escaped }, want: refusal.Malformed, says: "order that OpenSSH refuses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, challenge := newDevice(t), passkey.Challenge(namespace, message)
			if c.change != nil {
				c.change(d)
			}
			a := d.Sign(t, challenge)
			if c.after != nil {
				c.after(&a)
			}
			armored, err := a.Armor(d.Key, namespace, challenge)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, armored)
		})
	}
}

func of(format string) func(string) string {
	return func(challenge string) string { return fmt.Sprintf(format, challenge) }
}

// escaped writes the same JSON value in other bytes.
func escaped(challenge string) string {
	return fmt.Sprintf(`{"type":"webauthn.get","challenge":"\u%04x%s","origin":"https://a"}`, challenge[0], challenge[1:])
}

func der(t *testing.T, numbers ...int64) []byte {
	var all []*big.Int
	for _, n := range numbers {
		all = append(all, big.NewInt(n))
	}
	return must.Get(asn1.Marshal(all))(t)
}

func longNumber(t *testing.T) []byte {
	return must.Get(asn1.Marshal([]*big.Int{new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)}))(t)
}
