package shown

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// FuzzParseRecord: what is read is written as the same again, and names the payload that it has.
func FuzzParseRecord(f *testing.F) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := op.Payload{Gate: "0123456789abcdef0123456789abcdef", Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"},
		Incarnation: "a:1:2", State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(at), IssuedAt: at, ExpiresAt: at.Add(time.Hour)}
	payload, err := p.Encode()
	require.NoError(f, err)
	for _, more := range []*Beside{nil, {}, {Facts: []op.Fact{{Name: "files", Text: "3"}}, FactsAt: at, Labels: map[string]string{"a": "b"}, Why: "x"}} {
		for _, way := range []Way{"", OnTerminal, ToProgram} {
			r, err := RecordOf("j1.1", payload, more, way, at)
			require.NoError(f, err)
			text, err := r.line()
			require.NoError(f, err)
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		again, err := r.line()
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
		require.Equal(t, r.SHA256, op.SHA256([]byte(r.Payload)))
		p, err := op.DecodePayload([]byte(r.Payload))
		require.NoError(t, err)
		require.Equal(t, r.Gate, p.Gate)
	})
}
