package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
			require.Contains(t, text, "\n"+r.ID+map[bool]string{true: "\n", false: " "}[len(r.Target) > 79], "a row that is wider than the screen has a line for each cell")
		}
	}
	require.Contains(t, tl.listText([]api.Request{waits}, 0), long+"@example.com", "a file has nothing cut")
	require.Contains(t, tl.listText([]api.Request{signed}, 0), "STATE")
	require.Contains(t, tl.listText([]api.Request{signed}, 0), "SIGNED")
}

// An operator who looks at 80 columns sees what each request is about, and reads once what all of them need.
func TestAListSaysWhatChanges(t *testing.T) {
	tl := testTool()
	of := func(id, name, target string, ago time.Duration, params op.Params, why string, facts ...op.Fact) api.Request {
		return api.Request{ID: id, State: op.StatePending, Op: name, Target: target, Params: params, Why: why, Facts: facts, CreatedAt: tl.now().Add(-ago),
			RequestedBy: []string{"agent:builder#1"}, Reason: "asked to",
			Demands: []api.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Could: []string{"alice@example.com"}}}}
	}
	text := tl.listText([]api.Request{
		of("j4.1", "guest.destroy", "guest/pg-standby-of-the-shop", 26*time.Hour, nil, "its data would be gone",
			op.Fact{Name: "destroy", Text: "can be undone until " + "2026-03-04T05:06:07Z"}),
		of("j5.1", "guest.set-config", "guest/web", 90*time.Second, op.Params{"labels": map[string]any{}, "memory": int64(600)}, "takes a label away",
			op.Fact{Name: "changes protection", Text: "from on to off"}, op.Fact{Name: "changes memory", Text: "from 512 to 600 MiB"},
			op.Fact{Name: "files", Text: "3"}),
		of("j6.1", "guest.restore", "guest/db", time.Second, op.Params{"snapshot": "monday"}, "its data would be overwritten"),
	}, 79)
	require.Equal(t, `ID    AGE  UNDO     OP          TARGET                        WHAT
j4.1  26h  yes      destroy     guest/pg-standby-of-the-shop  its data would...
j5.1  1m   by hand  set-config  guest/web                     protection fro...
j6.1  1s   no       restore     guest/db                      snapshot=monda...
each is for: agent:builder#1
each needs: 1 operational (alice@example.com)
`, text)
}

// TestTheReasonGivesWayLast: at 80 columns, also if no two requests are asked by the same, need the same, or have the same signatures.
func TestTheReasonGivesWayLast(t *testing.T) {
	tl := testTool()
	var requests []api.Request
	for i, who := range []string{"alice@example.com", "bob@example.com", "carol@example.com"} {
		requests = append(requests, api.Request{ID: fmt.Sprintf("j%d.1", i), State: op.StatePending, Op: "guest.set-config", Target: "guest/web",
			CreatedAt: tl.now(), RequestedBy: []string{"agent:builder#" + who}, Reason: "the shop moves", Why: "takes a label away",
			Signatures: []api.Signature{{Principal: who}},
			Demands:    []api.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Could: []string{who}}}})
	}
	text := tl.listText(requests, 79)
	head, _, _ := strings.Cut(text, "\n")
	require.Regexp(t, `^ID +AGE +UNDO +OP +TARGET +WHAT +REASON$`, head)
	require.Equal(t, 3, strings.Count(text, "the shop m"), text)
}
