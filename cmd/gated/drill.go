package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

// drillFlags are what gated drill asks for.
type drillFlags struct {
	as, target, reason string
	wait               bool
	timeout            time.Duration
}

// drillTime is how long gated drill waits, and drillEnd how long it then waits for the end of a signed drill.
const (
	drillTime = 15 * time.Minute
	drillEnd  = 10 * time.Second
)

func (t *tool) drillCommand() *cobra.Command {
	var f drillFlags
	c := t.Command(cli.Words{
		Use:   "drill",
		Short: "Have people sign a step that changes nothing, and see how long they take",
		Long: `For operators. Asks for the signatures that the rules would ask for the operation --as at --target. What people
sign begins with DRILL, and nothing is changed. The command waits, and prints who signed and how long that took. If too
few sign within --timeout, it withdraws the request and says so: exit code 1. With --wait=false it only asks: exit code
3. Labels of the target are not looked at, so rules with labels do not match.`,
		Example: "  gated drill --as guest.destroy --target guest/db-1\n" +
			"  gated drill status",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if f.timeout <= 0 {
			return cli.Usage("--timeout is not above 0")
		}
		if err := op.CheckText("reason", f.reason); err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return t.drill(c.Context(), cl, f)
	})
	c.Flags().StringVar(&f.as, "as", "guest.destroy", "the operation `OP` whose rules hold")
	c.Flags().StringVar(&f.target, "target", "", "the target `KIND/NAME` at which they hold (default: rules for some names do not)")
	c.Flags().StringVar(&f.reason, "reason", "a drill: can you be reached, and sign?", flagReason)
	c.Flags().BoolVar(&f.wait, "wait", true, "wait until it was signed; =false: only ask")
	c.Flags().DurationVar(&f.timeout, "timeout", drillTime, "withdraw it after `D`")
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("as", completeRehearsed)
	c.AddCommand(t.drillStatusCommand())
	return c
}

// completeRehearsed completes the operations that a drill may rehearse.
func completeRehearsed(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, spec := range op.Catalogue() {
		if _, _, err := op.Rehearsed(op.Params{"as": spec.Name}); err == nil {
			out = append(out, spec.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// drill asks for a drill, waits for people, and prints how it went.
func (t *tool) drill(ctx context.Context, cl *client.Client, f drillFlags) error {
	p := op.Params{"as": f.as}
	if f.target != "" {
		p["target"] = f.target
	}
	job, err := submitted(ctx, cl, convert.SubmitOf(f.reason, op.Ask{Op: op.Drill, Target: op.Drilled, Params: p}))
	if err != nil {
		return err
	}
	if !f.wait || job.Request == nil {
		return t.jobEnd(job)
	}
	t.sayWaits(job)
	t.Say("waiting for %s at most; Ctrl-C leaves the drill open\n", f.timeout)
	if err := t.answered(ctx, cl, job, f.timeout); err != nil {
		return err
	}
	return t.drillEnded(ctx, cl, *job.Request, f.timeout)
}

// answered waits until people decided on a drill, and says who signed meanwhile. After the time it withdraws the
// drill.
func (t *tool) answered(ctx context.Context, cl *client.Client, job api.Job, most time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	said := map[string]bool{}
	now, err := cl.AwaitJob(limited, job.ID, func(j api.Job) bool {
		if r, err := cl.Request(limited, *job.Request); err == nil && j.Pending() {
			t.saySigned(r, said)
		}
		return !j.Pending()
	})
	if limited.Err() != nil && ctx.Err() == nil && (err != nil || now.Pending()) {
		now, err = cl.Cancel(ctx, job.ID)
		if errors.Is(err, refusal.Conflict) {
			now, err = cl.Job(ctx, job.ID) // it was decided at the last moment
		}
	}
	if err != nil {
		return cli.Unanswered(err, wasAccepted(job.ID), "")
	}
	return over(ctx, cl, now)
}

// over waits for the end of a drill that was signed. It comes at once, unless the drill cools off or waits for its window.
func over(ctx context.Context, cl *client.Client, job api.Job) error {
	if !job.State.Open() || job.Pending() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, drillEnd)
	defer cancel()
	_, err := cl.WaitJob(limited, job.ID, api.UntilEnded)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return cli.Unanswered(err, wasAccepted(job.ID), "")
}

// saySigned says, of each person once, that they signed.
func (t *tool) saySigned(r api.Request, said map[string]bool) {
	for _, s := range r.Signatures {
		if !said[s.Principal] {
			said[s.Principal] = true
			t.Say("signed by %s after %s; %d more needed\n", op.ShownName(s.Principal), cli.Span(s.SignedAt.Sub(r.CreatedAt)), r.Missing)
		}
	}
}

// drillEnded prints how a drill went, and ends with the code for that.
func (t *tool) drillEnded(ctx context.Context, cl *client.Client, id string, most time.Duration) error {
	r, err := cl.Request(ctx, id)
	if err != nil {
		return err
	}
	d := drillOf(r)
	if t.JSON {
		if err := t.Emit(d); err != nil {
			return err
		}
	} else {
		t.Print("%s\n", drillText(d))
	}
	switch {
	case d.State == op.StateSucceeded:
		return nil
	case d.State == op.StatePending:
		t.Say("too few people signed in %s, and another operator still asks for this drill\n", most)
		return cli.Ended(api.ExitRefused)
	case d.State.Open():
		return cli.Ended(api.ExitWaits)
	case d.State == op.StateCancelled:
		t.Say("too few people signed in %s, and the drill was withdrawn\n", most)
	}
	return cli.Ended(api.ExitRefused)
}

// drillOf is how a drill went by its request.
func drillOf(r api.Request) api.Drill {
	d := api.Drill{Request: r.ID, As: r.Params.Str("as"), Target: r.Params.Str("target"), State: r.State, RequestedBy: r.RequestedBy,
		AskedAt: r.CreatedAt, SignedBy: []string{}}
	last := time.Time{}
	for _, s := range r.Signatures {
		d.SignedBy = append(d.SignedBy, s.Principal)
		if s.SignedAt.After(last) {
			last = s.SignedAt
		}
	}
	if r.State != op.StatePending && !last.IsZero() && (r.State.Open() || r.State == op.StateSucceeded) {
		d.EndedAt, d.Seconds = &last, max(last.Sub(r.CreatedAt).Seconds(), 0)
	}
	return d
}

// drillText says in a line how a drill went.
func drillText(d api.Drill) string {
	what := fmt.Sprintf("%s as %s", op.Shown(d.Request), op.Rehearses(op.Params{"as": d.As}))
	if d.Target != "" {
		what = fmt.Sprintf("%s as %s", op.Shown(d.Request), op.Rehearses(op.Params{"as": d.As, "target": d.Target}))
	}
	by := cli.People(d.SignedBy)
	took := cli.Span(time.Duration(d.Seconds * float64(time.Second)))
	switch {
	case d.State == op.StateSucceeded:
		return fmt.Sprintf("drill %s: signed in %s by %s; nothing was changed", what, took, by)
	case d.State == op.StatePending && by != "":
		return fmt.Sprintf("drill %s: waits, signed by %s so far", what, by)
	case d.State == op.StatePending:
		return fmt.Sprintf("drill %s: waits, signed by nobody", what)
	case d.State.Open():
		return fmt.Sprintf("drill %s: signed in %s by %s; its delay is not over", what, took, by)
	case by != "":
		return fmt.Sprintf("drill %s: %s, signed by %s alone", what, op.Shown(string(d.State)), by)
	}
	return fmt.Sprintf("drill %s: %s, signed by nobody", what, op.Shown(string(d.State)))
}

func (t *tool) drillStatusCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:     "status",
		Short:   "Show the last drills: the open one, the last signed one, the last that ended unsigned",
		Example: "  gated drill status --json",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := t.status(c.Context())
		if err != nil {
			return err
		}
		if s.Drills == nil {
			return refusal.New(refusal.Unavailable, "the daemon is of a version without drills")
		}
		if t.JSON {
			return t.Emit(*s.Drills)
		}
		t.Print("%s", drillsText(*s.Drills))
		return nil
	})
}

// drillsText lists the newest drills, a line each with the time of its request.
func drillsText(all api.Drills) string {
	text := ""
	for _, d := range slices.DeleteFunc([]*api.Drill{all.Open, all.Signed, all.Unanswered}, func(d *api.Drill) bool { return d == nil }) {
		text += cli.Moment(d.AskedAt) + " " + drillText(*d) + "\n"
	}
	if text == "" {
		return "no drill known: gated drill\n"
	}
	return text
}

// lastDrillText says when the last signed drill was. It is empty if there was none, and of an older daemon.
func lastDrillText(all *api.Drills) string {
	switch {
	case all == nil, all.Signed == nil && all.Unanswered == nil && all.Open == nil:
		return ""
	case all.Signed == nil:
		return "no drill was signed yet: gated drill status\n"
	}
	text := "last drill " + cli.Moment(all.Signed.AskedAt) + ", signed in " + cli.Span(time.Duration(all.Signed.Seconds*float64(time.Second)))
	if u := all.Unanswered; u != nil && u.AskedAt.After(all.Signed.AskedAt) {
		text += "; a later one was not signed"
	}
	return text + "\n"
}
