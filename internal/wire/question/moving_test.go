package question

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// Counters of a guest that writes may move while an operator decides. Nothing else
// may, and a counter beside another change is no excuse for it.
func TestOnlyCountersMove(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	shown := questionOf(t, b)
	shown.Request.Facts = []op.Fact{{Name: "files", Text: "3"}, {Name: "last write", Text: "never"},
		{Name: "disk vda", Text: "10 GiB (2.0 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:00Z"},
		{Name: "backups", Text: "5, the newest of 2026-03-01"}, {Name: "changes memory", Text: "from 1 to 2 MiB"}}
	shown.Request.Labels = map[string]string{"until": "2020-01-01"}
	shown.Request.Why = "it would write vda, which guest 105 has as well"
	fact := func(i int, text string) func(*Question) {
		return func(q *Question) { q.Request.Facts[i].Text = text }
	}
	for what, c := range map[string]struct {
		change func(*Question)
		moving bool
	}{
		"files":                 {fact(0, "1204"), true},
		"the first write":       {fact(1, "2026-03-01T12:00:09Z"), true},
		"what a disk holds":     {fact(2, "10 GiB (2.1 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:09Z"), true},
		"a disk's size":         {fact(2, "20 GiB (2.0 GiB allocated), qcow2, /srv/a1.qcow2, last write 2026-03-01T12:00:00Z"), false},
		"a disk's path":         {fact(2, "10 GiB (2.0 GiB allocated), qcow2, /srv/a2.qcow2, last write 2026-03-01T12:00:00Z"), false},
		"backups":               {fact(3, "1, the newest of 2026-03-01"), false},
		"what the step changes": {fact(4, "from 1 to 3 MiB"), false},
		"a fact less":           {func(q *Question) { q.Request.Facts = q.Request.Facts[1:] }, false},
		"a fact more":           {func(q *Question) { q.Request.Facts = append(q.Request.Facts, op.Fact{Name: "n", Text: "1"}) }, false},
		"a label of digits":     {func(q *Question) { q.Request.Labels = map[string]string{"until": "2099-01-01"} }, false},
		"a reason of digits":    {func(q *Question) { q.Request.Why = "it would write vda, which guest 205 has as well" }, false},
		"files beside a label":  {func(q *Question) { fact(0, "4")(q); q.Request.Labels = nil }, false},
		"bytes of a digit":      {other(t, func(p *op.Payload) { p.Target.Name = "ci-2" }), false},
		"bytes, and files beside": {func(q *Question) {
			other(t, func(p *op.Payload) { p.Incarnation = "a:8" })(q)
			fact(0, "4")(q)
		}, false},
	} {
		now := shown
		now.Request.Facts = append([]op.Fact{}, shown.Request.Facts...)
		c.change(&now)
		require.Equal(t, c.moving, moves(shown, now), what)
		require.NotEmpty(t, differs(shown, now), what)
		require.Equal(t, c.moving, shown.Seen() == now.Seen(), what)

		// After the operator's yes to moving counters, they alone may move.
		told := shown
		told.Moving = true
		require.Equal(t, c.moving, differs(told, now) == "", what)
	}
}

// other has other bytes to sign, and all else as it was.
func other(t *testing.T, change func(*op.Payload)) func(*Question) {
	return func(q *Question) {
		facts, labels, why := q.Request.Facts, q.Request.Labels, q.Request.Why
		*q = questionOf(t, payload(t, func(p *op.Payload) { p.Nonce = q.Payload.Nonce; change(p) }))
		q.Request.Facts, q.Request.Labels, q.Request.Why = facts, labels, why
	}
}

// TestSeenOfTimes: until when a step can be undone moves on. When a copy was made does not.
func TestSeenOfTimes(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seen := func(look time.Time, texts ...string) string {
		q := questionOf(t, payload(t, func(p *op.Payload) { p.Nonce = "AAAAAAAAAAAAAAAAAAAAAA" }))
		q.Request.FactsAt = look
		for _, text := range texts {
			q.Request.Facts = append(q.Request.Facts, op.Fact{Name: "destroy", Text: text})
		}
		return q.Seen()
	}
	until, later := "can be undone until 2026-03-02T12:00:00Z", "can be undone until 2026-03-02T12:00:07Z"
	require.Equal(t, seen(at, until), seen(at.Add(7*time.Second), later))
	require.Equal(t, seen(at, until, "x"), seen(at, "x", until), "in another order")
	require.NotEqual(t, seen(at, until), seen(at, "cannot be undone until 2026-03-02T12:00:00Z"))
	require.NotEqual(t, seen(at, "made at 2026-03-01T11:00:00Z"), seen(at, "made at 2026-03-01T11:00:01Z"))
	require.NotEqual(t, seen(at, until), seen(at, until, until))
	require.NotEqual(t, seen(at, "a\nb"), seen(at, "a", "b"))
}
