package canary

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// FuzzState: a state in the database is either refused, or continues with the log
// and is written again. No state can prevent the gate's decisions.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{}`), "planned", "refused", "j1.1")
	f.Add([]byte(`{"cursor":5,"started":true,"recent":[{"by":"uid:1","sort":"planned"}],"steps":{"j1.1":{"by":"uid:1","at":"2026-03-01T12:00:00Z"}}}`), "approved", "started", "j1.1")
	f.Add([]byte(`{"steps":null,"watch":{"changed":["policy"],"base":null,"before":-5}}`), "requested", "rotated", "j1.1")
	f.Add([]byte(`{"watch":{"at":"2026-03-01T00:00:00Z","until":"2026-03-01T13:00:00Z","base":[{"by":"","sort":"planned"}],"before":1},"paused":"2026-03-01T12:00:00Z"}`), "trusted", "planned", "")
	fuzzRules := Rules{Decisions: 100, Days: 14, Minimum: 20, Floor: 15}
	back := func(Identity, Identity) string { return "go back" }
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte, first, second, step string) {
		s := &State{}
		if json.Unmarshal(text, s) != nil || !utf8.ValidString(step) {
			return // an entry of the log is valid text
		}
		for i, kind := range []string{first, second, first} {
			s.Take(fuzzRules, back, audit.Entry{Seq: s.Cursor + 1, Time: noon.Add(time.Duration(i) * time.Hour), Kind: audit.Kind(kind), By: "uid:1",
				Step: step, Detail: strings.Repeat("a", 64)})
		}
		s.Pass(fuzzRules, back, noon.AddDate(0, 2, 0))
		s.Overdue(noon)
		again := must.Get(json.Marshal(s, json.Deterministic(true)))(t)
		require.NoError(t, json.Unmarshal(again, &State{}), "%s", again)
	})
}
