package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// questionOf is what was shown of a request that waits with these bytes.
func questionOf(t *testing.T, b []byte) question {
	p := must.Get(op.DecodePayload(b))(t)
	return question{request: requestOf(t, b), bytes: b, payload: p}
}

// approvalOf is an approval with a key that nothing may be signed with, against a
// gate that answers with now.
func approvalOf(t *testing.T, now question) (*approval, *strings.Builder) {
	tl := gateWith(t, now.bytes, now.request)
	said := &strings.Builder{}
	tl.Stdout, tl.Stderr = io.Discard, said
	cl := must.Get(tl.Client())(t)
	t.Cleanup(cl.Close)
	return &approval{asker: &asker{tool: tl, keys: ringOf(tl, unused{t: t})}, client: cl}, said
}

// TestApproveNeverSignsWhatChanged: whatever of what was shown differs after the
// yes, nothing is signed, and the refusal is the code that scripts know.
func TestApproveNeverSignsWhatChanged(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Params = op.Params{"snapshot": "a"} })
	shown := questionOf(t, b)
	shown.request.Facts = []op.Fact{{Name: "files", Text: "3"}, {Name: "key", Text: "a"}, {Name: "key", Text: "b"}}
	shown.request.Labels = map[string]string{"legal-hold": "yes", "tier": "prod"}
	shown.request.Why = "it overwrites the guest's data"
	for what, c := range map[string]struct {
		change func(*question)
		says   string
	}{
		"a fact":            {func(q *question) { q.request.Facts[0].Text = "4" }, "  was files  3\n  now files  4\n"},
		"a fact more":       {func(q *question) { q.request.Facts = append(q.request.Facts, op.Fact{Name: "new", Text: "x"}) }, "  now new  x\n"},
		"a fact less":       {func(q *question) { q.request.Facts = q.request.Facts[:2] }, "  was key  b\n"},
		"one of two merged": {func(q *question) { q.request.Facts[2].Text = "a" }, "  was key  b\n  now key  a\n"},
		"a label": {func(q *question) { q.request.Labels = map[string]string{"tier": "prod"} },
			"  was labels of the target  legal-hold \"yes\", tier \"prod\"\n  now labels of the target  tier \"prod\"\n"},
		"why": {func(q *question) { q.request.Why = "x" }, "  was why it waits  it overwrites the guest's data\n  now why it waits  x\n"},
		"the bytes": {func(q *question) {
			*q = questionOf(t, payload(t, func(p *op.Payload) { p.Params, p.Nonce = op.Params{"snapshot": "b"}, shown.payload.Nonce }))
			q.request.Facts, q.request.Labels, q.request.Why = shown.request.Facts, shown.request.Labels, shown.request.Why
		}, "  was params  {\"snapshot\":\"a\"}\n  now params  {\"snapshot\":\"b\"}\n"},
	} {
		now := shown
		now.request.Facts = append([]op.Fact{}, shown.request.Facts...)
		c.change(&now)
		a, _ := approvalOf(t, now)
		_, err := a.sign(context.Background(), shown, op.Operational)
		require.ErrorIs(t, err, refusal.StaleTarget, what)
		require.Equal(t, api.ExitRefused, api.Exit(err), what)
		var differ *changed
		require.ErrorAs(t, err, &differ, what)
		require.Equal(t, c.says, differ.what, what)
		require.Equal(t, now.bytes, differ.now.bytes, what)
	}
	now := shown
	now.request.Facts = append([]op.Fact{{Name: op.FactLimits, Text: "memory 1 MiB"}}, shown.request.Facts...)
	a, _ := approvalOf(t, now)
	require.NoError(t, a.again(context.Background(), a.client, shown), "a loop of memory changes holds no signature up")
	a, _ = approvalOf(t, shown)
	require.NoError(t, a.again(context.Background(), a.client, shown), "the same")
}

// TestApproveNeverSignsWhatWasDecided: another operator was faster.
func TestApproveNeverSignsWhatWasDecided(t *testing.T) {
	shown := questionOf(t, payload(t, func(*op.Payload) {}))
	now := shown
	now.request.State = op.StateRejected
	a, _ := approvalOf(t, now)
	must.Fail(a.sign(context.Background(), shown, op.Operational))(t, refusal.Rejected)
}

// What differs is made safe to show, and one line of it cannot pass for another.
func TestWhatDiffersIsSafe(t *testing.T) {
	was, now := question{}, question{}
	was.request.Facts = []op.Fact{{Name: "probe says", Text: "a\n  now files  9"}}
	now.request.Facts = []op.Fact{{Name: "probe says", Text: "\u05d0"}}
	require.Equal(t, "  was probe says:\n    > a\n    >   now files  9\n  now probe says  \"\\u05d0\"\n", differs(was, now))
}

// A gate that lies moves a time of the payload and the time of its look by as much. What is signed differs all the same: only facts move on.
func TestATimeInThePayloadIsNoFactThatMovesOn(t *testing.T) {
	nonce := op.NewNonce(time.Now())
	until := func(at time.Time) string { return "keep it until " + at.Format(time.RFC3339) }
	of := func(later time.Duration, change func(p *op.Payload, at time.Time)) question {
		at := time.Date(2026, 1, 2, 5, 4, 5, 0, time.UTC).Add(later)
		q := questionOf(t, payload(t, func(p *op.Payload) { p.Nonce = nonce; change(p, at) }))
		q.request.FactsAt = at.Add(-time.Hour)
		q.request.Facts = []op.Fact{{Name: "destroy", Text: "can be undone until " + at.Format(time.RFC3339)}}
		return q
	}
	for name, change := range map[string]func(p *op.Payload, at time.Time){
		"valid":  func(p *op.Payload, at time.Time) { p.ExpiresAt = at },
		"reason": func(p *op.Payload, at time.Time) { p.Reason = until(at) },
		"params": func(p *op.Payload, at time.Time) {
			p.Op, p.Params = "guest.set-config", op.Params{"description": until(at)}
		},
	} {
		require.Contains(t, differs(of(0, change), of(time.Minute, change)), "now "+name)
	}
	same := func(*op.Payload, time.Time) {}
	require.Empty(t, differs(of(0, same), of(time.Minute, same)))
}

// A fact has the name and the text that a part of the payload had, and that part another one. What is signed differs all the same.
func TestAFactIsNoPartOfThePayload(t *testing.T) {
	nonce := op.NewNonce(time.Now())
	of := func(signed, told string) question {
		q := questionOf(t, payload(t, func(p *op.Payload) { p.Nonce, p.Reason = nonce, signed }))
		q.request.Facts = []op.Fact{{Name: "reason", Text: told}}
		return q
	}
	shown := func(q question) string {
		facts := payloadFacts(q.payload)
		return facts[slices.IndexFunc(facts, func(f op.Fact) bool { return f.Name == "reason" })].Text
	}
	one, other := of("a", ""), of("b", "")
	one.request.Facts[0].Text, other.request.Facts[0].Text = shown(other), shown(one)
	require.Contains(t, differs(one, other), "now reason")
}
