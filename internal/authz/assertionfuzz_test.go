package authz_test

import (
	"encoding/base64"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// FuzzAssertion has a listed passkey sign whatever a browser may write. What is accepted says, to a reader that knows no
// prefix, that a page of the console asked for exactly this challenge, and that a person was there.
func FuzzAssertion(f *testing.F) {
	for _, b := range goodBrowsers {
		f.Add(b.Flags, b.Counter, b.Origin, "", "", b.Extensions)
	}
	f.Add(byte(1), uint32(0), "https://console.example.com", `,"crossOrigin":true`, "}", []byte(nil))
	f.Add(byte(0x81), uint32(7), "https://console.example.com", "", `,"challenge":"x"}`, []byte{0xa0})
	f.Fuzz(func(t *testing.T, flags byte, counter uint32, origin, before, after string, extensions []byte) {
		var challenge, client string
		key := mint.Passkey(t, "alice", mint.Browser{Party: mint.Console.Party, Origin: origin, Flags: flags, Counter: counter, Extensions: extensions,
			ClientData: func(c, o string) string {
				challenge, client = c, `{"type":"webauthn.get"`+before+`,"challenge":"`+c+`","origin":"`+o+`"`+after
				if before == "" && after == "" {
					client = mint.ClientData(c, o)
				}
				return client
			}})
		got, err := approvesOn(t, consoles, loaded(t, key.Line("alice", asOperator)), mint.Sign(t, key, nsOperational, payloadOf(t)))
		if err != nil {
			require.Contains(t, []refusal.Code{refusal.Malformed, refusal.BadSignature, refusal.OriginMismatch, refusal.TouchRequired, refusal.Oversized}, refusal.CodeOf(err))
			return
		}
		var said map[string]any
		require.NoError(t, json.Unmarshal([]byte(client), &said))
		require.Equal(t, "webauthn.get", said["type"])
		require.Equal(t, challenge, said["challenge"])
		require.Equal(t, mint.Console.Origin, said["origin"])
		require.NotEqual(t, true, said["crossOrigin"])
		require.NotContains(t, said, "topOrigin")
		require.Equal(t, mint.Console.Origin, got.Attested.Origin)
		require.NotZero(t, flags&mint.UserPresent)
		blob := must.Get(base64.RawURLEncoding.DecodeString(challenge))(t)
		require.Contains(t, string(blob), "SSHSIG\x00\x00\x00\x11"+nsOperational)
		_, err = approvesOn(t, consoles, loaded(t, key.Line("alice", `namespaces="recovery@gated"`)), mint.Sign(t, key, nsOperational, payloadOf(t)))
		require.Equal(t, refusal.StageAllowList, refusal.As(err).Stage)
		_, err = authz.LoadTrust([]byte(key.Line("alice", asOperator)))
		require.NoError(t, err)
	})
}
