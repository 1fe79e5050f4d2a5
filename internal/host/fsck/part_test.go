package fsck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/log/journal"
)

// TestAScopeKnowsItsLastStepAfterThatWasArchived: the scope names the step for ever.
func TestAScopeKnowsItsLastStepAfterThatWasArchived(t *testing.T) {
	h := newHistory()
	ran, waits, later := op.StepID{Job: 3, Index: 1}, op.StepID{Job: 4, Index: 1}, op.StepID{Job: 9, Index: 1}
	h.steps[ran], h.steps[waits], h.steps[later] = life{ran: true}, life{}, life{ran: true}
	h.scopes[ran], h.scopes[waits], h.scopes[later] = "scope/s1", "scope/s2", "scope/s3"
	part := h.part([]journal.Range{{First: 1, Last: 5}})
	require.Len(t, part.steps, 2)
	require.Len(t, h.steps, 1)
	require.Equal(t, map[op.StepID]string{ran: "scope/s1"}, h.ranOn)
	require.Equal(t, map[op.StepID]string{later: "scope/s3"}, h.scopes)
}
