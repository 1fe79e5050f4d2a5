package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// A rejection is never told as an approval, also if the job goes on to take back its first step.
func TestWhatWasDecided(t *testing.T) {
	job := func(states ...op.State) api.Job {
		j := api.Job{ID: "j1"}
		for i, s := range states {
			j.Steps = append(j.Steps, api.Step{ID: fmt.Sprintf("j1.%d", i+1), State: s})
		}
		return j
	}
	for _, c := range []struct {
		before, now api.Job
		said        string
	}{
		{job(op.StatePending), job(op.StateAuthorized), "j1 was approved, and goes on\n"},
		{job(op.StateSucceeded, op.StatePending), job(op.StateSucceeded, op.StateRejected, op.StatePending), "j1.2 is rejected, and its job goes on\n"},
		{job(op.StatePending, op.StatePending), job(op.StatePending, op.StatePending), ""},
		{job(op.StatePlanned), job(op.StateDispatched), ""},
	} {
		var said bytes.Buffer
		(&tool{Tool: cli.Tool{Stderr: &said}}).sayDecided(c.before, c.now)
		require.Equal(t, c.said, said.String())
	}
}
