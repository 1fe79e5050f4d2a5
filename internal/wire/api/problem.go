package api

import (
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// ProblemType is the media type of a refusal (RFC 9457, section 3).
const ProblemType = "application/problem+json"

// problemBase and a code make the URI that names a kind of problem. It is only a name.
const problemBase = "urn:gated:problem:"

// Problem is a refusal on the wire (RFC 9457, section 3.1). Extension members have the stable code and other facts for
// programs.
type Problem struct {
	Type    string        `json:"type"`
	Title   string        `json:"title"`
	Status  int           `json:"status"`
	Detail  string        `json:"detail"` // a sentence for people
	Code    refusal.Code  `json:"code"`
	Hint    string        `json:"hint,omitempty"`    // what to do
	Stage   refusal.Stage `json:"stage,omitempty"`   // the check that refused
	Request string        `json:"request,omitempty"` // the request it is about, j12.1
	State   op.State      `json:"state,omitempty"`   // and its state

	// Conflicts are others' reservations in the way.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// ProblemOf returns the part of an error that a caller may see.
func ProblemOf(err error) Problem {
	r := refusal.As(err)
	m := MeaningOf(r.Code)
	return Problem{
		Type: problemBase + string(r.Code), Title: m.Title, Status: m.Status,
		Detail: r.Detail, Code: r.Code, Hint: r.Hint, Stage: r.Stage, State: op.State(r.State), Request: r.Request,
	}
}

// Refusal rebuilds the daemon's error. A problem without a code is Internal: the answer is not from a gate, or from a
// broken one.
func (p Problem) Refusal() *refusal.Refusal {
	r := &refusal.Refusal{Code: p.Code, Stage: p.Stage, Detail: p.Detail, Hint: p.Hint, State: p.State.String()}
	if r.Code == "" {
		r.Code = refusal.Internal
	}
	if _, err := op.ParseStepID(p.Request); err == nil {
		r.Request = p.Request
	}
	return r
}
