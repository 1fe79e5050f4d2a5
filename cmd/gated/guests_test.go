package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// eachFits fails the test unless every line fits a screen of 80 columns.
func eachFits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 79, line)
	}
}

func TestGuestsFitAScreen(t *testing.T) {
	long := strings.Repeat("a-long-name-", 10)
	guests := []api.Guest{{Name: long, State: "running", Protected: true, Backend: "local",
		Spec: op.Params{"labels": map[string]any{"tier": long, "zone": long}, "memory": int64(1024)}},
		{Name: "web", State: "unknown", Backend: "local", Error: &api.Error{Code: refusal.Unavailable, Detail: strings.Repeat("away ", 50)}}}
	text := testTool().guestsText(guests, 79)
	eachFits(t, text)
	require.Contains(t, text, "\nweb ")
	require.NotContains(t, text, "BACK END")
	guests[1].Backend = "libvirt"
	text = testTool().guestsText(guests, 79)
	eachFits(t, text)
	require.Contains(t, text, "BACK")
	require.Contains(t, testTool().guestsText(guests, 0), "  labels.tier="+long+" labels.zone="+long+" memory=1024  ", "a file has nothing cut")
}

// TestAGuestIsShownOnce: no row comes twice, and no name stands for two things.
func TestAGuestIsShownOnce(t *testing.T) {
	tl, out := testTool(), new(bytes.Buffer)
	tl.Stdout = out
	guest := api.Guest{Name: "web", State: "stopped", Snapshots: []string{"before", "weekly"}, Destroy: &api.Verdict{Class: "destructive", Rule: "destroy"},
		Facts: []op.Fact{{Name: "snapshots", Text: "before, weekly"}, {Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"}}}
	require.NoError(t, tl.showGuest(guest))
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(line, "  ")
		require.False(t, seen[name], out.String())
		seen[name] = true
	}
	require.True(t, seen["snapshots"] && seen["destroy"] && seen["undo of destroy"], out.String())
	out.Reset()
	guest.Facts = nil
	require.NoError(t, tl.showGuest(guest))
	require.Regexp(t, `(?m)^snapshots +before, weekly$`, out.String(), "a back end that says nothing of them")
}

// TestNamesThatDifferInCase are warned of, each once.
func TestNamesThatDifferInCase(t *testing.T) {
	named := func(names ...string) (out []api.Guest) {
		for _, n := range names {
			out = append(out, api.Guest{Name: n})
		}
		return out
	}
	for want, names := range map[string][]string{
		"": {"web", "web-1", "db", "wEb-2"},
		"warning: the names Web, web differ only in case: look twice which one a step is for\n": {"web", "db", "Web"},
		"warning: the names DB, db differ only in case: look twice which one a step is for\n" +
			"warning: the names WEB, Web, web differ only in case: look twice which one a step is for\n": {"web", "Web", "db", "WEB", "DB"},
		"warning: the names \"W\\x1b\", \"w\\x1b\" differ only in case: look twice which one a step is for\n": {"w\x1b", "W\x1b"},
	} {
		require.Equal(t, want, alike(named(names...)))
	}
	require.Empty(t, alike(named("web", "web")), "one guest that two back ends list is one name")
}

// Of a status nothing is cut: a long line goes on in the next.
func TestAStatusFitsAScreen(t *testing.T) {
	detail := strings.Repeat("the disk is full ", 20) + "end"
	text := strings.Join(cli.Wrapped(statusText(api.Status{Version: "v1", Host: strings.Repeat("h", 250), Isolation: "none",
		Remedies: []string{detail}, Health: []api.Health{{Name: "disk", Detail: detail}},
		Hub: &api.Hub{URL: "https://" + strings.Repeat("hub.", 40)}}), 79), "\n")
	eachFits(t, text)
	require.Equal(t, 2, strings.Count(text, "end\n"))
}
