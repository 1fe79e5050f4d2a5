package api

import (
	"encoding/base64"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Ask is one step in a requester's words, and the body of POST /v1/classify.
type Ask struct {
	Op     string `json:"op"`
	Target string `json:"target"` // kind/name
	Params Params `json:"params,omitzero"`
}

// Submit is the body of POST /v1/jobs: one step in Op, Target and Params, or
// several in Steps; a reason with either.
type Submit struct {
	Op     *string `json:"op,omitzero"`
	Target *string `json:"target,omitzero"`
	Params Params  `json:"params,omitzero"`
	Steps  []Ask   `json:"steps,omitzero"`
	Reason string  `json:"reason,omitzero"`
}

// SubmitOf makes a submission: of one step alone, of several as a list. The gate runs them in order. The reason is for
// people, of at most 1,024 bytes; it may be empty.
func SubmitOf(reason string, steps ...Ask) Submit {
	if len(steps) == 1 {
		a := steps[0]
		return Submit{Op: &a.Op, Target: &a.Target, Params: a.Params, Reason: reason}
	}
	return Submit{Reason: reason, Steps: append([]Ask{}, steps...)}
}

// Envelope is a payload and the signatures over its bytes (docs/formats/signatures.md).
type Envelope struct {
	Payload    string   `json:"payload"` // base64 (RFC 4648, section 4) with padding
	Signatures []string `json:"signatures"`
	Batch      *Batched `json:"batch,omitzero"` // the signatures are over it, and the payload is in it; nil: over the payload
	// Reason is why the person approves: the caller's words, which no signature covers. A rejection has a signed one instead.
	Reason string `json:"reason,omitzero"`
}

// EnvelopeOf puts payload bytes and armored signatures on the wire.
func EnvelopeOf(payload []byte, signatures ...string) Envelope {
	return Envelope{Payload: base64.StdEncoding.EncodeToString(payload), Signatures: signatures}
}

// Open returns the payload's bytes, without checking their content. Malformed: text that is not the one base64 spelling
// of its bytes, an envelope without signatures, and one with a batch or a reason. Oversized: a payload above 64 KiB, and more than
// 16 signatures.
func (e Envelope) Open() ([]byte, error) {
	if e.Batch != nil {
		return nil, refusal.New(refusal.Malformed, "a batch is accepted only as the approval of a request, by its id").
			At(refusal.StageDecode)
	}
	if e.Reason != "" {
		return nil, refusal.New(refusal.Malformed, "a reason beside the signatures is accepted only with the approval of a request, by its id").
			At(refusal.StageDecode).WithHint("what is rejected, or signed before the gate saw it, has its reason in what is signed")
	}
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
	Op               string      `json:"op"`
	Target           string      `json:"target"`
	Incarnation      Incarnation `json:"incarnation"`
	StateFingerprint Fingerprint `json:"state_fingerprint"`
	Params           Params      `json:"params"`
	Class            Class       `json:"class"`
	Rule             string      `json:"rule"`
	Why              string      `json:"why"`
	Facts            []Fact      `json:"facts"`
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
	Op     string `json:"op"`
	Params Params `json:"params"`
	Class  Class  `json:"class"`
	Rule   string `json:"rule"`
	Why    string `json:"why"`
	Facts  []Fact `json:"facts"`
}
