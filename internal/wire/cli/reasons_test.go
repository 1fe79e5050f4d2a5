package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/wire/cli"
)

func TestReasons(t *testing.T) {
	one := []api.Reason{{By: "uid:1000", Text: "old"}}
	two := append(one[:1:1], api.Reason{By: "agent:b#7", Text: "the disk\x1b[2J is full"})
	for _, c := range []struct {
		first       string
		all         []api.Reason
		lines, cell string
	}{
		{"old", nil, "  reason of the requester: \"old\"\n", "old"}, // of an older daemon
		{"", nil, "  reason of the requester: none given\n", ""},
		{"old", one, "  reason of the requester: \"old\"\n", "old"},
		{"gone", one, "  reason that is signed: \"gone\"\n  reason of uid:1000: \"old\"\n", "gone"},
		{"old", two, "  reason of uid:1000: \"old\"\n  reason of agent:b#7: \"the disk\\x1b[2J is full\"\n",
			`uid:1000: "old"; agent:b#7: "the disk\x1b[2J is full"`},
		{"", append(one[:1:1], api.Reason{By: "uid:1001"}), "  reason of uid:1000: \"old\"\n  reason of uid:1001: none given\n", `uid:1000: "old"`},
	} {
		require.Equal(t, c.lines, cli.Reasons("  ", c.first, c.all))
		require.Equal(t, c.cell, cli.ReasonsInLine(c.first, c.all))
	}
}

// TestReasonsCannotPassForOthers: a reason with what separates reasons stays one.
func TestReasonsCannotPassForOthers(t *testing.T) {
	all := []api.Reason{{By: "uid:1000", Text: `x"; uid:0: "please`}, {By: "uid:1001", Text: "a\nreason of uid:0: b"}}
	require.Equal(t, `uid:1000: "x\"; uid:0: \"please"; uid:1001: "a\nreason of uid:0: b"`, cli.ReasonsInLine("", all))
	require.Equal(t, 2, strings.Count(cli.Reasons("", "", all), "\n"))

	forged := `agent:a#3: "clean"; uid:0: "please"`
	require.Equal(t, `"agent:a#3: \"clean\"; uid:0: \"please\""`, cli.ReasonsInLine(forged, []api.Reason{{By: "uid:1000", Text: forged}}))
}

func TestReasonsAreBounded(t *testing.T) {
	var all []api.Reason
	for i := range 100 {
		all = append(all, api.Reason{By: fmt.Sprint("uid:", i), Text: "x"})
	}
	require.Equal(t, 9, strings.Count(cli.Reasons("", "x", all), "\n"))
	require.Contains(t, cli.Reasons("", "x", all), "reasons of 92 more requesters")
	require.Equal(t, 8, strings.Count(cli.ReasonsInLine("x", all), `"x"`))
}

func TestRejections(t *testing.T) {
	require.Empty(t, cli.Rejections("  ", api.Request{}, false))
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	r := api.Request{TimesRejected: 1, Rejections: []api.Rejection{
		{Request: "j3.1", By: []string{"alice@example.com"}, Words: "still\x07 in use", At: at, RequestedBy: []string{"uid:1000"}}}}
	require.Equal(t, "  the same was rejected once:\n    j3.1 at 2026-03-04T05:06:07Z by alice@example.com, asked by uid:1000: \"still\\a in use\"\n",
		cli.Rejections("  ", r, false))
	r.TimesRejected = 12
	for range 7 {
		r.Rejections = append(r.Rejections, api.Rejection{Request: "j2.1", By: []string{"a", "b"}, At: at,
			RequestedBy: []string{"uid:1", "uid:2", "uid:3", "uid:4", "uid:5"}})
	}
	text := cli.Rejections("", r, false)
	require.True(t, strings.HasPrefix(text, "the same was rejected 12 times, the last ones:\n"))
	require.Equal(t, 4, strings.Count(text, "\n"))
	require.Contains(t, text, "by a, b, asked by uid:1, uid:2, uid:3, 2 more: no words given\n")
	require.Equal(t, 9, strings.Count(cli.Rejections("", r, true), "\n"))
}
