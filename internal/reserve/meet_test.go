package reserve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/glob"
)

// A path that is looked up in a pattern is found where the comparison of two
// patterns says so, whichever of them is inside the other and however case is
// read. The test asks for every pair, because few of them meet.
func TestAPathMeetsWhatItsPatternOverlaps(t *testing.T) {
	dirs := []string{"/", "/a", "/A", "/a/b", "/A/b", "/a/b/c"}
	texts := []string{"a", "A", "b", "a/b", "b/c", "a/b/c", "A/B", "*", "?/b", "**", "b/**", "**/c", "[ab]/*", "{a,b/c}", "a/", `\*`, "a/B/*"}
	type place struct {
		region
		glob.Pattern
		text string
	}
	var places []place
	for _, fold := range []bool{false, true} {
		for _, text := range texts {
			p, err := glob.Parse(text, glob.Options{FoldCase: fold})
			require.NoError(t, err)
			for _, dir := range dirs {
				places = append(places, place{region{path: dir, fold: fold}, p, text})
			}
		}
	}
	met := 0
	for _, one := range places {
		for _, other := range places {
			r, p, o, q := one.region, one.Pattern, other.region, other.Pattern
			want := false
			if r.isAt(o) {
				want = glob.Overlap(p, q)
			} else if dir, ok := r.holds(o); ok {
				want = glob.OverlapBelow(p, dir, q)
			} else if dir, ok := o.holds(r); ok {
				want = glob.OverlapBelow(q, dir, p)
			}
			if got, back := meet(r, p, o, q), meet(o, q, r, p); got != want || back != want {
				t.Errorf("%q in %+v and %q in %+v: %t and %t, want %t", one.text, r, other.text, o, got, back, want)
			}
			if want && isPath(p) {
				met++
			}
		}
	}
	require.Greater(t, met, len(places))
}
