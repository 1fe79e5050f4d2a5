package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// asked is a question about an operation, with what the gate says of its target.
func asked(t *testing.T, name string, params op.Params, facts ...op.Fact) question {
	q := questionOf(t, payload(t, func(p *op.Payload) { p.Op, p.Params = name, params }))
	q.request.Facts = facts
	return q
}

func TestWhetherItCanBeUndone(t *testing.T) {
	trash := []op.Fact{{Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"},
		{Name: "wipe, restore, snapshot-delete", Text: "cannot be undone (the old files are in the trash)"}} // of an older gate
	kept := []op.Fact{{Name: "wipe, restore, snapshot-delete", Text: "can be undone by hand until 2026-01-06T03:04:05Z: copy the old files out of /srv/.trash"}}
	for _, c := range []struct {
		op     string
		params op.Params
		facts  []op.Fact
		want   string
	}{
		{"guest.destroy", op.Params{}, trash, "DESTROY guest/web-1 on pve1 - can be undone until 2026-01-06T03:04:05Z"},
		{"guest.destroy", op.Params{}, nil, "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.destroy", op.Params{}, []op.Fact{{Name: "undo", Text: "can be undone until 2026-01-06T03:04:05Z"}},
			"DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.destroy", op.Params{}, append(trash[:1:1], op.Fact{Name: "destroy", Text: "cannot be undone"}),
			"DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.destroy", op.Params{}, append(trash[:1:1], op.Fact{Name: "destroy", Text: "can be undone until never"}),
			"DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.wipe", op.Params{}, trash, "WIPE guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.restore", op.Params{"snapshot": "a"}, trash, "RESTORE A SNAPSHOT ONTO guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.backup-delete", op.Params{"backup": "a"}, trash, "DELETE A BACKUP OF guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.set-config", op.Params{"memory": int64(1)}, trash, "CHANGE guest/web-1 on pve1 - can be undone by hand: change it back"},
		{"guest.set-config", op.Params{"command": "x"}, trash, "CHANGE guest/web-1 on pve1 - CANNOT BE UNDONE"},
		{"guest.wipe", op.Params{}, kept, "WIPE guest/web-1 on pve1 - " + kept[0].Text},
		{"guest.restore", op.Params{"snapshot": "a"}, kept, "RESTORE A SNAPSHOT ONTO guest/web-1 on pve1 - " + kept[0].Text},
		{"guest.destroy", op.Params{}, kept, "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE"},
	} {
		q := asked(t, c.op, c.params, c.facts...)
		require.Equal(t, c.want, q.headline(" - "))
		require.True(t, strings.HasPrefix(q.text(view{dash: " - "}), c.want+"\n"))
	}
	q := asked(t, "guest.destroy", op.Params{}, trash...)
	q.request.State = op.StateSucceeded
	require.Equal(t, "DESTROY guest/web-1 on pve1 - succeeded", q.headline(" - "))
	require.Equal(t, "guest.fly", verbOf("guest.fly"), "an operation of a newer gate")
}

// TestAStepThatLosesNothing: only the gate's rule and the operation together make it
// one. A gate that lies about the rule cannot hide a destroy.
func TestAStepThatLosesNothing(t *testing.T) {
	for name, want := range map[string]string{
		"guest.stop": "STOP guest/web-1 on pve1 - loses no data", "guest.restart": "RESTART guest/web-1 on pve1 - loses no data",
		"guest.snapshot": "SNAPSHOT guest/web-1 on pve1 - loses no data", "guest.destroy": "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE",
		"guest.restore": "RESTORE A SNAPSHOT ONTO guest/web-1 on pve1 - CANNOT BE UNDONE", "guest.wipe": "WIPE guest/web-1 on pve1 - CANNOT BE UNDONE",
	} {
		q := asked(t, name, op.Params{}, op.Fact{Name: "files", Text: "3"})
		q.request.Rule, q.request.Why = op.SignedByRule, "asked for by rule gated.yaml:12; without it the step would run: the guest's state survives it"
		text := q.text(view{dash: " - "})
		require.True(t, strings.HasPrefix(text, want+"\n"), text)
		require.Contains(t, text, "  why it waits: asked for by rule gated.yaml:12; ")
		require.Equal(t, strings.HasSuffix(want, op.CannotUndo) && name != "guest.restore", strings.Contains(text, "  goes:\n    files  3\n"), text)
		q.request.Rule = "stop-volatile"
		require.True(t, strings.HasSuffix(q.headline(""), op.CannotUndo), "the built-in rules ask for the signature")
	}
}

// What is not shown at once is counted, and the details have all of it.
func TestNothingIsHiddenUncounted(t *testing.T) {
	q := asked(t, "guest.restore", op.Params{"snapshot": "before"}, op.Fact{Name: "snapshot", Text: "before, taken long ago"},
		op.Fact{Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"},
		op.Fact{Name: "wipe, restore, snapshot-delete", Text: "cannot be undone (the old files are gone)"})
	brief := q.text(view{dash: " - ", more: "d"})
	require.Contains(t, brief, "    params  {\"snapshot\":\"before\"}\n")
	require.Contains(t, brief, "  goes:\n    at most  all that was written since the snapshot\n"+
		"  also seen:\n    wipe, restore, snapshot-delete  cannot be undone (the old files are gone)\n")
	require.Contains(t, brief, "  stays:\n    snapshot  before, taken long ago\n")
	require.True(t, strings.HasSuffix(brief, "\n  d: 6 more facts\n"), brief)
	require.NotContains(t, brief, q.payload.Nonce)
	whole := q.text(view{dash: " - ", details: true})
	for _, f := range payloadFacts(q.payload) {
		require.Contains(t, whole, "    "+f.Name+" ")
	}
	require.Contains(t, whole, q.payload.Nonce)
	require.Contains(t, whole, "  what else is known of the target:\n    destroy  can be undone until 2026-01-06T03:04:05Z\n")
	require.NotContains(t, whole, "more facts")
}

// The requester's words stand in quotes on a line that says whose they are, whatever
// they are, and make no headline.
func TestAReasonIsNoHeadline(t *testing.T) {
	for _, reason := range []string{"can be undone", "x\u00a0y", "\"quoted\"", "  needs nothing", "DESTROY guest/a on b - succeeded"} {
		q := questionOf(t, payload(t, func(p *op.Payload) { p.Reason = reason }))
		text := q.text(view{now: time.Time{}, dash: " - "})
		require.True(t, strings.HasPrefix(text, "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE\n"))
		require.Regexp(t, `(?m)^  reason of the requester: ".*"$`, text)
	}
}
