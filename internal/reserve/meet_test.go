package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/glob"
)

// A path that is looked up in a pattern is found where the comparison of two
// patterns says so, whichever of them is inside the other and however case is
// read.
func TestAPathMeetsWhatItsPatternOverlaps(t *testing.T) {
	dirs := []string{"/", "/a", "/A", "/a/b", "/A/b", "/a/b/c"}
	texts := []string{"a", "A", "b", "a/b", "b/c", "a/b/c", "A/B", "*", "?/b", "**", "b/**", "**/c", "[ab]/*", "{a,b/c}", "a/", `\*`, "a/B/*"}
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (region, glob.Pattern) {
			r := region{path: rapid.SampledFrom(dirs).Draw(t, name+" in"), fold: rapid.Bool().Draw(t, name+" folded")}
			p, err := glob.Parse(rapid.SampledFrom(texts).Draw(t, name), glob.Options{FoldCase: r.fold})
			require.NoError(t, err)
			return r, p
		}
		r, p := draw("one")
		o, q := draw("other")
		want := false
		if r.isAt(o) {
			want = glob.Overlap(p, q)
		} else if dir, ok := r.holds(o); ok {
			want = glob.OverlapBelow(p, dir, q)
		} else if dir, ok := o.holds(r); ok {
			want = glob.OverlapBelow(q, dir, p)
		}
		require.Equal(t, want, meet(r, p, o, q))
		require.Equal(t, want, meet(o, q, r, p))
		if want && isPath(p) {
			met++
		}
	})
	require.Positive(t, met)
}
