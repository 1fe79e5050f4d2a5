package service

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// fakeSteps is a gate with steps on some targets, which counts how often it is
// asked.
type fakeSteps struct {
	on     map[op.Target]bool
	asked  int
	fails  error
	during func() // while it is asked
}

func (f *fakeSteps) OpenTargets(context.Context) (list []op.Target, err error) {
	f.asked++
	for t := range f.on {
		if f.on[t] {
			list = append(list, t)
		}
	}
	if f.during != nil {
		f.during()
	}
	return list, f.fails
}

func (w *ScopeWatch) due() bool {
	select {
	case <-w.soon:
		return true
	default:
		return false
	}
}

// TestAFloodOfReservationsCostsNothing where nobody asks for anything of the
// scope.
func TestAFloodOfReservationsCostsNothing(t *testing.T) {
	s1, s2, guest := op.Target{Kind: op.KindScope, Name: "s1"}, op.Target{Kind: op.KindScope, Name: "s2"}, op.Target{Kind: "guest", Name: "s1"}
	gate := &fakeSteps{on: map[op.Target]bool{s2: true, guest: true}}
	var woken []op.Target
	w, err := WatchScopes(t.Context(), gate, func(t op.Target) { woken = append(woken, t) }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for range 1000 {
		w.Moved(s1)
	}
	require.False(t, w.due())
	require.Equal(t, 1, gate.asked, "at the start")

	gate.on[s1] = true
	w.Asked(s1)
	w.Asked(guest)
	for range 1000 {
		w.Moved(s1)
	}
	require.True(t, w.due())
	w.round(t.Context())
	require.Equal(t, []op.Target{s1}, woken)
	require.Equal(t, 2, gate.asked)
	require.False(t, w.due(), "nothing changed since")

	// One that was open at the start, and is not any more.
	gate.on[s2] = false
	w.Moved(s2)
	require.True(t, w.due())
	w.round(t.Context())
	require.Equal(t, 3, gate.asked)
	w.Moved(s2)
	require.False(t, w.due())

	// What cannot be told is looked at, and one that was asked for meanwhile is
	// not forgotten.
	gate.on[s1], gate.fails = false, errors.New("no")
	w.Moved(s1)
	w.round(t.Context())
	require.Equal(t, []op.Target{s1, s1}, woken)
	gate.fails, gate.during = nil, func() { w.Asked(s1) }
	w.Moved(s1)
	w.round(t.Context())
	require.Equal(t, []op.Target{s1, s1}, woken)
	require.NotZero(t, w.open[s1])
	gate.during = nil
	w.round(t.Context())
	require.Empty(t, w.open)
}

// TestAFloodInManyScopes: however many change and however often, the gate is
// asked once a round and each is woken once; and what ended is forgotten although
// nobody reserves anything there any more.
func TestAFloodInManyScopes(t *testing.T) {
	const many = 10_000
	scopeAt := func(i int) op.Target { return op.Target{Kind: op.KindScope, Name: "s" + strconv.Itoa(i)} }
	gate := &fakeSteps{on: map[op.Target]bool{}}
	woken := map[op.Target]int{}
	w := must.Get(WatchScopes(t.Context(), gate, func(t op.Target) { woken[t]++ }, slog.New(slog.DiscardHandler)))(t)
	for i := range many {
		gate.on[scopeAt(i)] = i%2 == 0
		w.Asked(scopeAt(i))
	}
	for range 3 {
		for i := range many {
			w.Moved(scopeAt(i))
		}
	}
	gate.asked = 0
	w.round(t.Context())
	require.Equal(t, 1, gate.asked)
	require.Len(t, woken, many/2)
	require.Equal(t, 1, woken[scopeAt(0)])
	require.Len(t, w.open, many/2)
	require.Empty(t, w.changed)

	clear(gate.on)
	for w.due() { // what was said before counts no more
	}
	for i := range many {
		w.Asked(scopeAt(many + i))
		if w.due() {
			w.round(t.Context())
		}
	}
	require.Less(t, len(w.open), many, "each was asked for once, and nothing moved")
}
