package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// TestWhatCameAboutHereIsSaid: no daemon's log has an error of the program itself, so its text is the answer.
func TestWhatCameAboutHereIsSaid(t *testing.T) {
	require.Equal(t, "the disk is full", ProblemOf(errors.New("the disk is full")).Detail)
	require.Equal(t, refusal.Internal, ProblemOf(errors.New("x")).Code)
	r := refusal.New(refusal.Internal, "an internal error; the daemon's log has it")
	require.Equal(t, r.Detail, ProblemOf(fmt.Errorf("ask: %w", r)).Detail)
}
