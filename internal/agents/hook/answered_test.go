package hook

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A hook's process that was stopped, or had no processor, finds the answer and the end of its time together.
func TestAnAnswerThatCameCounts(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 { // select takes either of two that are ready
		done := make(chan result[int], 1)
		done <- result[int]{value: 7}
		require.Equal(t, 7, must.Get(answered(over, time.Second, done))(t))
	}
	_, err := answered(over, time.Second, make(chan result[int]))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "no answer within 1s")
}
