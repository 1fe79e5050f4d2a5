package vectors

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// Write says that tests add the cases that the files lack.
var Write = flag.Bool("write", false, "add the cases that the files of testdata/vectors lack")

// dir has the files, one for each subject. It is as far from each package that uses it.
var dir = filepath.Join("..", "..", "..", "testdata", "vectors")

// File is one file. All of its cases are of one kind, which says how they are read.
type File struct {
	Kind  string           `json:"kind"`
	About string           `json:"about"`
	Cases []jsontext.Value `json:"cases"`
}

// Vector is a case of one kind: an input, and what becomes of it.
type Vector interface {
	Named() string
	Expected() Outcome
}

// Outcome is one of the two.
type Outcome struct {
	Accepted jsontext.Value `json:"accepted,omitzero"` // what a reader has to get
	Refused  *Refused       `json:"refused,omitzero"`
}

// Expected returns the outcome.
func (o Outcome) Expected() Outcome { return o }

// Refused is a refusal. A reader has to give the same code, stage and line.
type Refused struct {
	Code  refusal.Code  `json:"code,omitzero"`
	Stage refusal.Stage `json:"stage,omitzero"`
	Line  int           `json:"line,omitzero"` // of a list, from 1
	Why   string        `json:"why"`           // for people
}

// Name is what cases are called; no two of a file have the same.
type Name string

// Named returns the name.
func (n Name) Named() string { return string(n) }

// EvidenceCase is one that package evidence makes: a line of evidence, and what its reader has.
type EvidenceCase struct {
	Name     `json:"name"`
	GateKey  string `json:"gate_key,omitzero"`
	Witness  string `json:"witness,omitzero"` // the reader's own heads
	Evidence string `json:"evidence"`
	Outcome
}

// Accepted is the outcome of a case from which a reader gets v.
func Accepted(t testing.TB, v any) Outcome {
	t.Helper()
	return Outcome{Accepted: must.Get(json.Marshal(v, json.Deterministic(true)))(t)}
}

// Refuses is the outcome of a case that a reader refuses.
func Refuses(stage refusal.Stage, code refusal.Code, why string) Outcome {
	return Outcome{Refused: &Refused{Code: code, Stage: stage, Why: why}}
}

// Names returns the names of all files, without their ends.
func Names(t testing.TB) []string {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join(dir, "*.json")))(t)
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".json")
	}
	return paths
}

// Read reads a file. It ends the test if the file has another form.
func Read(t testing.TB, name string) (f File) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dir, name+".json")))(t)
	require.NoError(t, json.Unmarshal(text, &f, json.RejectUnknownMembers(true)), name)
	return f
}

// Add appends the cases that a file lacks. It keeps the others as they are.
func Add(t testing.TB, name string, made File, cases []Vector) {
	t.Helper()
	path := filepath.Join(dir, name+".json")
	if _, err := os.Stat(path); err == nil {
		made.Cases = Read(t, name).Cases
	}
	var have []string
	for _, raw := range made.Cases {
		have = append(have, CaseName(t, raw))
	}
	for _, c := range cases {
		if !slices.Contains(have, c.Named()) {
			made.Cases = append(made.Cases, marshal(t, c))
		}
	}
	text := must.Get(json.Marshal(made, jsontext.WithIndent(" ")))(t)
	require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
}

func marshal(t testing.TB, v any) jsontext.Value {
	t.Helper()
	return must.Get(json.Marshal(v, json.Deterministic(true)))(t)
}

func CaseName(t testing.TB, raw jsontext.Value) string {
	t.Helper()
	var c struct {
		Name string `json:"name"`
	}
	require.NoError(t, json.Unmarshal(raw, &c))
	require.NotEmpty(t, c.Name)
	return c.Name
}
