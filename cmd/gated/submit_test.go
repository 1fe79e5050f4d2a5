package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

// A job that was accepted is named where no daemon says how it ended.
func TestAwaitedOfADaemonThatIsGone(t *testing.T) {
	cl := must.Get(client.New(client.Options{Socket: "/nowhere", Getenv: func(string) string { return "" }}))(t)
	_, err := awaited(t.Context(), cl, api.Job{ID: "j129"}, api.UntilEnded)
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	require.Contains(t, cli.Why("gated submit", err), "  hint: j129 was accepted; gated jobs j129 says how it ended\n")

	_, err = submitted(t.Context(), cl, api.Submit{})
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	require.NotContains(t, cli.Why("gated submit", err), "accepted", "nothing was handed in")
}

// Whoever waits for a job is told once why it does not go on, and again when that
// changes; and whoever looks at it sees it.
func TestHeldBackIsSaid(t *testing.T) {
	t.Parallel()
	tl := testTool()
	var out, said strings.Builder
	tl.Stdout, tl.Stderr = &out, &said
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	step := op.Step{ID: op.StepID{Job: 12, Index: 1}, Op: "guest.create", Target: op.Target{Kind: "guest", Name: "web"}, State: op.StatePlanned}
	job := func(why string) api.Job {
		s := step
		if why != "" {
			s.Code, s.Detail, s.RetryAt = refusal.Unavailable, why, at
		}
		return convert.JobOf(op.Job{ID: 12, Steps: []op.Step{s}, CreatedAt: at})
	}
	last := ""
	for _, why := range []string{"", "the pool is not active", "the pool is not active", "", "the pool is not active", "libvirtd is away"} {
		last = tl.sayHeldOf(job(why), last)
	}
	require.Equal(t, "j12.1 guest.create guest/web cannot run now and is tried again: the pool is not active\n"+
		"j12.1 guest.create guest/web cannot run now and is tried again: libvirtd is away\n", said.String())
	require.NoError(t, tl.showJob(job("libvirtd is away")))
	require.Contains(t, out.String(), "unavailable: libvirtd is away; tried again at 2026-03-04")
}

func TestAsk(t *testing.T) {
	a := must.Get(ask("guest.create", "web-1", cli.Pairs{"memory=1GiB", "labels.tier=prod"}))(t)
	require.Equal(t, op.Ask{Op: "guest.create", Target: op.Target{Kind: "guest", Name: "web-1"},
		Params: op.Params{"memory": int64(1024), "labels": map[string]any{"tier": "prod"}}}, a)
	a = must.Get(ask("guest.start", "guest/web-1", nil))(t)
	require.Equal(t, "guest/web-1", a.Target.String())

	// What only the gate can refuse goes to it.
	a = must.Get(ask("guest.fly", "web-1", cli.Pairs{"memory=1GiB"}))(t)
	require.Equal(t, op.Params{"memory": "1GiB"}, a.Params)

	for _, c := range []struct {
		name, target string
		code         refusal.Code
	}{
		{"start", "web-1", refusal.UnknownOp}, {"Guest.start", "web-1", refusal.UnknownOp}, {"guest.start", "web-*", refusal.Malformed},
		{"guest.start", "../web-1", refusal.Malformed}, {"guest.start", "", refusal.Malformed},
	} {
		must.Fail(ask(c.name, c.target, nil))(t, c.code, c)
	}
}
