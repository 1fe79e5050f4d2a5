package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func until(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestTogetherEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stopping := false
	err := together(ctx, []part{{"a", until}, {"b", func(ctx context.Context) error { <-ctx.Done(); return nil }}}, cancel,
		func() { stopping = true })
	require.NoError(t, err)
	require.True(t, stopping)
}

func TestAPartThatFailsEndsTheOthers(t *testing.T) {
	broken := errors.New("the listener broke")
	other := false
	err := together(t.Context(), []part{
		{"the server", func(context.Context) error { return broken }},
		{"b", func(ctx context.Context) error { defer func() { other = true }(); return until(ctx) }},
	}, func() {}, func() {})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "the server")
	require.True(t, other, "it was waited for")
}

func TestAPartThatJustEndsIsAFailure(t *testing.T) {
	err := together(t.Context(), []part{{"reconcile", func(context.Context) error { return nil }}, {"b", until}}, func() {}, func() {})
	require.ErrorContains(t, err, "reconcile ended by itself")
}

func TestAFailureWhileItStopsIsTold(t *testing.T) {
	broken := errors.New("the disk is full")
	ctx, cancel := context.WithCancel(t.Context())
	err := together(ctx, []part{{"a", func(ctx context.Context) error { <-ctx.Done(); return broken }}}, cancel, func() {})
	require.ErrorIs(t, err, broken)
}
