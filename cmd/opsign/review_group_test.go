package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/question"
)

// onHost is a request to destroy a guest of a host, with facts.
func onHost(t *testing.T, host, name string, facts ...op.Fact) *item {
	q := questionOf(t, payload(t, func(p *op.Payload) { p.Host, p.Target.Name = host, name }))
	q.Request.Facts = facts
	return &item{id: "j1.1", host: host, shown: q, request: q.Request}
}

// What like requests have in common stands once, and nothing that differs is left out.
func TestLikeRequestsAreShownOnce(t *testing.T) {
	files := func(n string) op.Fact { return op.Fact{Name: "files", Text: n} }
	same := op.Fact{Name: "backups", Text: "none known"}
	items := []*item{onHost(t, "pve1", "web-1", files("3"), same), onHost(t, "pve2", "web-1", files("3"), same), onHost(t, "pve3", "web-2", files("4"), same, same)}
	text := allText(items, question.View{Dash: " - "}, bodyText)
	require.True(t, strings.HasPrefix(text, "the same for each of these 3:\n"), text)
	require.Equal(t, 1, strings.Count(text, "asked by"))
	require.Equal(t, 3, strings.Count(text, "files"), "one differs, so each is said")
	require.Equal(t, 4, strings.Count(text, "none known"), "one has it twice")
	for _, head := range []string{"pve1 j1.1: DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE\n", "pve2 j1.1: DESTROY guest/web-1 on pve2", "pve3 j1.1: DESTROY guest/web-2 on pve3"} {
		require.Contains(t, text, head)
	}
	other := onHost(t, "pve4", "web-1")
	other.shown.Payload.Op = "guest.wipe"
	require.NotContains(t, allText(append(items, other), question.View{}, bodyText), "the same for each")
	for _, it := range items {
		it.shown.Payload.Op = op.Run
	}
	require.NotContains(t, allText(items, question.View{}, bodyText), "the same for each", "what a program printed belongs together")
	require.NotContains(t, allText(items[:1], question.View{}, bodyText), "the same for each")
}

func TestWhichRequestsAreAlike(t *testing.T) {
	first, like, wiped, done, rotated := onHost(t, "pve1", "web-1"), onHost(t, "pve2", "web-9"), onHost(t, "pve3", "web-1"), onHost(t, "pve4", "web-1"), onHost(t, "pve5", "x")
	wiped.request.Op, done.decision, rotated.request.Op = "guest.wipe", approved, op.Rotate
	cooling := onHost(t, "pve6", "web-1")
	cooling.request.State = op.StateAuthorized
	r := &review{items: []*item{first, like, wiped, done, rotated, cooling}}
	require.Equal(t, []*item{first, like}, r.alike(first))
	require.Equal(t, []*item{like, first}, r.alike(like))
	require.Equal(t, []*item{rotated}, r.alike(rotated))
	require.Equal(t, []*item{cooling}, r.alike(cooling))
	like.request.Params = op.Params{"snapshot": "a"}
	require.Equal(t, []*item{first}, r.alike(first))
	require.Equal(t, wordsReviewKeys, r.keysOf(first)[0])
	like.request.Params = first.request.Params
	require.Equal(t, wordsReviewGroup, r.keysOf(first)[0])
	require.LessOrEqual(t, len(wordsReviewGroup), 79)
}

// What a page wants to have confirmed as one is alike, whatever the page says.
func TestOnlyLikeRequestsAreConfirmedTogether(t *testing.T) {
	var all together
	require.NoError(t, all.add(onHost(t, "pve1", "web-1"), approval{}, op.Operational))
	require.NoError(t, all.add(onHost(t, "pve2", "web-2"), approval{}, op.Operational))
	wiped, moved := onHost(t, "pve3", "web-1"), onHost(t, "pve3", "web-1")
	wiped.shown.Payload.Op, moved.shown.Payload.Params = "guest.wipe", op.Params{"snapshot": "a"}
	for _, it := range []*item{wiped, moved} {
		require.ErrorIs(t, all.add(it, approval{}, op.Operational), refusal.StaleTarget)
	}
	require.ErrorIs(t, all.add(onHost(t, "pve3", "web-1"), approval{}, op.Recovery), refusal.RoleDenied)
	require.Len(t, all.items, 2)
	rotated := onHost(t, "pve1", "x")
	rotated.shown.Payload.Op = op.Rotate
	require.ErrorIs(t, (&together{}).add(rotated, approval{}, op.Operational), refusal.StaleTarget)
}

// One gate of several that goes away ends what waits there, and the others go on. The only gate ends the review.
func TestAGateThatGoesAway(t *testing.T) {
	it := onHost(t, "pve1", "web-1")
	r := reviewOf(t, []byte("{}"), it)
	r.JSON = false
	gone := &client.Unreachable{Tried: []client.Attempt{{Path: "/s", Err: io.EOF}}}
	require.Equal(t, error(gone), r.failed(it, gone))
	r.several = true
	require.NoError(t, r.failed(it, gone))
	require.Equal(t, api.ExitUnreachable, it.exit)
	require.Contains(t, r.message, "pve1 j1.1: ")
	r.Stdout = io.Discard
	require.Equal(t, api.ExitUnreachable, api.Exit(r.summary(nil)))
	require.ErrorIs(t, r.failed(it, context.Canceled), context.Canceled)
}
