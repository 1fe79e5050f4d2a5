package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// FuzzNeed: a stored requirement is either refused, or it is written again as one
// that asks for the same.
func FuzzNeed(f *testing.F) {
	f.Add(`{"ways":[{"name":"","demands":[{"rule":"built-in","roles":["operational"],"threshold":1,"touch":""}]}],"windows":[],"cool_off":0,"max_validity":86400}`)
	f.Add(`{"ways":[],"windows":["mon-fri 08:00-18:00Z"],"cool_off":9223372036854775807,"max_validity":-1}`)
	f.Add(`{"ways":[],"windows":["mon-fri 08:00-18:00Z"],"cool_off":9223372036,"max_validity":1}`)
	f.Add(`{"ways":[],"cool_off":18446744078}`)
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
	})
}
