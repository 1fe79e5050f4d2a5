package classify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/classify"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func why(t *testing.T, in classify.Input) op.Verdict {
	t.Helper()
	return must.Get(classify.Classify(in))(t)
}

// TestEachReasonIsSaid: one change removes the protection, removes two labels and
// changes one. The reason has all of it, in a fixed order, with the values.
func TestEachReasonIsSaid(t *testing.T) {
	in := step("guest.set-config", op.Params{"protected": false, "labels": map[string]any{"tier": "dev", "new": "x"}, "memory": int64(1024)})
	in.Observed.Protected = true
	in.Observed.Labels = map[string]string{"legal-hold": "yes", "owner": "", "tier": "prod"}
	for range 20 {
		require.Equal(t, op.Verdict{Class: op.Destructive, Rule: "unprotect", Why: `it takes the protection away; it takes away the labels ` +
			`legal-hold ("yes"), owner ("") and changes the label tier ("prod" to "dev"), and a label may protect`}, why(t, in))
	}
	in.Observed.Protected = false
	in.Step.Params = op.Params{"labels": map[string]any{"legal-hold": "yes", "owner": "", "tier": "dev"}}
	require.Equal(t, `it changes the label tier ("prod" to "dev"), and a label may protect`, why(t, in).Why)
	in.Step.Params = op.Params{"labels": map[string]any{"legal-hold": "yes", "owner": "", "tier": "prod", "new": "x"}}
	require.Equal(t, "config-no-loss", why(t, in).Rule)
}

// TestReasonsOfWhatIsTaken: a benign rule ends the reasons, because the rules after
// it apply only if it does not match.
func TestReasonsOfWhatIsTaken(t *testing.T) {
	in := scratch()
	in.Observed.Dependent = []op.Target{{Kind: "guest", Name: "db"}, {Kind: "guest", Name: "web"}}
	in.Observed.Protected = true
	require.Equal(t, "guest/db, guest/web depend on it; the target is protected", why(t, in).Why, "its creator's own scratch")
	in.Provenance = nil
	require.Equal(t, "guest/db, guest/web depend on it; the target is protected; the guest and its data would be gone, "+
		"and this gate has no record of making it", why(t, in).Why)
	in.Observed.Dependent = in.Observed.Dependent[:1]
	in.Observed.Protected = false
	require.Equal(t, "guest/db depends on it; the guest and its data would be gone, and this gate has no record of making it", why(t, in).Why)
}

// TestAReasonIsBounded: the audit log and a line of a list must hold it.
func TestAReasonIsBounded(t *testing.T) {
	in := step("guest.set-config", op.Params{"labels": map[string]any{}})
	in.Observed.Labels = map[string]string{}
	for i := range 100 {
		in.Observed.Labels[fmt.Sprintf("l%02d", i)] = strings.Repeat("é", 40)
	}
	text := why(t, in).Why
	require.Contains(t, text, `l07 ("`+strings.Repeat("é", 32)+`" and 16 bytes more) and 92 more, and a label may protect`)
	require.NotContains(t, text, "l08")
	require.Less(t, len(text), 2048)
}

// TestLabelsCannotForge: a label's text cannot look like the rest of the sentence.
func TestLabelsCannotForge(t *testing.T) {
	in := step("guest.set-config", op.Params{"labels": map[string]any{}})
	in.Observed.Labels = map[string]string{"a": `x") and nothing else ("`, "b": "\u05d0 1"}
	require.Equal(t, `it takes away the labels a ("x\") and nothing else (\""), b ("\u05d0 1"), and a label may protect`, why(t, in).Why)
}

// TestARuleThatAsksIsNamed: the reason has the rule of the configuration, and what the
// built-in rules say.
func TestARuleThatAsksIsNamed(t *testing.T) {
	in := step("guest.stop", op.Params{})
	in.Observed.Labels = map[string]string{"tier": "prod"}
	in.Policy.Rules = []policy.Rule{
		{Where: "gated.yaml:9", Threshold: 2},
		{Where: "gated.yaml:12", Labels: map[string]string{"tier": "prod"}, Signed: []string{"guest.stop", "guest.restart"}, Threshold: 1}}
	require.Equal(t, op.Verdict{Class: op.Destructive, Rule: op.SignedByRule,
		Why: "asked for by rule gated.yaml:12; without it the step would run: the guest's state survives it"}, why(t, in))
	in.Policy.Rules = append(in.Policy.Rules, policy.Rule{Where: "gated.yaml:15", Signed: []string{"*"}, Threshold: 1})
	require.Contains(t, why(t, in).Why, "asked for by rule gated.yaml:12 and 1 more; ")
	in.Observed.Volatile = true
	require.Equal(t, "stop-volatile", why(t, in).Rule, "the built-in rule comes first")
	in.Observed.Volatile, in.Observed.Labels, in.Policy.Rules = false, nil, in.Policy.Rules[:2]
	require.Equal(t, op.Benign, why(t, in).Class)
	// An agent's own scratch and the gate's own compensation wait too.
	for _, own := range []classify.Input{scratch(), compensation()} {
		require.Equal(t, op.Benign, why(t, own).Class)
		own.Policy.Rules = []policy.Rule{{Where: "gated.yaml:12", Target: "guest/w*", Signed: []string{"guest.destroy"}, Threshold: 1}}
		require.Equal(t, op.SignedByRule, why(t, own).Rule)
	}
}
