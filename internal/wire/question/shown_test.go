package question

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// The parts of a request say what its text says, and none of them can play with what shows it.
func TestShownHasThePartsOfTheText(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Op, p.Params = "guest.restore", op.Params{"snapshot": "before"} })
	q := questionOf(t, b)
	q.Request.Why, q.Request.Detail, q.Request.RequestedBy = "x\u202ey", "a\x1b[1m", []string{"uid:1000"}
	q.Request.Labels = map[string]string{"tier": "prod"}
	q.Request.CreatedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	q.Request.Facts = []op.Fact{{Name: "files", Text: "3"}, {Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"}}
	q.Request.Demands = []api.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1, Could: []string{"b\u202e"}}}
	v := View{Now: q.Request.CreatedAt.Add(time.Minute), Dash: " - "}
	s := q.Shown(v)
	require.Equal(t, "RESTORE A SNAPSHOT ONTO guest/web-1 on pve1 - CANNOT BE UNDONE", s.Headline)
	require.Equal(t, []string{"RESTORE A SNAPSHOT ONTO", "guest/web-1", "pve1", CannotUndo}, []string{s.Verb, s.Target, s.Host, s.End})
	require.True(t, s.Irreversible)
	require.Equal(t, `{"snapshot":"before"}`, s.Params)
	require.Equal(t, "what would be lost, as the gate saw it", s.LostTitle)
	require.Equal(t, []op.Fact{{Name: "files", Text: "3"}}, s.Lost)
	require.Len(t, s.Others, 1)
	require.Equal(t, "2026-01-02 03:04:05Z (1m)", s.Since)
	require.Equal(t, []Said{{By: "the requester"}}, s.Reasons)
	text := q.Text(v)
	for _, part := range append(s.Needed, s.Why, s.Detail, s.Labels, s.AskedBy, s.Left) {
		require.True(t, op.Shows(part), part)
		require.Contains(t, text, part)
	}
	q.Request.State = op.StateSucceeded
	require.Equal(t, "succeeded", q.Shown(v).End)
	require.False(t, q.Shown(v).Irreversible, "it is done")
}

// Whose words are whose stays clear, and what is signed is among them.
func TestSaid(t *testing.T) {
	alice, bob := api.Reason{By: "alice", Text: "a"}, api.Reason{By: "bob", Text: "b"}
	require.Equal(t, []Said{{By: "the requester", Text: "x"}}, said("x", api.Request{}))
	require.Equal(t, []Said{{By: "alice", Text: "a"}, {By: "bob", Text: "b"}}, said("a", api.Request{Reasons: []api.Reason{alice, bob}}))
	named := api.Request{Reasons: []api.Reason{{By: "uid:1000", Text: "a"}, bob}, Users: api.Users{"uid:1000": "alice"}}
	require.Equal(t, []Said{{By: "uid:1000 (alice)", Text: "a"}, {By: "bob", Text: "b"}}, said("a", named))
	require.Equal(t, []Said{{Text: "gone"}, {By: "bob", Text: "b"}}, said("gone", api.Request{Reasons: []api.Reason{bob}}))
}

// A list has no bytes, and its line is that of the request's own page.
func TestListed(t *testing.T) {
	q := questionOf(t, payload(t, func(*op.Payload) {}))
	l := must.Get(Listed(q.Request))(t)
	require.Equal(t, q.Headline(" - "), l.Headline(" - "))
	require.Nil(t, l.Bytes)
	q.Request.Target = "guest/*"
	must.Fail(Listed(q.Request))(t, refusal.Malformed)
}
