package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// What may run and does not says why; what ended, or waits for people, has words
// of its own.
func TestWhyHeld(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	held := Held(func(op.Step) (string, time.Time) { return "the pool is not active", at })
	for _, state := range op.States {
		s := op.Step{State: state, Detail: "as it was"}
		held.fill(&s)
		if state == op.StatePlanned || state == op.StateAuthorized {
			require.Equal(t, op.Step{State: state, Code: refusal.Unavailable, Detail: "the pool is not active", RetryAt: at}, s)
		} else {
			require.Equal(t, op.Step{State: state, Detail: "as it was"}, s)
		}
	}
}
