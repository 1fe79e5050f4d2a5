package api

import (
	"time"

	"gated/internal/op"
)

// Request is the one open question that a destructive step has for operators.
type Request struct {
	ID               string         `json:"id"` // j12.1, the step's
	Job              string         `json:"job"`
	Op               string         `json:"op"`
	Host             string         `json:"host"`
	Gate             op.GateID      `json:"gate"`
	Target           string         `json:"target"`
	Incarnation      op.Incarnation `json:"incarnation"`
	StateFingerprint op.Fingerprint `json:"state_fingerprint"`
	Params           op.Params      `json:"params"`
	RequestedBy      []string       `json:"requested_by"`
	Reason           string         `json:"reason"`
	CreatedAt        time.Time      `json:"created_at"` // of the request; its payload may be younger
	IssuedAt         time.Time      `json:"issued_at"`
	ExpiresAt        time.Time      `json:"expires_at"` // of the payload; the request lives on with a new one
	State            op.State       `json:"state"`
	Class            op.Class       `json:"class"`
	Rule             string         `json:"rule"`
	Why              string         `json:"why"`
	Facts            []op.Fact      `json:"facts"`
	Roles            []op.Role      `json:"roles"` // any of which may sign
	Signatures       []Signature    `json:"signatures"`
	Needed           int            `json:"needed"`         // distinct people
	Missing          int            `json:"missing"`        // how many of them have not signed
	PayloadSHA256    string         `json:"payload_sha256"` // of what GET …/payload gives
	Offline          bool           `json:"offline"`        // made from an operator's own payload
	Detail           string         `json:"detail"`         // what was done, for people
	Error            *Error         `json:"error"`
}

// Signature is one counted signature.
type Signature struct {
	Principal   string    `json:"principal"`
	Role        op.Role   `json:"role"`
	Fingerprint string    `json:"fingerprint"` // SHA256:… of the underlying key
	Armor       string    `json:"signature"`
	SignedAt    time.Time `json:"signed_at"` // when the gate counted it
}

// RequestOf puts a request on the wire. Host and gate are read from the payload
// itself, so that they are what would be signed.
func RequestOf(r op.Request) (Request, error) {
	gate, host, err := op.OriginOf(r.Payload)
	if err != nil {
		return Request{}, err
	}
	out := Request{ID: r.ID.String(), Job: r.ID.Job.String(), Op: r.Step.Op, Host: host, Gate: gate,
		Target: r.Step.Target.String(), Incarnation: r.Step.Incarnation, StateFingerprint: r.Step.Fingerprint,
		Params: params(r.Step.Params), RequestedBy: requesters(r.Requesters), Reason: r.Reason,
		CreatedAt: r.CreatedAt.UTC(), IssuedAt: r.IssuedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), State: r.Step.State,
		Class: r.Step.Verdict.Class, Rule: r.Step.Verdict.Rule, Why: r.Step.Verdict.Why, Facts: r.Facts, Roles: r.Roles,
		Signatures: make([]Signature, 0, len(r.Signatures)), Needed: r.Needed, Missing: r.Missing(),
		PayloadSHA256: op.SHA256(r.Payload), Offline: r.Offline, Detail: r.Step.Detail, Error: stepError(r.Step)}
	for _, s := range r.Signatures {
		out.Signatures = append(out.Signatures, Signature{Principal: s.Principal, Role: s.Role, Fingerprint: s.Key,
			Armor: s.Armor, SignedAt: s.At.UTC()})
	}
	return out, nil
}
