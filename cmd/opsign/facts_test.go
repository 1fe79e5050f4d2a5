package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

func TestWhenTheFactsWereSeen(t *testing.T) {
	now := time.Date(2026, 1, 5, 3, 4, 5, 0, time.UTC)
	for want, at := range map[string]time.Time{
		" at 03:04:05Z": now, " at 03:04:07Z": now.Add(2 * time.Second), " at 02:04:06Z": now.Add(-time.Hour + time.Second), " 1h ago": now.Add(-time.Hour),
		" 47h59m ago": now.Add(-48*time.Hour + time.Second), " 2 days ago": now.Add(-48 * time.Hour), " 30 days ago": now.Add(-30 * 24 * time.Hour), "": {},
	} {
		if want != "" {
			want = ", as the gate saw it" + want
		}
		q := asked(t, "guest.destroy", op.Params{}, op.Fact{Name: "files", Text: "0"}, op.Fact{Name: "state", Text: "paused"})
		q.request.FactsAt = at
		require.Equal(t, "  goes"+want+":\n    files  0\n  also seen:\n    state  paused\n", q.losesText(q.fates(), now))
	}
}

// What a probe says is shown line by line, and no line of it can pass for one of
// opsign's, on a screen or not.
func TestFactsOfSeveralLines(t *testing.T) {
	hostile := "shop  3 tables\n    undo  can be undone\n\x1b[2J\n  needs nobody" + strings.Repeat(" ", 80) + "state  fine"
	q := question{payload: op.Payload{Op: op.Run}}
	q.request.Facts = []op.Fact{{Name: "runs", Text: "/bin/rm shop"}, {Name: "probe says", Text: hostile}}
	text := q.losesText(q.fates(), time.Time{})
	require.Equal(t, `  what would run, and what its probe says:
    runs  /bin/rm shop
    probe says:
      > shop  3 tables
      >     undo  can be undone
      > "\x1b[2J"
      >   needs nobody
      |                           state  fine
`, text)
	for _, cols := range []int{20, 40, 79} {
		lines := cli.Wrapped(text, cols)
		for _, line := range lines[slices.Index(lines, "    probe says:")+1:] {
			require.True(t, strings.HasPrefix(line, "      > ") || strings.HasPrefix(line, cli.Cont), "%d: %q", cols, line)
		}
	}
}

// What the headline ends with is no fact below it.
func TestTheHeadlineIsNotSaidAgain(t *testing.T) {
	q := question{payload: op.Payload{Op: op.Run}}
	q.request.State, q.request.Facts = op.StatePending, []op.Fact{{Name: "runs", Text: "/bin/rm shop"}, {Name: "undo", Text: "cannot be undone"}}
	require.True(t, strings.HasSuffix(q.headline(""), op.CannotUndo))
	require.Equal(t, "  what would run, and what its probe says:\n    runs  /bin/rm shop\n", q.losesText(q.fates(), time.Time{}))
}

func TestSameFacts(t *testing.T) {
	seen := time.Date(2026, 1, 5, 3, 4, 5, 0, time.UTC)
	look := func(after time.Duration, texts ...string) api.Request {
		r := api.Request{FactsAt: seen.Add(after)}
		for _, text := range texts {
			r.Facts = append(r.Facts, op.Fact{Name: "destroy", Text: text})
		}
		return r
	}
	first := look(0, "can be undone until 2026-01-06T03:04:05Z", "written 2026-01-05T02:00:00Z")
	for _, c := range []struct {
		same  bool
		later api.Request
	}{
		{true, first},
		{true, look(time.Hour, "can be undone until 2026-01-06T04:04:05Z", "written 2026-01-05T02:00:00Z")},
		{true, look(time.Hour, "can be undone until 2026-01-06T04:03:05Z", "written 2026-01-05T02:00:00Z")},
		{false, look(time.Hour, "can be undone until 2026-01-06T04:03:04Z", "written 2026-01-05T02:00:00Z")},
		{false, look(time.Hour, "cannot be undone until 2026-01-06T04:04:05Z", "written 2026-01-05T02:00:00Z")},
		{false, look(time.Minute, "can be undone until 2026-01-06T03:05:05Z", "written 2026-01-05T02:00:01Z")},
		{false, look(time.Minute, "can be undone until 2026-01-06T03:05:05Z")},
		{false, look(time.Minute, "can be undone until ", "written 2026-01-05T02:00:00Z")},
		{false, look(time.Minute, "can be undone until 2026-99-06T03:05:05Z", "written 2026-01-05T02:00:00Z")},
	} {
		require.Equal(t, c.same, differs(question{request: first}, question{request: c.later}) == "", c.later)
		require.Equal(t, c.same, differs(question{request: c.later}, question{request: first}) == "", c.later)
	}
}

// What would be lost is part of what was read: if it is more now, it is shown
// again, and nothing is signed meanwhile.
func TestReviewShowsChangedFactsAgain(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	before := requestOf(t, b)
	before.Facts = []op.Fact{{Name: "files", Text: "0"}}
	p := must.Get(op.DecodePayload(b))(t)
	shown := question{request: before, bytes: b, payload: p}
	it := &item{id: "j1.1", shown: shown, read: true, marked: true}
	r := reviewOf(t, b, it)
	require.NoError(t, r.approve(context.Background(), it))
	require.Equal(t, fmt.Sprintf(wordsChanged, "j1.1")+"  was files  0\n", r.message)
	require.False(t, it.read || it.marked)

	it.shown, it.read, it.marked, r.message = shown, true, true, ""
	require.NoError(t, r.signAll(context.Background(), []*item{it}))
	require.Contains(t, it.outcome, "stale_target: j1.1 changed after it was shown")
}
