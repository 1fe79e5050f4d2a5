package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

// A list fits a screen of 80 columns, whatever the names are, and keeps the ids whole.
func TestAListFitsAScreen(t *testing.T) {
	long := strings.Repeat("a-long-name-", 10)
	waits := api.Request{ID: "j1234.12", State: op.StatePending, Op: "guest.snapshot-delete", Target: "guest/" + long,
		Params: op.Params{"snapshot": long}, RequestedBy: []string{"agent:" + long}, Reason: strings.Repeat("because ", 100),
		Demands: []api.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 2, Could: []string{long + "@example.com"}}}}
	short := api.Request{ID: "j1.1", State: op.StatePending, Op: "guest.destroy", Target: "guest/web", RequestedBy: []string{"uid:1000"}}
	signed := waits
	signed.State, signed.Signatures = op.StateAuthorized, []api.Signature{{Principal: long + "@example.com"}}
	tl := testTool()
	for _, requests := range [][]api.Request{{short}, {waits, short}, {signed, waits}} {
		text := tl.listText(requests, 79)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 79, line)
		}
		for _, r := range requests {
			require.Contains(t, text, "\n"+r.ID+" ")
		}
	}
	require.Equal(t, "ID    OP             TARGET     FOR       NEEDS  REASON\nj1.1  guest.destroy  guest/web  uid:1000  -      -\n",
		tl.listText([]api.Request{short}, 79))
	require.Contains(t, tl.listText([]api.Request{waits}, 0), long+"@example.com", "a file has nothing cut")
	require.Contains(t, tl.listText([]api.Request{signed}, 0), "STATE")
	require.Contains(t, tl.listText([]api.Request{signed}, 0), "SIGNED")
}
