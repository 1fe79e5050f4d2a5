package page

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// jobList is a page of the jobs of a gate, the newest first.
type jobList struct {
	Gate         string
	Jobs         []jobRow
	Older, Newer string
}

type jobRow struct {
	ID, State, By, Reason string
	Steps                 []string
	Created               time.Time
	Finished              *time.Time
}

// maxSteps is how many steps of a job the list names.
const maxSteps = 3

func (c Config) jobsPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	newest, err := newestJob(ctx, at)
	if err != nil {
		return err
	}
	to := newest
	if n := number(r, "to"); n > 0 && op.JobID(n) < newest {
		to = op.JobID(n)
	}
	above := max(to-pageOf, 0)
	jobs, err := jobsAbove(ctx, at.client, above)
	if err != nil {
		return err
	}
	p := jobList{Gate: at.gate.Name}
	for _, j := range slices.Backward(jobs) {
		if id, err := op.ParseJobID(j.ID); err == nil && id <= to {
			p.Jobs = append(p.Jobs, jobRowOf(j))
		}
	}
	here := "/g/" + at.gate.Name + "/jobs"
	if above > 0 {
		p.Older = here + "?to=" + strconv.FormatInt(int64(above), 10)
	}
	if to < newest {
		p.Newer = here + "?to=" + strconv.FormatInt(int64(to+pageOf), 10)
	}
	c.render(w, r, at.tab("jobs", "Jobs"), "jobs", p)
	return nil
}

func jobRowOf(j api.Job) jobRow {
	row := jobRow{ID: j.ID, State: cli.Inline(string(j.State)), By: cut(cli.Requesters(j.RequestedBy, j.Users, ", "), maxNames), Created: j.CreatedAt,
		Finished: j.FinishedAt, Reason: reasonOf(j.Reason, j.Reasons, j.Users)}
	for _, s := range j.Steps[:min(len(j.Steps), maxSteps)] {
		row.Steps = append(row.Steps, cut(cli.Inline(s.Op)+" "+cli.Asked(s.Target, s.Params), maxNames))
	}
	if more := len(j.Steps) - maxSteps; more > 0 {
		row.Steps = append(row.Steps, "and "+cli.Count(more, "more step"))
	}
	return row
}

// newestJob finds the number of the newest job; 0 if there is none. A gate lists jobs from a number on, the oldest first, so
// this doubles its steps from the newest number that is known, and then halves them.
func newestJob(ctx context.Context, at reached) (op.JobID, error) {
	known := op.JobID(0)
	for _, q := range at.gate.Requests {
		if id, err := op.ParseJobID(q.Job); err == nil {
			known = max(known, id)
		}
	}
	none := known // above it there is none; not known yet
	for step := op.JobID(1); ; step *= 2 {
		none = known + step - 1
		found, err := firstJob(ctx, at.client, none)
		if err != nil {
			return 0, err
		}
		if found == 0 {
			break
		}
		known = found
	}
	for known < none {
		middle := known + (none-known)/2
		found, err := firstJob(ctx, at.client, middle)
		switch {
		case err != nil:
			return 0, err
		case found == 0:
			none = middle
		default:
			known = found
		}
	}
	return known, nil
}

// firstJob returns the first job above a number, and 0 if there is none.
func firstJob(ctx context.Context, cl *client.Client, above op.JobID) (op.JobID, error) {
	list, err := cl.Jobs(ctx, client.JobQuery{After: after(above), Limit: 1})
	if err != nil || len(list.Jobs) == 0 {
		return 0, err
	}
	id, err := op.ParseJobID(list.Jobs[0].ID)
	if err == nil && (id <= above || id > 1<<53) {
		err = refusal.New(refusal.Internal, "the gate's list of jobs has no order").WithHint("is it a gate, and of this version?")
	}
	return id, err
}

// after is a number as a gate takes it for the begin of a list.
func after(id op.JobID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// maxAnswers is how many answers one page of jobs takes at most: long jobs make short answers.
const maxAnswers = 10

// jobsAbove returns up to pageOf jobs above a number.
func jobsAbove(ctx context.Context, cl *client.Client, above op.JobID) (jobs []api.Job, err error) {
	from := after(above)
	for range maxAnswers {
		list, err := cl.Jobs(ctx, client.JobQuery{After: from, Limit: pageOf})
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, list.Jobs...); list.Next == nil || len(jobs) >= pageOf {
			break
		}
		from = *list.Next
	}
	return jobs, nil
}

// job is the page of one job.
type job struct {
	Gate          string
	ID, State, By string
	Reasons       []string
	Created       time.Time
	Finished      *time.Time
	Waits         string // what it waits for, or why it failed
	Steps         []step
}

type step struct {
	ID, Op, Target, Params, State, Why, Detail, Error string
	Output                                            string
	Request                                           bool
	Updated                                           *time.Time
}

func (c Config) jobPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	id, err := op.ParseJobID(r.PathValue("job"))
	if err != nil {
		return refusal.New(refusal.UnknownTarget, "%q is no job", r.PathValue("job")).WithHint("the page of jobs has all of them")
	}
	j, err := at.client.Job(ctx, id.String())
	if err != nil {
		return err
	}
	p := job{Gate: at.gate.Name, ID: id.String(), State: cli.Inline(string(j.State)), By: cli.Requesters(j.RequestedBy, j.Users, ", "), Created: j.CreatedAt,
		Finished: j.FinishedAt, Reasons: lines(cli.Reasons("", j.Reason, j.Reasons, j.Users))}
	if j.Error != nil {
		p.Waits = errorText(j.Error)
	}
	for _, s := range j.Steps {
		one := step{ID: cli.Inline(s.ID), Op: cli.Inline(s.Op), Target: cli.Inline(s.Target), State: cli.Inline(string(s.State)),
			Why: cli.Inline(s.Why), Detail: cli.Inline(s.Detail), Output: cli.Printed("", s.Output), Updated: s.UpdatedAt}
		if len(s.Params) > 0 {
			one.Params = cli.Inline(string(s.Params.Canonical()))
		}
		if s.Error != nil {
			one.Error = errorText(s.Error)
		}
		_, err := op.ParseStepID(s.ID)
		one.Request = s.Request != nil && err == nil
		p.Steps = append(p.Steps, one)
	}
	c.render(w, r, at.tab("jobs", "Job "+p.ID), "job", p)
	return nil
}

func errorText(e *api.Error) string {
	text := string(e.Code) + ": " + e.Detail
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return cli.Inline(text)
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
