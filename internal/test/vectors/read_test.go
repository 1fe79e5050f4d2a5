package vectors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// vector is a case that the product can read.
type vector interface {
	Vector
	// read gives the input to the product, and returns what it reads.
	read(t *testing.T) (any, error)
}

// kinds has a reader for each kind of case.
var kinds = map[string]func() vector{
	"payload":         func() vector { return new(payloadCase) },
	"envelope":        func() vector { return new(envelopeCase) },
	"decision":        func() vector { return new(decisionCase) },
	"allowed_signers": func() vector { return new(listCase) },
	"revoked":         func() vector { return new(revokedCase) },
	"merkle":          func() vector { return new(merkleCase) },
	"head":            func() vector { return new(headCase) },
	"evidence":        func() vector { return new(evidenceCase) },
}

// TestEveryVector has the product read each case of each file, and demands the expected outcome.
func TestEveryVector(t *testing.T) {
	files := Names(t)
	require.NotEmpty(t, files)
	for _, n := range files {
		f := Read(t, n)
		require.Contains(t, kinds, f.Kind, "%s: no test reads this kind", n)
		require.NotEmpty(t, f.Cases, n)
		var seen []string
		for _, raw := range f.Cases {
			v := kinds[f.Kind]()
			require.NoError(t, json.Unmarshal(raw, v, json.RejectUnknownMembers(true)), "%s: %s", n, raw)
			require.NotContains(t, seen, v.Named(), n)
			seen = append(seen, v.Named())
			t.Run(n+"/"+v.Named(), func(t *testing.T) { require.Empty(t, differs(t, v)) })
		}
		require.Len(t, seen, len(f.Cases))
	}
}

// differs says how what the product reads differs from what a case expects; empty if it does not.
func differs(t *testing.T, v vector) string {
	t.Helper()
	got, err := v.read(t)
	want := v.Expected()
	if (want.Accepted == nil) == (want.Refused == nil) {
		return "a case is accepted or refused"
	}
	if want.Refused != nil {
		return differsFrom(*want.Refused, err)
	}
	if err != nil {
		return fmt.Sprintf("it is refused: %v", err)
	}
	have, wanted := marshal(t, got), slices.Clone(want.Accepted)
	require.NoError(t, have.Canonicalize())
	require.NoError(t, wanted.Canonicalize())
	if string(have) != string(wanted) {
		return fmt.Sprintf("it is read as %s", have)
	}
	return ""
}

func differsFrom(want Refused, err error) string {
	if err == nil {
		return "it is accepted"
	}
	r := refusal.As(err)
	var line int
	if _, err := fmt.Sscanf(r.Detail, "line %d: ", &line); err != nil {
		line = 0
	}
	if r.Code != want.Code || r.Stage != want.Stage || line != want.Line {
		return fmt.Sprintf("it is refused with %s at %q, line %d: %s", r.Code, r.Stage, line, r.Detail)
	}
	return ""
}

// TestFlippedOutcomes: a case that expects the opposite is found.
func TestFlippedOutcomes(t *testing.T) {
	for _, n := range Names(t) {
		f := flipped(t, n)
		for _, raw := range f.Cases {
			v := kinds[f.Kind]()
			require.NoError(t, json.Unmarshal(raw, v), n)
			require.NotEmpty(t, differs(t, v), "%s: %s", n, v.Named())
		}
	}
}

// flipped is the first case of a file that is accepted and the first that is refused, each with the opposite outcome.
func flipped(t testing.TB, n string) File {
	t.Helper()
	f := Read(t, n)
	refused := func(raw jsontext.Value) bool { return strings.Contains(string(raw), `"refused":`) }
	yes, no := slices.IndexFunc(f.Cases, func(raw jsontext.Value) bool { return !refused(raw) }), slices.IndexFunc(f.Cases, refused)
	require.GreaterOrEqual(t, yes, 0, "%s has no case that is accepted", n)
	require.GreaterOrEqual(t, no, 0, "%s has no case that is refused", n)
	f.Cases = []jsontext.Value{flip(t, f.Cases[yes]), flip(t, f.Cases[no])}
	return f
}

// flip turns what a case expects into the opposite.
func flip(t testing.TB, raw jsontext.Value) jsontext.Value {
	t.Helper()
	var m map[string]jsontext.Value
	require.NoError(t, json.Unmarshal(raw, &m))
	if _, ok := m["accepted"]; ok {
		delete(m, "accepted")
		m["refused"] = marshal(t, Refused{Code: refusal.Malformed, Stage: refusal.StageDecode, Why: "it is flipped"})
	} else {
		delete(m, "refused")
		m["accepted"] = jsontext.Value("{}")
	}
	return marshal(t, m)
}
