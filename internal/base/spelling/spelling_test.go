package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATypoIsNamedWithTheKeyThatWasMeant(t *testing.T) {
	for written, meant := range map[string]string{
		"submiters": "submitters", "submittters": "submitters", "sumbitters": "submitters", "Submitters": "submitters",
		"submitter": "submitters", "max-validity": "max_validity", "tpye": "type", "usr": "user", "hots": "host", "opp": "op",
		"threshhold": "threshold", "apiversion": "apiVersion",
	} {
		got, ok := Nearest(written, []string{"unlike", meant, "other"})
		require.True(t, ok, written)
		require.Equal(t, meant, got)
	}
	for _, written := range []string{"min", "", "scratch", "creator", strings.Repeat("submitters", 1000)} {
		_, ok := Nearest(written, []string{"max", "submitters", "state", "memory"})
		require.False(t, ok, written)
	}
	got, _ := Nearest("values", []string{"value", "valuess", "values2"})
	require.Equal(t, "value", got, "the first of equals")
}

func TestTheDistanceOfWords(t *testing.T) {
	for _, c := range []struct {
		a, b string
		n    int
	}{{"", "", 0}, {"a", "a", 0}, {"a", "", 1}, {"", "ab", 2}, {"ab", "ba", 1}, {"abc", "acb", 1}, {"abcd", "badc", 2}, {"kitten", "sitting", 3}} {
		n, ok := distance(c.a, c.b, 3)
		require.True(t, ok)
		require.Equal(t, c.n, n, "%q %q", c.a, c.b)
		_, ok = distance(c.a, c.b, c.n-1)
		require.False(t, ok, "%q %q", c.a, c.b)
	}
	require.Equal(t, []int{1, 1, 2, 2, 3, 3}, []int{mistakes(0), mistakes(6), mistakes(7), mistakes(10), mistakes(11), mistakes(1000)})
}
