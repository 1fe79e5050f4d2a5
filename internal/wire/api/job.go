package api

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Error says why a job or step ended as it did, or what it waits for.
type Error struct {
	Code   refusal.Code `json:"code"`
	Detail string       `json:"detail"`
	Hint   string       `json:"hint,omitempty"` // what to do; may be empty
}

// Err returns the error as a refusal, nil for nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	return &refusal.Refusal{Code: e.Code, Detail: e.Detail, Hint: e.Hint}
}

// Job is an ordered list of steps.
type Job struct {
	ID          string     `json:"id"`    // j12
	State       op.State   `json:"state"` // of its first unfinished step
	Steps       []Step     `json:"steps"`
	RequestedBy []string   `json:"requested_by"` // uid:1000, desired:web, gate
	Reason      string     `json:"reason"`       // the first requester's
	Reasons     []Reason   `json:"reasons"`      // of each requester
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at"` // null while a step is open

	// Request is the first request that waits. Error says what the job waits for, or why it failed. Each may be null.
	Request *string `json:"request"`
	Error   *Error  `json:"error"`
}

// Step is one operation on one target.
type Step struct {
	ID          string         `json:"id"` // j12.1
	Op          string         `json:"op"`
	Target      string         `json:"target"`
	Incarnation op.Incarnation `json:"incarnation"`
	Params      op.Params      `json:"params"`
	State       op.State       `json:"state"`
	Class       op.Class       `json:"class"`
	Rule        string         `json:"rule"`
	Why         string         `json:"why"`
	Undoes      int            `json:"undoes"`             // the number of the step that this one takes back, or 0
	Attempts    int            `json:"attempts"`           // how often a benign step was dispatched
	Detail      string         `json:"detail"`             // what was done, for people
	Output      string         `json:"output,omitempty"`   // what it printed; in the answer about one job alone
	Request     *string        `json:"request"`            // of a destructive step
	RetryAt     *time.Time     `json:"retry_at,omitempty"` // next try of an open step that could not run
	Error       *Error         `json:"error"`
	UpdatedAt   *time.Time     `json:"updated_at"`
}

// JobOf puts a job on the wire.
func JobOf(j op.Job) Job {
	out := Job{ID: j.ID.String(), State: j.State(), Steps: make([]Step, 0, len(j.Steps)), Reason: j.Reason,
		RequestedBy: requesters(j.Requesters), Reasons: reasons(j.Reasons), CreatedAt: j.CreatedAt.UTC(), FinishedAt: moment(j.FinishedAt)}
	for _, s := range j.Steps {
		step := StepOf(s)
		if out.Error == nil && s.State == out.State {
			out.Error = step.Error
		}
		if out.Request == nil && s.State == op.StatePending {
			out.Request = step.Request
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// StepOf puts a step on the wire.
func StepOf(s op.Step) Step {
	out := Step{ID: s.ID.String(), Op: s.Op, Target: s.Target.String(), Incarnation: s.Incarnation, Params: params(s.Params),
		State: s.State, Class: s.Verdict.Class, Rule: s.Verdict.Rule, Why: s.Verdict.Why, Undoes: s.Undoes,
		Attempts: s.Attempts, Detail: s.Detail, Output: s.Output, Error: stepError(s), RetryAt: moment(s.RetryAt), UpdatedAt: moment(s.UpdatedAt)}
	if s.Verdict.Class == op.Destructive || s.State == op.StatePending {
		id := s.ID.String()
		out.Request = &id
	}
	return out
}

// endCodes are the states that name the code of their own end.
var endCodes = map[op.State]refusal.Code{op.StateRejected: refusal.Rejected, op.StateExpired: refusal.Expired,
	op.StateSuperseded: refusal.Superseded, op.StateCancelled: refusal.Cancelled}

// stepError says what a step waits for, or why it failed. The journal has the refusal's code and detail; the hint
// follows from the code.
func stepError(s op.Step) *Error {
	switch {
	case s.State == op.StatePending:
		return &Error{Code: refusal.PendingSignature, Detail: "waits for an operator: opsign approve " + s.ID.String()}
	case s.State == op.StateSucceeded:
		return nil
	case s.State.Open() && s.Code == "":
		return nil
	case s.State.Open():
		return &Error{Code: s.Code, Detail: s.Detail}
	}
	code := s.Code
	if code == "" {
		code = refusal.Internal
		if of, ok := endCodes[s.State]; ok {
			code = of
		}
	}
	return &Error{Code: code, Detail: s.Detail, Hint: HintOfEnd(s.State, s.ID.Job.String(), code)}
}

func requesters(rs []op.Requester) []string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, r.String())
	}
	return out
}

// params returns p, or an empty object in the place of null.
func params(p op.Params) op.Params {
	if p == nil {
		return op.Params{}
	}
	return p
}

// moment returns t in UTC, nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}
