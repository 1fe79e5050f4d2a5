package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

func (t *tool) jobsCommand() *cobra.Command {
	var state string
	c := t.Command(cli.Words{
		Use:   "jobs [ID]",
		Short: "List jobs, or show one with its steps and what they printed",
		Example: "  gated jobs --state pending_signature\n" +
			"  gated jobs j12",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		if len(args) == 1 && state != "" {
			return cli.Usage("give an id or --state, not both")
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if len(args) == 0 {
			return t.listJobs(c, cl, op.State(state))
		}
		j, err := cl.Job(c.Context(), args[0])
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(j)
		}
		if err := t.showJob(j); err != nil {
			return err
		}
		t.Print("%s", cli.Outputs(j))
		return t.showPeople(c, cl, j)
	})
	c.ValidArgsFunction = t.completeJob("")
	c.Flags().StringVar(&state, "state", "", "only jobs in this `STATE`")
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("state", completeStates)
	return c
}

// listJobs prints jobs page by page, so that a long history needs no memory.
func (t *tool) listJobs(c *cobra.Command, cl *client.Client, state op.State) error {
	rows := []string{"ID\tSTATE\tWHAT\tFOR\tSINCE\tREASON"}
	for q := (client.JobQuery{State: state}); ; {
		page, err := cl.Jobs(c.Context(), q)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if !t.JSON {
				rows = append(rows, cli.Row(j.ID, string(j.State), what(j), strings.Join(j.RequestedBy, ","),
					cli.Moment(j.CreatedAt), j.Reason))
			} else if err := t.Emit(j); err != nil {
				return err
			}
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	if t.JSON {
		return nil
	}
	return t.Table(rows...)
}

// what names a job's first step, and how many more there are.
func what(j api.Job) string {
	if len(j.Steps) == 0 {
		return ""
	}
	text := cli.Inline(j.Steps[0].Op) + " " + cli.Asked(j.Steps[0].Target, j.Steps[0].Params)
	if n := len(j.Steps) - 1; n > 0 {
		text += " and " + count(n, "more step")
	}
	return text
}

func (t *tool) showJob(j api.Job) error {
	t.Print("%s %s, for %s, since %s\n",
		op.Shown(j.ID), op.Shown(string(j.State)), op.Shown(strings.Join(j.RequestedBy, ", ")), cli.Moment(j.CreatedAt))
	if j.Reason != "" {
		t.Print("  reason: %s\n", op.Shown(j.Reason))
	}
	rows := make([]string, 0, len(j.Steps))
	for _, s := range j.Steps {
		why := s.Detail
		if s.Error != nil {
			why = string(s.Error.Code) + ": " + s.Error.Detail
			if s.RetryAt != nil {
				why += "; tried again at " + cli.Moment(*s.RetryAt)
			}
		}
		rows = append(rows, "  "+cli.Row(s.ID, string(s.State), string(s.Class), s.Op, s.Target,
			string(s.Params.Canonical()), why))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	for _, s := range j.Steps {
		if s.Error != nil && s.Error.Hint != "" {
			t.Print("  %s hint: %s\n", op.Shown(s.ID), cli.Lines(s.Error.Hint))
		}
	}
	return nil
}

// showPeople says of each step that waits for people, or that a rule holds back,
// who signed, who is needed, and when it runs.
func (t *tool) showPeople(c *cobra.Command, cl *client.Client, j api.Job) error {
	for _, s := range j.Steps {
		if s.State != op.StatePending && s.State != op.StateAuthorized || s.Request == nil {
			continue
		}
		r, err := cl.Request(c.Context(), s.ID)
		if err != nil {
			return err
		}
		t.Print("%s", cli.Signed(r)+cli.Needed(r)+cli.Delays(r, time.Now()))
	}
	return nil
}

func (t *tool) cancelCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:     "cancel ID",
		Short:   "Withdraw a job of yours before it runs",
		Example: "  gated cancel j12",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		j, err := cl.Cancel(c.Context(), args[0])
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(j)
		}
		t.Print("%s is %s\n", op.Shown(j.ID), op.Shown(string(j.State)))
		return nil
	})
	c.ValidArgsFunction = t.completeJob(op.StatePending)
	return c
}
