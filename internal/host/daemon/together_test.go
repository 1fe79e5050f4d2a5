package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// patient is a deadline to which only a part that hangs comes.
const patient = time.Hour

func until(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestTogetherEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stopping := false
	err := together(ctx, patient, []part{{"a", until}, {"b", func(ctx context.Context) error { <-ctx.Done(); return nil }}}, cancel,
		func() { stopping = true })
	require.NoError(t, err)
	require.True(t, stopping)
}

func TestAPartThatFailsEndsTheOthers(t *testing.T) {
	broken := errors.New("the listener broke")
	other := false
	err := together(t.Context(), patient, []part{
		{"the server", func(context.Context) error { return broken }},
		{"b", func(ctx context.Context) error { defer func() { other = true }(); return until(ctx) }},
	}, func() {}, func() {})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "the server")
	require.True(t, other, "it was waited for")
}

func TestAPartThatJustEndsIsAFailure(t *testing.T) {
	err := together(t.Context(), patient, []part{{"reconcile", func(context.Context) error { return nil }}, {"b", until}}, func() {}, func() {})
	require.ErrorContains(t, err, "reconcile ended by itself")
}

func TestAFailureWhileItStopsIsTold(t *testing.T) {
	broken := errors.New("the disk is full")
	ctx, cancel := context.WithCancel(t.Context())
	err := together(ctx, patient, []part{{"a", func(ctx context.Context) error { <-ctx.Done(); return broken }}}, cancel, func() {})
	require.ErrorIs(t, err, broken)
}

// A part that hangs is left behind, by name. The clock is the bubble's: it moves when the other part has ended.
func TestAPartThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hangs := make(chan struct{})
		defer close(hangs)
		err := together(ctx, patient, []part{{"a", until}, {"the sweep", func(context.Context) error { <-hangs; return nil }}}, cancel,
			func() {})
		require.ErrorContains(t, err, "the sweep did not end within 1h0m0s")
		require.NotContains(t, err.Error(), "a did not")
	})
}

// What is done by interval goes on after a panic.
func TestAPanicCostsOneTimeOnly(t *testing.T) {
	var log bytes.Buffer
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	times := 0
	soon := make(chan struct{}, 1)
	d.every(ctx, time.Hour, soon, "tick", func(context.Context) error {
		if times++; times == 2 {
			cancel()
			return nil
		}
		soon <- struct{}{}
		panic("boom")
	})
	require.Equal(t, 2, times)
	require.Contains(t, log.String(), "boom")
	require.Contains(t, log.String(), "together_test.go", "the stack")
}
