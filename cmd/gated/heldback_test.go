package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/op"
)

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
			s.Code, s.Detail, s.RetryAt = op.Unavailable, why, at
		}
		return api.JobOf(op.Job{ID: 12, Steps: []op.Step{s}, CreatedAt: at})
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
