package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/question"
)

// What would be lost is part of what was read: if it is more now, it is shown
// again, and nothing is signed meanwhile.
func TestReviewShowsChangedFactsAgain(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	before := requestOf(t, b)
	before.Facts = []op.Fact{{Name: "files", Text: "0"}}
	p := must.Get(op.DecodePayload(b))(t)
	shown := question.Question{Request: before, Bytes: b, Payload: p}
	it := &item{id: "j1.1", shown: shown, read: true, marked: true}
	r := reviewOf(t, b, it)
	require.NoError(t, r.approve(context.Background(), it))
	require.Equal(t, fmt.Sprintf(wordsChanged, "j1.1")+"  was files  0\n", r.message)
	require.False(t, it.read || it.marked)

	it.shown, it.read, it.marked, r.message = shown, true, true, ""
	require.NoError(t, r.signAll(context.Background(), []*item{it}))
	require.Contains(t, it.outcome, "stale_target: j1.1 changed after it was shown")
}
