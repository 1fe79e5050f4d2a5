package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// Counters of a guest that writes may move while an operator decides. Nothing else
// may, and a counter beside another change is no excuse for it.
func TestOnlyCountersMove(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	shown := questionOf(t, b)
	shown.request.Facts = []op.Fact{{Name: "files", Text: "3"}, {Name: "last write", Text: "never"},
		{Name: "disk vda", Text: "10 GiB (2.0 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:00Z"},
		{Name: "backups", Text: "5, the newest of 2026-03-01"}, {Name: "changes memory", Text: "from 1 to 2 MiB"}}
	shown.request.Labels = map[string]string{"until": "2020-01-01"}
	shown.request.Why = "it would write vda, which guest 105 has as well"
	fact := func(i int, text string) func(*question) {
		return func(q *question) { q.request.Facts[i].Text = text }
	}
	for what, c := range map[string]struct {
		change func(*question)
		moving bool
	}{
		"files":                   {fact(0, "1204"), true},
		"the first write":         {fact(1, "2026-03-01T12:00:09Z"), true},
		"what a disk holds":       {fact(2, "10 GiB (2.1 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:09Z"), true},
		"a disk's size":           {fact(2, "20 GiB (2.0 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:00Z"), false},
		"a disk's path":           {fact(2, "10 GiB (2.0 GiB allocated), qcow2, /srv/a2.qcow2, last write 2026-03-01T12:00:00Z"), false},
		"backups":                 {fact(3, "1, the newest of 2026-03-01"), false},
		"what the step changes":   {fact(4, "from 1 to 3 MiB"), false},
		"a fact less":             {func(q *question) { q.request.Facts = q.request.Facts[1:] }, false},
		"a fact more":             {func(q *question) { q.request.Facts = append(q.request.Facts, op.Fact{Name: "n", Text: "1"}) }, false},
		"a label of digits":       {func(q *question) { q.request.Labels = map[string]string{"until": "2099-01-01"} }, false},
		"a reason of digits":      {func(q *question) { q.request.Why = "it would write vda, which guest 205 has as well" }, false},
		"files beside a label":    {func(q *question) { fact(0, "4")(q); q.request.Labels = nil }, false},
		"bytes of a digit":        {other(t, func(p *op.Payload) { p.Target.Name = "ci-2" }), false},
		"bytes, and files beside": {func(q *question) { other(t, func(p *op.Payload) { p.Incarnation = "a:8" })(q); fact(0, "4")(q) }, false},
	} {
		now := shown
		now.request.Facts = append([]op.Fact{}, shown.request.Facts...)
		c.change(&now)
		require.Equal(t, c.moving, moves(shown, now), what)
		require.NotEmpty(t, differs(shown, now), what)

		// After the operator's yes to moving counters, they alone may move.
		told := shown
		told.moving = true
		require.Equal(t, c.moving, differs(told, now) == "", what)
	}
}

// other has other bytes to sign, and all else as it was.
func other(t *testing.T, change func(*op.Payload)) func(*question) {
	return func(q *question) {
		facts, labels, why := q.request.Facts, q.request.Labels, q.request.Why
		*q = questionOf(t, payload(t, func(p *op.Payload) { p.Nonce = q.payload.Nonce; change(p) }))
		q.request.Facts, q.request.Labels, q.request.Why = facts, labels, why
	}
}

// A review never keeps a mark on a request whose bytes are others by now.
func TestAReviewOfMovingCountersKeepsItsBytes(t *testing.T) {
	shown := questionOf(t, payload(t, func(p *op.Payload) { p.Target.Name = "ci-1" }))
	shown.moving = true
	now := shown
	other(t, func(p *op.Payload) { p.Target.Name = "ci-2" })(&now)
	it := &item{id: "j1.1", shown: shown, read: true, marked: true}
	r := reviewOf(t, now.bytes, it)
	require.Contains(t, must.Get(r.refresh(t.Context(), it))(t), "ci-2")
	require.False(t, it.read || it.marked)
}
