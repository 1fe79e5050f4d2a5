package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/question"
)

// questionOf is what was shown of a request that waits with these bytes.
func questionOf(t *testing.T, b []byte) question.Question {
	p := must.Get(op.DecodePayload(b))(t)
	return question.Question{Request: requestOf(t, b), Bytes: b, Payload: p}
}

// approvalOf is an approval with a key that nothing may be signed with, against a
// gate that answers with now.
func approvalOf(t *testing.T, now question.Question) (*approval, *strings.Builder) {
	tl := gateWith(t, now.Bytes, now.Request)
	said := &strings.Builder{}
	tl.Stdout, tl.Stderr = io.Discard, said
	cl := must.Get(tl.Client())(t)
	t.Cleanup(cl.Close)
	return &approval{asker: &asker{tool: tl}, client: cl, keys: keyFlags{role: "operational"}, signer: unused{t: t}}, said
}

// TestApproveNeverSignsWhatChanged: whatever of what was shown differs after the
// yes, nothing is signed, and the refusal is the code that scripts know.
func TestApproveNeverSignsWhatChanged(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Params = op.Params{"snapshot": "a"} })
	shown := questionOf(t, b)
	shown.Request.Facts = []op.Fact{{Name: "files", Text: "3"}, {Name: "key", Text: "a"}, {Name: "key", Text: "b"}}
	shown.Request.Labels = map[string]string{"legal-hold": "yes", "tier": "prod"}
	shown.Request.Why = "it overwrites the guest's data"
	for what, c := range map[string]struct {
		change func(*question.Question)
		says   string
	}{
		"a fact":            {func(q *question.Question) { q.Request.Facts[0].Text = "4" }, "  was files  3\n  now files  4\n"},
		"a fact more":       {func(q *question.Question) { q.Request.Facts = append(q.Request.Facts, op.Fact{Name: "new", Text: "x"}) }, "  now new  x\n"},
		"a fact less":       {func(q *question.Question) { q.Request.Facts = q.Request.Facts[:2] }, "  was key  b\n"},
		"one of two merged": {func(q *question.Question) { q.Request.Facts[2].Text = "a" }, "  was key  b\n  now key  a\n"},
		"a label": {func(q *question.Question) { q.Request.Labels = map[string]string{"tier": "prod"} },
			"  was labels of the target  legal-hold \"yes\", tier \"prod\"\n  now labels of the target  tier \"prod\"\n"},
		"why": {func(q *question.Question) { q.Request.Why = "x" }, "  was why it waits  it overwrites the guest's data\n  now why it waits  x\n"},
		"the bytes": {func(q *question.Question) {
			*q = questionOf(t, payload(t, func(p *op.Payload) { p.Params, p.Nonce = op.Params{"snapshot": "b"}, shown.Payload.Nonce }))
			q.Request.Facts, q.Request.Labels, q.Request.Why = shown.Request.Facts, shown.Request.Labels, shown.Request.Why
		}, "  was params  {\"snapshot\":\"a\"}\n  now params  {\"snapshot\":\"b\"}\n"},
	} {
		now := shown
		now.Request.Facts = append([]op.Fact{}, shown.Request.Facts...)
		c.change(&now)
		a, _ := approvalOf(t, now)
		_, err := a.sign(context.Background(), a.client, shown, op.Operational)
		require.ErrorIs(t, err, refusal.StaleTarget, what)
		require.Equal(t, api.ExitRefused, api.Exit(err), what)
		var differ *question.Changed
		require.ErrorAs(t, err, &differ, what)
		require.Equal(t, c.says, differ.What, what)
		require.Equal(t, now.Bytes, differ.Now.Bytes, what)
	}
	now := shown
	now.Request.Facts = append([]op.Fact{{Name: op.FactLimits, Text: "memory 1 MiB"}}, shown.Request.Facts...)
	a, _ := approvalOf(t, now)
	require.NoError(t, a.again(context.Background(), a.client, shown), "a loop of memory changes holds no signature up")
	a, _ = approvalOf(t, shown)
	require.NoError(t, a.again(context.Background(), a.client, shown), "the same")
}

// TestApproveNeverSignsWhatWasDecided: another operator was faster.
func TestApproveNeverSignsWhatWasDecided(t *testing.T) {
	shown := questionOf(t, payload(t, func(*op.Payload) {}))
	now := shown
	now.Request.State = op.StateRejected
	a, _ := approvalOf(t, now)
	must.Fail(a.sign(context.Background(), a.client, shown, op.Operational))(t, refusal.Rejected)
}

// asked is a question about an operation, with what the gate says of its target.
func asked(t *testing.T, name string, params op.Params, facts ...op.Fact) question.Question {
	q := questionOf(t, payload(t, func(p *op.Payload) { p.Op, p.Params = name, params }))
	q.Request.Facts = facts
	return q
}
