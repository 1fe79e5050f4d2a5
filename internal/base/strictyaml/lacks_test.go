package strictyaml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a map lacks is said only if no key of it is a typo of what it lacks.
func TestLacks(t *testing.T) {
	for text, want := range map[string]string{
		"b: 1\n":         "",
		"{}\n":           "f:1:1: neither a nor beta, in: {}",
		"betta: 1\n":     `f:1:1: unknown key betta; is "beta" meant?, in: betta: 1`,
		"zzz: 1\n":       "f:1:1: neither a nor beta, in: zzz: 1",
		"a: 1\nzzz: 1\n": "f:2:1: unknown key zzz, in: zzz: 1",
	} {
		root, err := Parse("f", []byte(text))
		require.NoError(t, err, text)
		a, b := root.Get("a"), root.Get("beta")
		if short := root.Get("b"); !a.Present() && !b.Present() && !short.Present() {
			root.Lacks("neither a nor beta")
			require.False(t, root.Sound(), text)
		}
		if err := root.Done(); want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
}
