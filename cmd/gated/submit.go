package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

func (t *tool) submitCommand() *cobra.Command {
	var given pairs
	var reason string
	var wait bool
	c := t.command("submit", cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		a, err := ask(args[0], args[1], given)
		if err != nil {
			return err
		}
		cl, err := t.client()
		if err != nil {
			return err
		}
		defer cl.Close()
		job, err := cl.Submit(c.Context(), api.SubmitOf(reason, a), "")
		if err != nil {
			return err
		}
		if wait {
			if job, err = await(c.Context(), cl, job); err != nil {
				return err
			}
		}
		return t.jobEnd(job)
	})
	c.ValidArgsFunction = t.completeOpName
	t.paramFlag(c, &given)
	c.Flags().StringVar(&reason, "reason", "", flagReason)
	c.Flags().BoolVar(&wait, "wait", false, flagWait)
	return c
}

// await waits until a job has ended or a step of it waits for a signature.
func await(ctx context.Context, cl *client.Client, job api.Job) (api.Job, error) {
	still := func(j api.Job) bool { return !j.State.Open() || waits(j) }
	if still(job) {
		return job, nil
	}
	return cl.AwaitJob(ctx, job.ID, still)
}

// waits reports whether a step of the job waits for a signature, be it the
// first unfinished one or not.
func waits(j api.Job) bool {
	for _, s := range j.Steps {
		if s.State == op.StatePending {
			return true
		}
	}
	return false
}

// jobEnd prints how a job stands and ends the command with the code for that.
func (t *tool) jobEnd(j api.Job) error {
	if t.json {
		if err := t.emit(j); err != nil {
			return err
		}
	} else {
		t.showJobLine(j)
	}
	if waits(j) {
		for _, s := range j.Steps {
			if s.State == op.StatePending {
				t.say(wordsStepWaits, op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(s.Why), op.Shown(s.ID))
			}
		}
		return ended(api.ExitWaits)
	}
	code := api.ExitOfState(j.State)
	if code != api.ExitDone && j.Error != nil {
		t.say("%s", explain("", j.Error.Err()))
	}
	return ended(code)
}

func (t *tool) showJobLine(j api.Job) {
	for _, s := range j.Steps {
		t.print(wordsStep, op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(string(s.State)))
		if s.State == op.StateSucceeded && s.Detail != "" {
			t.print(wordsStepDetail, op.Shown(s.Detail))
		}
	}
}
