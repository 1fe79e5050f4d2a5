package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

// fakeSteps is a gate with steps on some targets, which counts how often it is
// asked.
type fakeSteps struct {
	on    map[op.Target]bool
	asked int
	fails error
	first []op.Target
}

func (f *fakeSteps) Open(_ context.Context, t op.Target) ([]op.Step, error) {
	f.asked++
	if f.on[t] {
		return []op.Step{{Target: t}}, f.fails
	}
	return nil, f.fails
}

func (f *fakeSteps) OpenTargets(context.Context) ([]op.Target, error) { return f.first, nil }

func (w *scopeWatch) due() bool {
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
	gate := &fakeSteps{on: map[op.Target]bool{}, first: []op.Target{s2, guest}}
	var woken []op.Target
	w, err := watchScopes(t.Context(), gate, func(t op.Target) { woken = append(woken, t) }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for range 1000 {
		w.moved(s1)
	}
	require.False(t, w.due())
	require.Zero(t, gate.asked)

	gate.on[s1] = true
	w.asked(s1)
	w.asked(guest)
	for range 1000 {
		w.moved(s1)
	}
	require.True(t, w.due())
	w.round(t.Context())
	require.Equal(t, []op.Target{s1}, woken)
	require.Equal(t, 1, gate.asked)
	w.round(t.Context())
	require.Equal(t, 1, gate.asked, "nothing changed since")

	// One that was open at the start, and is not any more.
	w.moved(s2)
	require.True(t, w.due())
	w.round(t.Context())
	require.Equal(t, 2, gate.asked)
	w.moved(s2)
	require.False(t, w.due())

	// What cannot be told is looked at, and one that was asked for meanwhile is
	// not forgotten.
	gate.on[s1], gate.fails = false, errors.New("no")
	w.moved(s1)
	w.round(t.Context())
	require.Equal(t, []op.Target{s1, s1}, woken)
	told := w.open[s1]
	w.asked(s1)
	w.forget(s1, told)
	require.NotZero(t, w.open[s1])
}
