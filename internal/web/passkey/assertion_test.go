package passkey_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
)

func TestDecodeAssertionRefuses(t *testing.T) {
	t.Parallel()
	good := `{"id":"AAAA","clientDataJSON":"e30","authenticatorData":"AAAA","signature":"AAAA","userHandle":"AAAA"}`
	must.Get(passkey.DecodeAssertion([]byte(good)))(t)
	must.Get(passkey.DecodeAssertion([]byte(strings.Replace(good, `,"userHandle":"AAAA"`, "", 1))))(t)
	for name, c := range map[string]struct {
		text string
		want refusal.Code
	}{
		"nothing":            {"", refusal.Malformed},
		"null":               {"null", refusal.Malformed},
		"a list":             {"[]", refusal.Malformed},
		"an unknown member":  {strings.Replace(good, "{", `{"type":"public-key",`, 1), refusal.Malformed},
		"a doubled member":   {strings.Replace(good, "{", `{"id":"BBBB",`, 1), refusal.Malformed},
		"another case":       {strings.Replace(good, `"id"`, `"ID"`, 1), refusal.Malformed},
		"two objects":        {good + good, refusal.Malformed},
		"a number":           {strings.Replace(good, `"e30"`, `30`, 1), refusal.Malformed},
		"no client data":     {strings.Replace(good, `"e30"`, `""`, 1), refusal.Malformed},
		"null for a part":    {strings.Replace(good, `"e30"`, `null`, 1), refusal.Malformed},
		"padding":            {strings.Replace(good, `"e30"`, `"e30="`, 1), refusal.Malformed},
		"a line end":         {strings.Replace(good, `"e30"`, `"e3\n0"`, 1), refusal.Malformed},
		"bits left over":     {strings.Replace(good, `"e30"`, `"e31"`, 1), refusal.Malformed},
		"the other alphabet": {strings.Replace(good, `"e30"`, `"+/+/"`, 1), refusal.Malformed},
		"a long id":          {strings.Replace(good, `"AAAA"`, `"`+strings.Repeat("A", 1368)+`"`, 1), refusal.Oversized},
		"a long signature":   {strings.Replace(good, `"signature":"AAAA"`, `"signature":"`+strings.Repeat("A", 100)+`"`, 1), refusal.Oversized},
		"a long user handle": {strings.Replace(good, `"userHandle":"AAAA"`, `"userHandle":"`+strings.Repeat("A", 88)+`"`, 1), refusal.Oversized},
		"long client data":   {strings.Replace(good, `"e30"`, `"`+strings.Repeat("A", 5464)+`"`, 1), refusal.Oversized},
		"a megabyte":         {strings.Replace(good, `"e30"`, `"`+strings.Repeat("A", 1<<20)+`"`, 1), refusal.Oversized},
	} {
		_, err := passkey.DecodeAssertion([]byte(c.text))
		require.ErrorIs(t, err, c.want, name)
	}
}

// FuzzAssertion checks that an accepted assertion is written as the same again, and that
// what it becomes with a key is a signature that decodes.
func FuzzAssertion(f *testing.F) {
	d := newDevice(f)
	challenge := passkey.Challenge(namespace, message)
	f.Add(must.Get(d.Sign(f, challenge).Encode())(f))
	d.Flags, d.Extensions = 0x9d, []byte{0xa0}
	f.Add(must.Get(d.Sign(f, challenge).Encode())(f))
	f.Add([]byte(`{"id":"AAAA","clientDataJSON":"e30","authenticatorData":"AAAA","signature":"AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := passkey.DecodeAssertion(b)
		if err != nil {
			code := refusal.CodeOf(err)
			require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Oversized}, code)
			return
		}
		again := must.Get(passkey.DecodeAssertion(must.Get(a.Encode())(t)))(t)
		require.Equal(t, a, again)
		before := bytes.Clone(a.AuthenticatorData)
		a.Made(d.Key)
		require.Equal(t, before, a.AuthenticatorData)
		armored, err := a.Armor(d.Key, namespace, challenge)
		if err != nil {
			require.Empty(t, armored)
			return
		}
		require.True(t, strings.HasPrefix(armored, "-----BEGIN SSH SIGNATURE-----\n"))
		require.NotEmpty(t, a.Origin())
	})
}
