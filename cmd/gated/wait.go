package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// untilSigned is the value of --wait with which a command also waits for an operator.
const untilSigned = "signed"

// waitSignedFlag adds --wait=signed to a command whose step never ends without an operator. In earlier versions it was --wait there.
func waitSignedFlag(c *cobra.Command, wait *bool) {
	c.Flags().Func("wait", "=`signed`: wait for the end, also for an operator's signature", func(text string) error {
		old, err := strconv.ParseBool(text) // of earlier versions
		if *wait = text == untilSigned || old; err != nil && !*wait {
			return errors.New("it is followed by nothing but =signed")
		}
		return nil
	})
	c.Flags().Lookup("wait").NoOptDefVal = untilSigned
}

func (t *tool) waitCommand() *cobra.Command {
	var timeout time.Duration
	c := t.Command(cli.Words{
		Use:   "wait ID",
		Short: "Wait until a job has ended, also if an operator has to sign it first",
		Long: `The daemon says when the job changes; the command does not poll. It prints the job as it ended.

Exit codes: 0 done, 1 rejected, failed or ended without being done, 3 not ended when --timeout was over.`,
		Example: "  gated wait j12\n" +
			"  gated wait j12 --timeout 10m --json",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("timeout") && timeout <= 0 {
			return cli.Usage("--timeout is not above 0: leave it out to wait as long as it takes")
		}
		return t.With(func(cl *client.Client) error { return t.waitFor(c.Context(), cl, args[0], timeout) })
	})
	c.ValidArgsFunction = t.completeJob("")
	c.Flags().DurationVar(&timeout, "timeout", 0, "wait at most `D` (default: as long as it takes)")
	return c
}

// waitFor waits until a job has ended, or the time is over if it is not 0, and prints how the job stands.
func (t *tool) waitFor(ctx context.Context, cl *client.Client, id string, most time.Duration) error {
	job, err := cl.Job(ctx, id)
	if err != nil {
		return err
	}
	limited, cancel := ctx, func() {}
	if most > 0 {
		limited, cancel = context.WithTimeout(ctx, most)
	}
	defer cancel()
	job, err = t.untilEnded(limited, cl, job)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		job, err = cl.Job(ctx, id) // it was last read when the wait began
	}
	if err != nil {
		return err
	}
	err = t.jobEnd(job)
	if err == nil && job.State.Open() {
		t.Say("%s is %s: it has not ended in %s\n", op.Shown(job.ID), op.Shown(string(job.State)), most)
		return cli.Ended(api.ExitWaits)
	}
	return err
}

// untilEnded waits until a job has ended. It says each time that a step begins to wait for a signature, and when none
// does any more.
func (t *tool) untilEnded(ctx context.Context, cl *client.Client, job api.Job) (api.Job, error) {
	said := ""
	for job.State.Open() {
		until := api.UntilPending
		if job.Pending() {
			until = api.UntilDecided
			t.sayWaits(job, false)
		} else {
			said = t.sayHeldOf(job, said)
		}
		next, err := awaited(ctx, cl, job, until)
		if err != nil {
			return next, err
		}
		if next.State.Open() {
			t.sayDecided(job, next)
		}
		job = next
	}
	return job, nil
}

// sayDecided says what became of the steps that waited, in a job that goes on. After a rejection it goes on to take back
// its earlier steps, which may need a signature too.
func (t *tool) sayDecided(before, now api.Job) {
	approved := false
	for i, was := range before.Steps {
		if was.State != op.StatePending || i >= len(now.Steps) {
			continue
		}
		switch is := now.Steps[i].State; {
		case is == op.StatePending:
		case is.Open() || is == op.StateSucceeded:
			approved = true
		default:
			t.Say("%s is %s, and its job goes on\n", op.Shown(was.ID), op.Shown(string(is)))
		}
	}
	if approved {
		t.Say("%s was approved, and goes on\n", op.Shown(now.ID))
	}
}
