package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// FuzzNeed: a stored requirement is either refused, or it is written again as one
// that asks for the same.
func FuzzNeed(f *testing.F) {
	f.Add(`{"ways":[{"name":"","demands":[{"rule":"built-in","roles":["operational"],"threshold":1,"touch":""}]}],"windows":[],"cool_off":0,"max_validity":86400}`)
	f.Add(`{"ways":[],"windows":["mon-fri 08:00-18:00Z"],"cool_off":9223372036854775807,"max_validity":-1}`)
	f.Add(`{"ways":[],"windows":["mon-fri 08:00-18:00Z"],"cool_off":9223372036,"max_validity":1}`)
	f.Add(`{"ways":[],"cool_off":18446744078}`)
	f.Add(`{"ways":[],"windows":[],"cool_off":0,"max_validity":1,"single":true}`)
	f.Add(`{"ways":null,"threshold":0}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := DecodeNeed(text)
		if err != nil {
			return
		}
		again := must.Get(DecodeNeed(EncodeNeed(r)))(t)
		require.Equal(t, EncodeNeed(r), EncodeNeed(again))
		require.Equal(t, len(r.Ways), len(again.Ways))
		require.Equal(t, r.CoolOff, again.CoolOff)
		require.Equal(t, r.MaxValidity, again.MaxValidity)
		require.Equal(t, r.Single, again.Single)
		require.False(t, r.Single && EncodeExtra(r) == "", "the log has it")
	})
}

// FuzzInclusion: a stored batch is refused, or it is stored again as the same bytes.
func FuzzInclusion(f *testing.F) {
	f.Add([]byte("{}"), 3, make([]byte, 96))
	f.Add([]byte{}, 0, []byte{})
	f.Add([]byte{}, 1, make([]byte, 31))
	f.Fuzz(func(t *testing.T, batch []byte, leaf int, path []byte) {
		in, err := DecodeInclusion(batch, leaf, path)
		if err != nil {
			return
		}
		b, i, p := batched(op.Signed{Batch: in})
		require.Equal(t, string(batch), string(b))
		require.Equal(t, leaf, i)
		require.Equal(t, string(path), string(p))
	})
}
