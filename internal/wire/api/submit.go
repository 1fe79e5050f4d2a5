package api

import (
	"encoding/base64"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Ask is one step in a requester's words, and the body of POST /v1/classify.
type Ask struct {
	Op     string    `json:"op"`
	Target string    `json:"target"` // kind/name
	Params op.Params `json:"params,omitzero"`
}

// AskOf puts an ask on the wire.
func AskOf(a op.Ask) Ask { return Ask{Op: a.Op, Target: a.Target.String(), Params: a.Params} }

// Ask returns the gate's form of the ask. Its refusals are Malformed. The gate checks the operation and its parameters.
func (a Ask) Ask() (op.Ask, error) {
	if a.Op == "" {
		return op.Ask{}, refusal.New(refusal.Malformed, "the member op is missing")
	}
	if err := op.CheckText("op", a.Op); err != nil {
		return op.Ask{}, err
	}
	t, err := op.ParseTarget(a.Target)
	if err != nil {
		return op.Ask{}, err
	}
	p := a.Params
	if p == nil {
		p = op.Params{}
	}
	return op.Ask{Op: a.Op, Target: t, Params: p}, nil
}

// Submit is the body of POST /v1/jobs: one step in Op, Target and Params, or
// several in Steps; a reason with either.
type Submit struct {
	Op     *string   `json:"op,omitzero"`
	Target *string   `json:"target,omitzero"`
	Params op.Params `json:"params,omitzero"`
	Steps  []Ask     `json:"steps,omitzero"`
	Reason string    `json:"reason,omitzero"`
}

// SubmitOf puts asks on the wire: one step alone, several as a list.
func SubmitOf(reason string, asks ...op.Ask) Submit {
	if len(asks) == 1 {
		a := AskOf(asks[0])
		return Submit{Op: &a.Op, Target: &a.Target, Params: a.Params, Reason: reason}
	}
	s := Submit{Reason: reason, Steps: []Ask{}}
	for _, a := range asks {
		s.Steps = append(s.Steps, AskOf(a))
	}
	return s
}

// Asks returns the steps in order. Neither form, or both, is Malformed; more than op.MaxSteps are TooComplex; a too
// long reason is Oversized.
func (s Submit) Asks() ([]op.Ask, error) {
	if err := op.CheckText("reason", s.Reason); err != nil {
		return nil, err
	}
	if len(s.Reason) > op.MaxReason {
		return nil, refusal.New(refusal.Oversized, "the reason has %d bytes, more than %d", len(s.Reason), op.MaxReason)
	}
	plain := s.Op != nil || s.Target != nil || s.Params != nil
	switch {
	case plain && s.Steps != nil:
		return nil, refusal.New(refusal.Malformed, "the body has both op, target or params and steps").
			WithHint("give one of the two")
	case plain:
		if s.Op == nil || s.Target == nil {
			return nil, refusal.New(refusal.Malformed, "the body needs both op and target")
		}
		a, err := Ask{Op: *s.Op, Target: *s.Target, Params: s.Params}.Ask()
		return []op.Ask{a}, err
	case len(s.Steps) == 0:
		return nil, refusal.New(refusal.Malformed, "the body has no step").WithHint("give op and target, or steps")
	case len(s.Steps) > op.MaxSteps:
		return nil, refusal.New(refusal.TooComplex, "the job has %d steps, more than %d", len(s.Steps), op.MaxSteps).
			WithHint("submit several jobs")
	}
	asks := make([]op.Ask, 0, len(s.Steps))
	for _, step := range s.Steps {
		a, err := step.Ask()
		if err != nil {
			return nil, err
		}
		asks = append(asks, a)
	}
	return asks, nil
}

// Envelope is a payload and the signatures over its bytes (protocol section 2).
type Envelope struct {
	Payload    string   `json:"payload"` // base64 (RFC 4648, section 4) with padding
	Signatures []string `json:"signatures"`
}

// EnvelopeOf puts payload bytes and armored signatures on the wire.
func EnvelopeOf(payload []byte, signatures ...string) Envelope {
	return Envelope{Payload: base64.StdEncoding.EncodeToString(payload), Signatures: signatures}
}

// Open returns the payload's bytes, without checking their content. Malformed: text that is not the one base64 spelling
// of its bytes, and an envelope without signatures. Oversized: a payload above op.MaxPayload, and more than
// op.MaxSignatures signatures.
func (e Envelope) Open() ([]byte, error) {
	if base64.StdEncoding.DecodedLen(len(e.Payload)) > op.MaxPayload+3 {
		return nil, refusal.New(refusal.Oversized, "the payload has more than %d bytes", op.MaxPayload).
			At(refusal.StageDecode)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	switch {
	case err != nil || strings.ContainsAny(e.Payload, "\r\n"):
		return nil, refusal.New(refusal.Malformed, "the payload is not padded base64").At(refusal.StageDecode)
	case len(b) == 0:
		return nil, refusal.New(refusal.Malformed, "the envelope has no payload").At(refusal.StageDecode)
	case len(b) > op.MaxPayload:
		return nil, refusal.New(refusal.Oversized, "the payload has %d bytes, more than %d", len(b), op.MaxPayload).
			At(refusal.StageDecode)
	case len(e.Signatures) == 0:
		return nil, refusal.New(refusal.Malformed, "the envelope has no signature").At(refusal.StageDecode)
	case len(e.Signatures) > op.MaxSignatures:
		return nil, refusal.New(refusal.Oversized, "the envelope has %d signatures, more than %d",
			len(e.Signatures), op.MaxSignatures).
			At(refusal.StageDecode)
	}
	return b, nil
}

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
