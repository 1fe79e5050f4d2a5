package glob

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func FuzzPatterns(f *testing.F) {
	for _, pair := range typical {
		f.Add(pair[0], pair[1], "src/a.go", false)
	}
	for pair := range chosen {
		f.Add(pair[0], pair[1], "src/main.rs", true)
	}
	f.Add(`{a,{b/,\}}c}//[!]a-z]**`, "{./,**/}?", "a/\xff", true)
	f.Fuzz(func(t *testing.T, a, b, path string, folded bool) {
		o := Options{Scope: "/src", FoldCase: folded}
		x, err := Parse(a, o)
		if err != nil {
			requireRefused(t, err)
			return
		}
		require.Equal(t, x, must.Get(Parse(x.String(), o))(t))
		y, err := Parse(b, o)
		if err != nil {
			requireRefused(t, err)
			return
		}
		if strings.Count(a, ",") < 7 && strings.Count(b, ",") < 7 && len(a)+len(b)+len(path) <= 400 { // not too slow
			slow, ok := slowRead(x.String(), folded)
			require.True(t, ok)
			require.Equal(t, slow.match(path), x.Match(path), "%q on %q", x, path)
			requireExact(t, x, y)
		}
		if x.Match(path) && y.Match(path) {
			require.True(t, Overlap(x, y))
		}
	})
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	require.Contains(t, []refusal.Code{refusal.BadParams, refusal.Malformed, refusal.TooComplex}, refusal.CodeOf(err))
}
