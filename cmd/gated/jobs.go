package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

func (t *tool) jobsCommand() *cobra.Command {
	var state string
	var wait bool
	c := t.Command(cli.Words{
		Use:   "jobs [ID]",
		Short: "List jobs, or show one with its steps and what they printed",
		Example: "  gated jobs --in pending_signature\n" +
			"  gated jobs j12",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		if len(args) == 1 && state != "" {
			return cli.Usage("give an id or --in, not both")
		}
		if len(args) == 0 && wait {
			return cli.Usage("--wait needs the id of a job")
		}
		return t.With(func(cl *client.Client) error {
			if len(args) == 0 {
				return t.listJobs(c, cl, op.State(state))
			}
			if wait {
				return t.waitFor(c.Context(), cl, args[0], 0)
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
	})
	c.ValidArgsFunction = t.completeJob("")
	c.Flags().StringVar(&state, "in", "", "only jobs in this `STATE`")
	cli.Renamed(c, "state", "in")
	c.Flags().BoolVar(&wait, "wait", false, "as gated wait")
	// They fail only for flags that are not there.
	_ = c.Flags().MarkHidden("wait")
	_ = c.RegisterFlagCompletionFunc("in", completeStates)
	return c
}

// listJobs prints jobs page by page, so that a long history needs no memory.
func (t *tool) listJobs(c *cobra.Command, cl *client.Client, state op.State) error {
	columns := []cli.Column{{Head: "ID"}, {Head: "STATE", Rank: 1}, {Head: "OP"}, {Head: "TARGET"}, {Head: "WHAT", Rank: 2}, {Head: "FOR", Rank: 4, Once: "each is for"},
		{Head: "SINCE", Rank: 3, Least: 20}, {Head: "REASON", Rank: 5}}
	var rows [][]string
	for q := (client.JobQuery{State: state}); ; {
		page, err := cl.Jobs(c.Context(), q)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if !t.JSON {
				first, target, what := doneFirst(j)
				rows = append(rows, []string{j.ID, string(j.State), first, target, what, strings.Join(j.RequestedBy, ","),
					cli.Moment(j.CreatedAt), cli.ReasonsInLine(j.Reason, j.Reasons)})
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
	return t.List(columns, rows)
}

// doneFirst names a job's first step, its target, and its parameters, with how many more steps there are.
func doneFirst(j api.Job) (name, target, what string) {
	if len(j.Steps) == 0 {
		return "", "", ""
	}
	s := j.Steps[0]
	what = cli.Settings(s.Params)
	if n := len(j.Steps) - 1; n > 0 {
		what = strings.TrimSuffix("and "+cli.Count(n, "more step")+"; "+what, "; ")
	}
	return cli.OpInLine(s.Op), s.Target, what
}

func (t *tool) showJob(j api.Job) error {
	t.Print("%s %s, for %s, since %s\n",
		op.Shown(j.ID), op.Shown(string(j.State)), op.Shown(strings.Join(j.RequestedBy, ", ")), cli.Moment(j.CreatedAt))
	switch {
	case len(j.Reasons) > 1:
		t.Print("%s", cli.Reasons("  ", j.Reason, j.Reasons))
	case j.Reason != "":
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
	c := t.Asking(cli.Words{
		Use:     "cancel ID",
		Short:   "Withdraw a job of yours before it runs",
		Example: "  gated cancel j12",
	}, cobra.ExactArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		j, err := cl.Cancel(c.Context(), args[0])
		if err != nil {
			return err
		}
		return t.Answer(j, "%s is %s\n", op.Shown(j.ID), op.Shown(string(j.State)))
	})
	c.ValidArgsFunction = t.completeJob(op.StatePending)
	return c
}

// quiet is how long nothing may happen to a document's guests, while something
// is left to do, before it is asked whether anything is still done about it.
const quiet = 3 * time.Second

// settling watches one document until what it wishes is true, waits for
// signatures, or has failed.
type settling struct {
	cl      *client.Client
	doc     document
	by      string // how the set is called as a requester
	targets map[string]bool
	failed  map[string]api.Error // by target
	held    map[string]string    // by target: what was said of why its job does not go on
}

// settle waits for a document that was put after the entry numbered since.
func (t *tool) settle(ctx context.Context, cl *client.Client, d document, since int64, out *applied) error {
	s := settling{cl: cl, doc: d, by: op.Requester{Source: op.SourceDesired, Set: d.set}.String(),
		targets: map[string]bool{}, failed: map[string]api.Error{}, held: map[string]string{}}
	for _, g := range d.Guests {
		s.targets[g.Target().String()] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entries, broken := s.follow(ctx, since)
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		done, err := s.look(ctx, out)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case e := <-entries:
			if err := s.note(ctx, e); err != nil {
				return err
			}
			for len(entries) > 0 { // one look is enough for all of them
				if err := s.note(ctx, <-entries); err != nil {
					return err
				}
			}
			silence.Reset(quiet)
		case <-silence.C:
			if err := t.stuck(ctx, s, out); err != nil {
				return err
			}
			silence.Reset(quiet)
		}
	}
}

// follow sends the entries about the document's guests until ctx ends.
func (s settling) follow(ctx context.Context, since int64) (<-chan api.Entry, <-chan error) {
	entries, broken := make(chan api.Entry, 256), make(chan error, 1)
	go func() {
		broken <- s.cl.Events(ctx, since, true, func(e api.Entry) error {
			if !s.targets[e.Target] {
				return nil
			}
			select {
			case entries <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return entries, broken
}

// note remembers how a job of the set's ended, and forgets it when the same
// guest is asked for again.
func (s settling) note(ctx context.Context, e api.Entry) error {
	if e.Job == "" {
		if e.Code != "" && e.By == s.by {
			s.failed[e.Target] = api.Error{Code: e.Code, Detail: e.Detail}
		}
		return nil
	}
	j, err := s.cl.Job(ctx, e.Job)
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(j.RequestedBy, s.by):
	case j.State.Open(), j.State == op.StateSucceeded:
		delete(s.failed, e.Target)
	case j.State != op.StateSuperseded && j.State != op.StateCancelled && j.Error != nil:
		s.failed[e.Target] = *j.Error
	}
	return nil
}

// look compares the document with how things are. It is done when nothing is
// left that gated could do by itself.
func (s settling) look(ctx context.Context, out *applied) (done bool, err error) {
	plan, err := s.cl.Plan(ctx, s.doc.set, s.doc.body)
	if errors.Is(err, refusal.OverLimit) {
		return false, nil // another plan of this user is being made; look again later
	}
	if err != nil {
		return false, err
	}
	pending, err := s.cl.Requests(ctx, op.StatePending)
	if err != nil {
		return false, err
	}
	waiting := map[question]string{}
	for _, r := range pending {
		if slices.Contains(r.RequestedBy, s.by) {
			waiting[question{r.Target, r.Op}] = r.ID
		}
	}
	out.Plan, out.Waiting, out.Failed = &plan, []string{}, []failedGuest{}
	open := 0
	for _, g := range plan.Guests {
		target := op.Target{Kind: "guest", Name: g.Name}.String()
		failure, failed := s.failed[target]
		request := requestOf(g, target, waiting)
		switch {
		case g.Action == api.ActionNone:
		case request != "":
			out.Waiting = append(out.Waiting, request)
		case failed:
			out.Failed = append(out.Failed, failedGuest{target, failure})
		case g.Action == api.ActionError && g.Error != nil:
			out.Failed = append(out.Failed, failedGuest{target, *g.Error})
		default:
			open++
		}
	}
	return open == 0, nil
}

// question is what a request asks of operators.
type question struct{ target, op string }

// requestOf returns the set's request for a step of a guest's plan that waits for
// a signature, "" where there is none yet.
func requestOf(g api.PlannedGuest, target string, waiting map[question]string) string {
	for _, step := range g.Steps {
		if id := waiting[question{target, step.Op}]; id != "" && step.Class == op.Destructive {
			return id
		}
	}
	return ""
}

// stuck says of the guests that something is done about why it does not go on. It
// gives up on the others: what is wished of them ended before in a way that gated
// does not try again by itself.
func (t *tool) stuck(ctx context.Context, s settling, out *applied) error {
	if out.Plan == nil {
		return nil // it was not the turn of this look yet
	}
	busy, err := s.jobs(ctx, op.StatePlanned, op.StatePending, op.StateAuthorized, op.StateDispatched)
	if err != nil {
		return err
	}
	ended, err := s.jobs(ctx, op.StateRejected, op.StateFailed, op.StateInterrupted, op.StateRefused, op.StateExpired)
	if err != nil {
		return err
	}
	for _, g := range out.Plan.Guests {
		target := op.Target{Kind: "guest", Name: g.Name}.String()
		_, known := s.failed[target]
		if known || g.Action == api.ActionNone {
			continue
		}
		if j, works := busy[target]; works {
			if j, err = s.cl.Job(ctx, j.ID); err != nil { // a list does not say why a job waits
				return err
			}
			s.held[target] = t.sayHeldOf(j, s.held[target])
			continue
		}
		failure := api.Error{Code: refusal.Unavailable, Detail: "gated does nothing about it; gated status may say why"}
		if j, ok := ended[target]; ok && j.Error != nil {
			failure = *j.Error
		}
		s.failed[target] = failure
	}
	return nil
}

// jobs returns the set's newest job for each of the document's guests, of those
// in the given states.
func (s settling) jobs(ctx context.Context, states ...op.State) (map[string]api.Job, error) {
	newest := map[string]api.Job{}
	for _, state := range states {
		for q := (client.JobQuery{State: state}); ; {
			page, err := s.cl.Jobs(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, j := range page.Jobs {
				if len(j.Steps) == 0 || !slices.Contains(j.RequestedBy, s.by) {
					continue
				}
				target := j.Steps[0].Target
				if old, ok := newest[target]; s.targets[target] && (!ok || j.CreatedAt.After(old.CreatedAt)) {
					newest[target] = j
				}
			}
			if page.Next == nil {
				break
			}
			q.After = *page.Next
		}
	}
	return newest, nil
}
