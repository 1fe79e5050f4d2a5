package glob

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// oneByOne returns what follows a set of states, state by state.
func oneByOne(a *automaton, states []uint64) []uint64 {
	out := make([]uint64, a.words)
	for q, next := range a.follow {
		if isIn(states, int32(q)) {
			mark(out, next)
		}
	}
	return out
}

// requireFollowed asserts that what follows a set of states, once and any number
// of times, is what it is state by state.
func requireFollowed(t require.TestingT, a *automaton, given, reads []uint64) {
	spread := slices.Repeat([]uint64{^uint64(0)}, a.words) // is overwritten
	a.spread(spread, given)
	require.Equal(t, oneByOne(a, given), spread)

	want, got := slices.Clone(given), slices.Clone(given)
	for changed := true; changed; {
		changed = false
		for i, x := range oneByOne(a, want) {
			changed = changed || x&reads[i]&^want[i] != 0
			want[i] |= x & reads[i]
		}
	}
	a.flood(got, reads)
	require.Equal(t, want, got)
}

func TestSetsOfStates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := parsed(t, Options{}, "pattern").strict
		given := make([]uint64, a.words)
		mark(given, rapid.SliceOf(rapid.Int32Range(0, int32(len(a.label)-1))).Draw(t, "states"))
		reads := slices.Repeat([]uint64{^uint64(0)}, a.words)
		for _, q := range rapid.SliceOf(rapid.IntRange(0, len(a.label)-1)).Draw(t, "not read") {
			reads[q>>6] &^= 1 << (q & 63)
		}
		requireFollowed(t, a, given, reads)
	})
}

// The loop of a "**" and a run of literals lie on both sides of a word's end.
func TestSetsOfStatesAcrossWords(t *testing.T) {
	t.Parallel()
	for n := 54; n < 66; n++ {
		a := mustParse(t, strings.Repeat("a", n)+"/**/b"+strings.Repeat("a", 66)).strict
		for q := range a.label {
			given := make([]uint64, a.words)
			mark(given, []int32{int32(q)})
			requireFollowed(t, a, given, slices.Repeat([]uint64{^uint64(0)}, a.words))
		}
	}
}
