package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

func (t *tool) submitCommand() *cobra.Command {
	var reason string
	var wait string
	c := t.askCommand(cli.Words{
		Use:   "submit OP NAME [-p NAME=VALUE]...",
		Short: "Ask for an operation on a guest, or for a command to run",
		Long: `A benign operation runs at once; --wait waits for its end. A destructive operation waits for a signature:
exit code 3, with or without --wait. With --wait=signed, it waits for the operator too, until the job has ended.

The catalogue (gated ops) says which type a parameter has. Memory may have a unit (512MiB, 2GiB). Labels are written
one by one, -p labels.tier=prod, or as JSON, -p labels='{"tier":"prod"}'. command.run has the parameters of its
command (gated commands).`,
		Example: "  gated submit guest.create web-1 -p memory=512MiB -p labels.tier=prod --wait\n" +
			"  gated submit guest.destroy web-1 --reason \"no longer needed\"\n" +
			"  gated submit command.run drop-db -p database=shop --reason \"moved to the new host\"",
	}, func(ctx context.Context, cl *client.Client, a op.Ask) error {
		// Bytes that are no text would arrive as others than were typed.
		if err := op.CheckText("reason", reason); err != nil {
			return err
		}
		switch wait {
		case "", "true", "false", untilSigned:
		default:
			return cli.Usage("--wait is followed by nothing, or by =signed")
		}
		job, err := submitted(ctx, cl, convert.SubmitOf(reason, a))
		switch {
		case err != nil:
			return err
		case wait == "true":
			job, err = t.await(ctx, cl, job)
		case wait == untilSigned:
			job, err = t.untilEnded(ctx, cl, job)
		}
		if err != nil {
			return err
		}
		return t.jobEnd(job)
	})
	c.Flags().StringVar(&reason, "reason", "", flagReason)
	c.Flags().StringVar(&wait, "wait", "", "wait for the end, or until a step waits for a signature; =`signed`: for the end")
	c.Flags().Lookup("wait").NoOptDefVal = "true"
	return c
}

// submitted hands a job in, and says where that is so that nobody knows whether
// it was accepted.
func submitted(ctx context.Context, cl *client.Client, s api.Submit) (api.Job, error) {
	job, err := cl.Submit(ctx, s, "")
	return job, cli.Unanswered(err, "", "whether the job was accepted is not known: gated jobs lists those that were")
}

// awaited waits until a job that was accepted stands as until says, and names the
// job where no daemon says how it ended.
func awaited(ctx context.Context, cl *client.Client, job api.Job, until api.Until) (api.Job, error) {
	id := job.ID
	job, err := cl.WaitJob(ctx, id, until)
	return job, cli.Unheard(err, wasAccepted(id))
}

// await waits until a job has ended or a step of it waits for a signature.
func (t *tool) await(ctx context.Context, cl *client.Client, job api.Job) (api.Job, error) {
	if api.UntilPending.Met(job) {
		return job, nil
	}
	defer t.sayHeld(ctx, cl, job.ID)()
	return awaited(ctx, cl, job, api.UntilPending)
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
	if j.Pending() {
		t.sayWaits(j, !t.JSON)
		return cli.Ended(api.ExitWaits)
	}
	code := api.ExitOfState(j.State)
	if code != api.ExitDone && j.Error != nil {
		t.SayEnded(j.State, j.ID, j.Error)
	}
	return cli.Ended(code)
}

// sayWaits says of each step that waits how to sign it, and which it is, unless a line above it said so.
func (t *tool) sayWaits(j api.Job, named bool) {
	for _, s := range j.Steps {
		if s.State == op.StatePending {
			asked := " " + op.Shown(s.Op) + " " + cli.Asked(s.Target, s.Params)
			if named {
				asked = strings.TrimPrefix(cli.Asked(s.Target, s.Params), cli.Inline(s.Target))
			}
			t.Say("%s  opsign approve %s\n", cli.Told(fmt.Sprintf("%s%s waits for a signature: %s\n",
				op.Shown(s.ID), asked, op.Shown(s.Why)), t.Stderr), op.Shown(s.ID))
			for _, role := range otherRoles(s.Op) {
				t.Say("  opsign approve %s --role %s   # if you are listed for %s\n",
					op.Shown(s.ID), op.Shown(string(role)), op.Shown(string(role)))
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
		t.Print("%s %s %s: %s\n", op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(string(s.State)))
		if s.State == op.StateSucceeded && s.Detail != "" {
			t.Print("  %s\n", op.Shown(s.Detail))
		}
	}
	t.Print("%s", cli.Outputs(j))
}

func wasAccepted(job string) string {
	return fmt.Sprintf("%s was accepted; gated jobs %s says how it ended", op.Shown(job), op.Shown(job))
}

// heldLook is how often a job that is waited for is asked why it does not go on:
// no event tells of a step that could not begin.
const heldLook = 2 * time.Second

// sayHeld says, once each time that it changes, why a step of a job is held back,
// until the function that it returns is called.
func (t *tool) sayHeld(ctx context.Context, cl *client.Client, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heldLook)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if j, err := cl.Job(ctx, id); err == nil {
				said = t.sayHeldOf(j, said)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// sayHeldOf says why the first step that is held back is, unless that is what was
// said, and returns the reason; what was said if nothing is held back.
func (t *tool) sayHeldOf(j api.Job, said string) string {
	for _, s := range j.Steps {
		if s.RetryAt == nil || s.Error == nil {
			continue
		}
		if s.Error.Detail != said {
			t.Say("%s %s %s cannot run now and is tried again: %s\n",
				op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(s.Error.Detail))
		}
		return s.Error.Detail
	}
	return said
}

// askCommand returns a command that asks the daemon about OP NAME.
func (t *tool) askCommand(w cli.Words, send func(context.Context, *client.Client, op.Ask) error) *cobra.Command {
	var given cli.Pairs
	c := t.Command(w, cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		a, err := ask(args[0], args[1], given)
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			return nearGuest(c.Context(), cl, a.Target, send(c.Context(), cl, a))
		})
	})
	c.ValidArgsFunction = t.completeOpName
	cli.ParamFlag(c, &given, t.completeCommandParam)
	return c
}

// ask reads OP NAME and parameters. The name may be written with its kind, as
// gated prints it. What the catalogue does not know is left for the gate to
// refuse, so that its audit log has it.
func ask(name, target string, given cli.Pairs) (op.Ask, error) {
	kind, _, ok := strings.Cut(name, ".")
	if !ok {
		return op.Ask{}, op.NoOp(name)
	}
	spec, unknown := op.Lookup(name)
	to, err := cli.Target(kind, target)
	if err != nil && unknown != nil {
		return op.Ask{}, unknown
	}
	if err != nil {
		return op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return op.Ask{}, err
	}
	return op.Ask{Op: name, Target: to, Params: p}, nil
}
