package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

// TestPartFor: the catalogue says whether a step is about a part.
func TestPartFor(t *testing.T) {
	whole := op.Part{State: op.FingerprintOf([]byte("all")), Facts: []op.Fact{{Name: "reservations", Text: "2"}}}
	r12 := op.Part{State: op.FingerprintOf([]byte("r12")), Facts: []op.Fact{{Name: "r12", Text: "builder"}}}
	o := op.Observed{Target: repo, Present: true, Fingerprint: whole.State, Facts: whole.Facts,
		Part: func(p op.Params) (op.Part, bool) {
			return r12, p.Str("reservation") == "r12" && p.Str("to") == "tester"
		}}
	give := func(id string) op.Step {
		return op.Step{Op: op.ForceTransfer, Target: repo, Params: op.Params{"reservation": id, "to": "tester"}}
	}
	for _, c := range []struct {
		what string
		step op.Step
		seen op.Observed
		want op.Part
		ok   bool
	}{
		{"all", op.Step{Op: op.ReleaseAll, Target: repo, Params: op.Params{}}, o, whole, true},
		{"all, which names one", op.Step{Op: op.ReleaseAll, Target: repo, Params: op.Params{"reservation": "r12"}}, o, whole, true},
		{"one", give("r12"), o, r12, true},
		{"one that is not there", give("r13"), o, op.Part{}, false},
		{"one, of what has no parts", give("r12"), op.Observed{Target: repo, Fingerprint: whole.State}, op.Part{}, false},
		{"nothing known", op.Step{Op: "scope.explode"}, o, op.Part{}, false},
		{"a guest", op.Step{Op: "guest.destroy", Target: web1}, op.Observed{Fingerprint: whole.State}, op.Part{State: whole.State}, true},
	} {
		got, ok := c.seen.PartFor(c.step)
		require.Equal(t, c.ok, ok, c.what)
		if ok {
			require.Equal(t, c.want, got, c.what)
		}
	}
}

// TestPartsAreNamedByWhatIsRequired: a step that is about a part always says which.
func TestPartsAreNamedByWhatIsRequired(t *testing.T) {
	for _, s := range op.Catalogue() {
		if s.Part == "" {
			require.NotEqual(t, op.ForceTransfer, s.Name)
			continue
		}
		p, ok := s.Param(s.Part)
		require.True(t, ok, s.Name)
		require.True(t, p.Required, s.Name)
		require.Equal(t, op.TString, p.Type, s.Name)
		require.False(t, s.Creates, s.Name)
	}
}
