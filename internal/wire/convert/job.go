package convert

import (
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// JobOf puts a job on the wire.
func JobOf(j op.Job) api.Job {
	out := api.Job{ID: j.ID.String(), State: j.State(), Steps: make([]api.Step, 0, len(j.Steps)), Reason: j.Reason,
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
func StepOf(s op.Step) api.Step {
	out := api.Step{ID: s.ID.String(), Op: s.Op, Target: s.Target.String(), Incarnation: s.Incarnation, Params: params(s.Params),
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
func stepError(s op.Step) *api.Error {
	switch {
	case s.State == op.StatePending:
		return &api.Error{Code: refusal.PendingSignature, Detail: "waits for an operator: opsign approve " + s.ID.String()}
	case s.State == op.StateSucceeded:
		return nil
	case s.State.Open() && s.Code == "":
		return nil
	case s.State.Open():
		return &api.Error{Code: s.Code, Detail: s.Detail}
	}
	code := s.Code
	if code == "" {
		code = refusal.Internal
		if of, ok := endCodes[s.State]; ok {
			code = of
		}
	}
	hint := api.HintOfEnd(s.State, s.ID.Job.String(), code)
	if s.Undoes != 0 && s.State == op.StateSuperseded {
		hint = "look at " + s.Target.String() + " as it is now, and ask for what it should be"
	}
	return &api.Error{Code: code, Detail: s.Detail, Hint: hint}
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
