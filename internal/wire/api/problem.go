package api

import (
	"gated/internal/base/op"
)

// ProblemType is the media type of a refusal (RFC 9457, section 3).
const ProblemType = "application/problem+json"

// problemBase and a code make the URI that names a kind of problem. It is only a name.
const problemBase = "urn:gated:problem:"

// Problem is a refusal on the wire (RFC 9457, section 3.1). Extension members have the stable code and other facts for
// programs.
type Problem struct {
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"` // a sentence for people
	Code    op.Code  `json:"code"`
	Hint    string   `json:"hint,omitempty"`    // what to do
	Stage   op.Stage `json:"stage,omitempty"`   // the check that refused
	Request string   `json:"request,omitempty"` // the request it is about, j12.1
	State   op.State `json:"state,omitempty"`   // and its state

	// Conflicts are others' reservations in the way.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// ProblemOf returns the part of an error that a caller may see.
func ProblemOf(err error) Problem {
	r := op.AsRefusal(err)
	m := MeaningOf(r.Code)
	p := Problem{
		Type: problemBase + string(r.Code), Title: m.Title, Status: m.Status,
		Detail: r.Detail, Code: r.Code, Hint: r.Hint, Stage: r.Stage, State: r.State,
	}
	if r.Request != nil {
		p.Request = r.Request.String()
	}
	return p
}

// Refusal rebuilds the daemon's error. A problem without a code is Internal: the answer is not from a gate, or from a
// broken one.
func (p Problem) Refusal() *op.Refusal {
	r := &op.Refusal{Code: p.Code, Stage: p.Stage, Detail: p.Detail, Hint: p.Hint, State: p.State}
	if r.Code == "" {
		r.Code = op.Internal
	}
	if id, err := op.ParseStepID(p.Request); err == nil {
		r.Request = &id
	}
	return r
}
