package api

import "gated/internal/base/op"

// Explanation is the answer to POST /v1/classify: the class of a step, and why.
type Explanation struct {
	Op               string         `json:"op"`
	Target           string         `json:"target"`
	Incarnation      op.Incarnation `json:"incarnation"`
	StateFingerprint op.Fingerprint `json:"state_fingerprint"`
	Params           op.Params      `json:"params"`
	Class            op.Class       `json:"class"`
	Rule             string         `json:"rule"`
	Why              string         `json:"why"`
	Facts            []op.Fact      `json:"facts"`
}

// ExplanationOf puts an explained step on the wire.
func ExplanationOf(s op.Step, facts []op.Fact) Explanation {
	return Explanation{Op: s.Op, Target: s.Target.String(), Incarnation: s.Incarnation, StateFingerprint: s.Fingerprint,
		Params: params(s.Params), Class: s.Verdict.Class, Rule: s.Verdict.Rule, Why: s.Verdict.Why, Facts: facts}
}

// Plan is the answer to POST /v1/plan: what a desired-state document would
// change, guest by guest in the document's order.
type Plan struct {
	Host   string         `json:"host"`
	Guests []PlannedGuest `json:"guests"`
}

// The actions of a PlannedGuest.
const (
	ActionNone   = "none"   // nothing: it is as wished
	ActionCreate = "create" // is made
	ActionChange = "change" // is changed at once
	ActionWaits  = "waits"  // waits for a signature
	ActionError  = "error"  // cannot be planned; Error says why
)

// PlannedGuest says what a document means for one guest.
type PlannedGuest struct {
	Name   string        `json:"name"`
	Action string        `json:"action"`
	Steps  []PlannedStep `json:"steps"`
	Error  *Error        `json:"error"`
}

// PlannedStep is a step that a document would lead to, with its class.
type PlannedStep struct {
	Op     string    `json:"op"`
	Params op.Params `json:"params"`
	Class  op.Class  `json:"class"`
	Rule   string    `json:"rule"`
	Why    string    `json:"why"`
	Facts  []op.Fact `json:"facts"`
}
