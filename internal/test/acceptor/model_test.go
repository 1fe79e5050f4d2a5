package acceptor

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// modelOf reads the moves of model/gated.pml: FROM_kind(s) ((s) == state || …), and TO_kind state.
func modelOf(t *testing.T) map[string]move {
	text := string(must.Get(os.ReadFile(filepath.Join("..", "..", "..", "model", "gated.pml")))(t))
	out := map[string]move{}
	for _, m := range regexp.MustCompile(`(?m)^#define FROM_(\w+)\(s\)\s+\((.*)\)$`).FindAllStringSubmatch(text, -1) {
		var from []op.State
		for part := range strings.SplitSeq(m[2], " || ") {
			name, ok := strings.CutPrefix(part, "(s) == ")
			require.True(t, ok, part)
			if name == "unknown" {
				name = string(absent)
			}
			from = append(from, op.State(name))
		}
		out[m[1]] = move{from: from}
	}
	for _, m := range regexp.MustCompile(`(?m)^#define TO_(\w+)\s+(\w+)$`).FindAllStringSubmatch(text, -1) {
		was, ok := out[m[1]]
		require.True(t, ok, "TO_%s has no FROM_%s", m[1], m[1])
		was.to = op.State(m[2])
		out[m[1]] = was
	}
	return out
}

// TestTheModelHasTheSameMoves: the model, this package and the gate's own table have the same moves.
func TestTheModelHasTheSameMoves(t *testing.T) {
	require.Equal(t, moves, modelOf(t))
	gates := map[string]move{}
	for _, x := range op.Transitions {
		gates[x.Entry] = move{from: x.From, to: x.To}
	}
	require.Equal(t, gates, moves)
}

// TestTheModelMakesEachMove: no kind of entry is in the model's table alone.
func TestTheModelMakesEachMove(t *testing.T) {
	text := string(must.Get(os.ReadFile(filepath.Join("..", "..", "..", "model", "gated.pml")))(t))
	for _, kind := range slices.Sorted(maps.Keys(moves)) {
		made := regexp.MustCompile(`(MOVE|CLOSE)\([^()]*(\([^()]*\))?[^()]*, ` + kind + `\)`)
		require.Regexp(t, made, text, kind)
	}
}

// TestTheModelCitesWhatExists: each file of the gate that the model names is there, and has the functions that it names.
func TestTheModelCitesWhatExists(t *testing.T) {
	text := string(must.Get(os.ReadFile(filepath.Join("..", "..", "..", "model", "gated.pml")))(t))
	cited := regexp.MustCompile(`(internal/[\w/]+\.go)((?: \w+,)* \w+)?`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, cited)
	functions := 0
	for _, m := range cited {
		code := string(must.Get(os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(m[1]))))(t))
		for _, name := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ' ' || r == ',' }) {
			if strings.Contains(code, ") "+name+"(") || strings.Contains(code, "func "+name+"(") {
				functions++
			}
		}
	}
	require.Greater(t, functions, 25)
}
