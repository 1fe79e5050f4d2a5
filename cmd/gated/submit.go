package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

func (t *tool) submitCommand() *cobra.Command {
	var reason string
	var wait bool
	c := t.askCommand("submit", func(ctx context.Context, cl *client.Client, a op.Ask) error {
		// Bytes that are no text would arrive as others than were typed.
		if err := op.CheckText("reason", reason); err != nil {
			return err
		}
		job, err := submitted(ctx, cl, api.SubmitOf(reason, a))
		if err != nil {
			return err
		}
		if wait {
			if job, err = t.await(ctx, cl, job); err != nil {
				return err
			}
		}
		return t.jobEnd(job)
	})
	c.Flags().StringVar(&reason, "reason", "", flagReason)
	c.Flags().BoolVar(&wait, "wait", false, flagWait)
	return c
}

// submitted hands a job in, and says where that is so that nobody knows whether
// it was accepted.
func submitted(ctx context.Context, cl *client.Client, s api.Submit) (api.Job, error) {
	job, err := cl.Submit(ctx, s, "")
	return job, cli.Unanswered(err, "", wordsMaybeAccepted)
}

// awaited waits until done says so of a job that was accepted, and names the
// job where no daemon says how it ended.
func awaited(ctx context.Context, cl *client.Client, job api.Job, done func(api.Job) bool) (api.Job, error) {
	id := job.ID
	job, err := cl.AwaitJob(ctx, id, done)
	return job, cli.Unanswered(err, wasAccepted(id), "")
}

// await waits until a job has ended or a step of it waits for a signature.
func (t *tool) await(ctx context.Context, cl *client.Client, job api.Job) (api.Job, error) {
	still := func(j api.Job) bool { return !j.State.Open() || waits(j) }
	if still(job) {
		return job, nil
	}
	defer t.sayHeld(ctx, cl, job.ID)()
	return awaited(ctx, cl, job, still)
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
	if t.JSON {
		if err := t.Emit(j); err != nil {
			return err
		}
	} else {
		t.showJobLine(j)
	}
	if waits(j) {
		t.sayWaits(j)
		return cli.Ended(api.ExitWaits)
	}
	code := api.ExitOfState(j.State)
	if code != api.ExitDone && j.Error != nil {
		t.SayEnded(j.State, j.ID, j.Error)
	}
	return cli.Ended(code)
}

// sayWaits says of each step that waits how to sign it.
func (t *tool) sayWaits(j api.Job) {
	for _, s := range j.Steps {
		if s.State == op.StatePending {
			t.Say(wordsStepWaits, op.Shown(s.ID), op.Shown(s.Op), cli.Asked(s.Target, s.Params), op.Shown(s.Why), op.Shown(s.ID))
			for _, role := range otherRoles(s.Op) {
				t.Say(wordsStepOtherRole, op.Shown(s.ID), op.Shown(string(role)), op.Shown(string(role)))
			}
		}
	}
}

// otherRoles returns the roles in which an operation may be signed, and that
// opsign does not sign in by itself.
func otherRoles(name string) []op.Role {
	spec, err := op.Lookup(name)
	if err != nil {
		return nil // a newer gate's
	}
	return slices.DeleteFunc(slices.Clone(spec.Roles), func(r op.Role) bool { return r == op.Operational })
}

func (t *tool) showJobLine(j api.Job) {
	for _, s := range j.Steps {
		t.Print(wordsStep, op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(string(s.State)))
		if s.State == op.StateSucceeded && s.Detail != "" {
			t.Print(wordsStepDetail, op.Shown(s.Detail))
		}
	}
	t.Print("%s", cli.Outputs(j))
}
