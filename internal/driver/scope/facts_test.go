package scope

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func held() reserve.Reservation {
	return reserve.Reservation{ID: 12, Patterns: []string{"docs/**", "src/a.go"}, Mode: reserve.Exclusive,
		Holder: reserve.Holder{Name: "builder", UID: 1000, Registration: 7}, Alive: true, Reason: "renames",
		CreatedAt: noon, ExpiresAt: noon.Add(15 * time.Minute)}
}

func viewOf(list ...reserve.Reservation) reserve.View {
	return reserve.View{Scope: reserve.Scope{ID: "s3", Place: reserve.Place{Path: "/repo", Device: 1, Inode: 2}, At: noon}, Reservations: list}
}

func TestFacts(t *testing.T) {
	ended, bare := held(), held()
	ended.ID, ended.Alive, ended.Keep, ended.Mode, ended.Reason = 13, false, true, reserve.Shared, ""
	bare.ID, bare.Holder = 14, reserve.Holder{UID: 1001}
	require.Equal(t, []op.Fact{
		{Name: "path", Text: "/repo"},
		{Name: "directory", Text: "seen, and as it was registered (device 1, inode 2)"},
		{Name: "reservations", Text: "3"},
		{Name: "r12", Text: `exclusive "docs/**" "src/a.go" by builder (uid 1000, alive), since 2026-03-01T12:00:00Z, until 2026-03-01T12:15:00Z, ` +
			`in the holder's words: "renames"`},
		{Name: "r13", Text: `shared "docs/**" "src/a.go" by builder (uid 1000, ended), since 2026-03-01T12:00:00Z, until 2026-03-01T12:15:00Z, ` +
			`kept beyond the process, no reason given`},
		{Name: "r14", Text: `exclusive "docs/**" "src/a.go" by uid:1001 (uid 1001, bound to no process), since 2026-03-01T12:00:00Z, ` +
			`until 2026-03-01T12:15:00Z, in the holder's words: "renames"`},
	}, facts(viewOf(held(), ended, bare), sight{}))
	require.Equal(t, "not seen (the daemon may not look there); that of device 1, inode 2 was registered at 2026-03-01T12:00:00Z",
		facts(viewOf(), sight{hidden: "the daemon may not look there"})[1].Text)
}

// TestRefusalsOfTheBookChangedNothing lists all codes of the book's own refusals.
func TestRefusalsOfTheBookChangedNothing(t *testing.T) {
	for _, code := range []refusal.Code{refusal.StaleTarget, refusal.UnknownTarget, refusal.Conflict, refusal.OverLimit, refusal.TooComplex, refusal.BadParams} {
		require.False(t, driver.IsUnknown(worded(refusal.New(code, "no"))), code)
	}
	for _, code := range []refusal.Code{refusal.Unavailable, refusal.Internal} {
		require.True(t, driver.IsUnknown(worded(refusal.New(code, "no"))), code)
	}
	require.NoError(t, worded(nil))
}

func TestFactsAreBounded(t *testing.T) {
	var list []reserve.Reservation
	for i := range maxShown + 5 {
		r := held()
		r.ID = op.ReservationID(i + 1)
		r.Patterns = nil
		for range 50 {
			r.Patterns = append(r.Patterns, strings.Repeat("é", 2048))
		}
		r.Reason = strings.Repeat("reason ", 140)
		list = append(list, r)
	}
	out := facts(viewOf(list...), sight{})
	require.Len(t, out, 3+maxShown+1)
	require.Equal(t, op.Fact{Name: "reservations", Text: "105"}, out[2])
	require.Equal(t, op.Fact{Name: "and", Text: "5 more: gated reservation list shows them"}, out[len(out)-1])
	for _, f := range out {
		require.Less(t, len(f.Text), 1200)
	}
	require.Contains(t, out[3].Text, `é"… (4096 bytes in all) and 49 more by builder`)
	require.Contains(t, out[3].Text, `"… (980 bytes in all)`)
}

// TestWordsOfAgentsStayWords: an agent's text never leaves its quotation marks, begins a line
// or moves the cursor.
func TestWordsOfAgentsStayWords(t *testing.T) {
	const mark = ", in the holder's words: "
	rapid.Check(t, func(t *rapid.T) {
		r := held()
		r.Patterns = []string{"x"}
		r.Reason = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`", kept by root`, "a\nb", "\x1b[2J", "\u202e", `\`, `\"`, "\xff", "\u00a0"})).
			Filter(func(s string) bool { return s != "" && len(s) <= maxReason }).Draw(t, "reason")
		text := reservation(r)
		require.NoError(t, op.CheckText("fact", text))
		_, words, ok := strings.Cut(text, mark)
		require.True(t, ok)
		inside, ok := strings.CutPrefix(words, `"`)
		require.True(t, ok)
		inside, ok = strings.CutSuffix(inside, `"`)
		require.True(t, ok)
		inside = strings.NewReplacer(`\\`, "", `\"`, "").Replace(inside)
		require.NotContains(t, inside, `"`)
		require.False(t, strings.HasSuffix(inside, `\`), "its end is the end")
	})
}
