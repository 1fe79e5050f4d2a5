package mcp

import (
	"context"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/host/server"
	"gated/internal/test/servicetest"
)

// A wait ends as soon as an operator has decided, and the client hears meanwhile that the call is alive.
func TestWaitForADecision(t *testing.T) {
	w := newWorld(t)
	o := w.options(t, "")
	heard := make(chan *sdk.ProgressNotificationParams, 16)
	s := connect(t, o, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		heard <- r.Params
	}})
	decided := make(chan error, 1)
	go func() {
		p := <-heard
		if p.ProgressToken != "token" || p.Message != "waits for j1" {
			t.Errorf("%+v", p)
		}
		_, err := o.Client.Approve(context.Background(), "j1.1", w.Approval(t, op.RequestID{Job: 1, Index: 1}))
		decided <- err
	}()
	params := &sdk.CallToolParams{Name: "wait", Arguments: object{"job": "j1", "until": "decided"}}
	params.SetProgressToken("token")
	res, err := s.CallTool(t.Context(), params)
	require.NoError(t, err)
	require.NoError(t, <-decided)
	require.False(t, res.IsError)
	require.Equal(t, "authorized", res.StructuredContent.(object)["state"])
}

// A job that goes on when the time is over is an answer.
func TestWaitThatIsOver(t *testing.T) {
	s := connect(t, newWorld(t).options(t, ""), nil)
	var out jobOut
	granted(t, s, "wait", object{"job": "j1", "seconds": 1}, &out)
	require.Equal(t, "pending_signature", out.State)
	require.Contains(t, out.Next, "call wait again")
	require.NotNil(t, out.Steps[0].Signature)
	granted(t, s, "wait", object{"job": "j1", "until": "pending_signature"}, &out)
	require.NotContains(t, out.Next, "call wait again")
	for code, in := range map[string]object{"bad_params": {"job": "j1", "seconds": 46}, "malformed": {"job": "j1", "until": "approved"},
		"unknown_target": {"job": "j999"}} {
		require.Equal(t, code, denied(t, s, "wait", in).Code)
	}
}

// A gate without a place for another wait is no refusal: the answer is the job as it is when the time is over.
func TestWaitWithoutAPlace(t *testing.T) {
	s := connect(t, newWorld(t, func(c *server.Config) { c.Limits.JobWaits, c.Limits.JobWaitsUID = -1, -1 }).options(t, ""), nil)
	var out jobOut
	granted(t, s, "wait", object{"job": "j1", "seconds": 1}, &out)
	require.Equal(t, "pending_signature", out.State)
	require.Contains(t, out.Next, "call wait again")
}

// A wait ends with its client, at the gate too. Eight may be open, and leave room for other calls.
func TestWaitsEndWithTheirClient(t *testing.T) {
	w := newWorld(t)
	r := greet(t, w.options(t, servicetest.Token()))
	for i := range maxWaits {
		r.say(t, callLine(string(rune('1'+i)), "wait", `{"job":"j1"}`))
	}
	require.Eventually(t, func() bool { return w.Waits.Waiting() == maxWaits }, time.Minute, time.Millisecond)
	r.say(t, callLine(`"more"`, "wait", `{"job":"j1"}`))
	require.Contains(t, string(r.reply(t).Result.Structured), "over_limit")
	r.say(t, callLine(`"other"`, "whoami", `{}`))
	require.False(t, r.reply(t).Result.IsError)
	r.say(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	require.Contains(t, string(r.reply(t).Result.Structured), "cancelled")
	require.NoError(t, r.in.Close())
	require.NoError(t, <-r.ended)
	require.Eventually(t, func() bool { return w.Waits.Waiting() == 0 }, time.Minute, time.Millisecond)
}
