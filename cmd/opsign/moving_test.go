package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/question"
)

// other has other bytes to sign, and all else as it was.
func other(t *testing.T, change func(*op.Payload)) func(*question.Question) {
	return func(q *question.Question) {
		facts, labels, why := q.Request.Facts, q.Request.Labels, q.Request.Why
		*q = questionOf(t, payload(t, func(p *op.Payload) { p.Nonce = q.Payload.Nonce; change(p) }))
		q.Request.Facts, q.Request.Labels, q.Request.Why = facts, labels, why
	}
}

// A review never keeps a mark on a request whose bytes are others by now.
func TestAReviewOfMovingCountersKeepsItsBytes(t *testing.T) {
	shown := questionOf(t, payload(t, func(p *op.Payload) { p.Target.Name = "ci-1" }))
	shown.Moving = true
	now := shown
	other(t, func(p *op.Payload) { p.Target.Name = "ci-2" })(&now)
	it := &item{id: "j1.1", shown: shown, read: true, marked: true}
	r := reviewOf(t, now.Bytes, it)
	require.Contains(t, must.Get(r.refresh(t.Context(), it))(t), "ci-2")
	require.False(t, it.read || it.marked)
}
