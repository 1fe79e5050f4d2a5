package api

import (
	"slices"
	"time"

	"gated/internal/base/op"
)

// Request is the open question to operators about a destructive step.
type Request struct {
	ID               string            `json:"id"` // j12.1, the step's
	Job              string            `json:"job"`
	Op               string            `json:"op"`
	Host             string            `json:"host"`
	Gate             op.GateID         `json:"gate"`
	Target           string            `json:"target"`
	Incarnation      op.Incarnation    `json:"incarnation"`
	StateFingerprint op.Fingerprint    `json:"state_fingerprint"`
	Params           op.Params         `json:"params"`
	RequestedBy      []string          `json:"requested_by"`
	Reason           string            `json:"reason"`         // the first requester's, which is signed
	Reasons          []Reason          `json:"reasons"`        // of each requester
	TimesRejected    int               `json:"times_rejected"` // how many other requests for the same wish operators rejected
	Rejections       []Rejection       `json:"rejections"`     // the newest of them, newest first
	CreatedAt        time.Time         `json:"created_at"`     // of the request; its payload may be younger
	IssuedAt         time.Time         `json:"issued_at"`
	ExpiresAt        time.Time         `json:"expires_at"` // of the payload; the request continues with a new one
	State            op.State          `json:"state"`
	Class            op.Class          `json:"class"`
	Rule             string            `json:"rule"`
	Why              string            `json:"why"`
	Facts            []op.Fact         `json:"facts"`
	FactsAt          time.Time         `json:"facts_at"` // when the facts were observed
	Labels           map[string]string `json:"labels"`   // of the target
	Roles            []op.Role         `json:"roles"`    // each of them may sign
	Signatures       []Signature       `json:"signatures"`
	Needed           int               `json:"needed"`         // the least number of distinct people
	Missing          int               `json:"missing"`        // how many of them still have to sign
	Demands          []Demand          `json:"demands"`        // all must be met, or the one of recovery alone
	Owed             []string          `json:"owed"`           // added keys that still have to sign: fingerprint and role
	CoolOff          int64             `json:"cool_off"`       // seconds between the last signature and the step
	Windows          []op.Window       `json:"windows"`        // the step runs only if all are open
	AuthorizedAt     *time.Time        `json:"authorized_at"`  // null before the last signature
	RunsAt           *time.Time        `json:"runs_at"`        // the end of the cool-off; null before the last signature
	PayloadSHA256    string            `json:"payload_sha256"` // of the body of GET …/payload
	Offline          bool              `json:"offline"`        // made from an operator's own payload
	Detail           string            `json:"detail"`         // what was done, for people
	Error            *Error            `json:"error"`
}

// Reason is what one requester said why it asks.
type Reason struct {
	By   string `json:"by"`   // uid:1000, agent:builder#7, desired:web
	Text string `json:"text"` // the requester's own words; may be empty
}

// Rejection is how operators ended another request for the same wish.
type Rejection struct {
	Request     string    `json:"request"` // j12.1
	By          []string  `json:"by"`      // the principals who signed it
	Words       string    `json:"words"`   // theirs; may be empty
	At          time.Time `json:"at"`
	RequestedBy []string  `json:"requested_by"`
}

// Signature is one counted signature.
type Signature struct {
	Principal   string    `json:"principal"`
	Role        op.Role   `json:"role"`
	Fingerprint string    `json:"fingerprint"` // SHA256:… of the underlying key
	CA          string    `json:"ca"`          // SHA256:… of the certificate's signer; empty for a plain key
	Touch       op.Touch  `json:"touch"`       // what a security key attested; empty for nothing
	Counter     *uint32   `json:"counter"`     // of a security key, else null
	Armor       string    `json:"signature"`
	SignedAt    time.Time `json:"signed_at"` // when the gate counted it
}

// Demand is one condition on the signatures.
type Demand struct {
	Rule      string    `json:"rule"` // "built-in", or the line of the configuration that asks for it
	Way       string    `json:"way"`  // empty, or "recovery": the demands of one way must be met together
	Roles     []op.Role `json:"roles"`
	Threshold int       `json:"threshold"`
	Have      int       `json:"have"`  // of Threshold
	Touch     op.Touch  `json:"touch"` // what the signatures have to attest
	Could     []string  `json:"could"` // people who could still sign
}

// RequestOf puts a request on the wire. It reads host and gate from the payload, so that they are what would be signed.
func RequestOf(r op.Request) (Request, error) {
	gate, host, err := op.OriginOf(r.Payload)
	if err != nil {
		return Request{}, err
	}
	out := Request{ID: r.ID.String(), Job: r.ID.Job.String(), Op: r.Step.Op, Host: host, Gate: gate,
		Target: r.Step.Target.String(), Incarnation: r.Step.Incarnation, StateFingerprint: r.Step.Fingerprint,
		Params: params(r.Step.Params), RequestedBy: requesters(r.Requesters), Reason: r.Reason,
		Reasons: reasons(r.Reasons), TimesRejected: r.TimesRejected, Rejections: rejections(r.Rejections),
		CreatedAt: r.CreatedAt.UTC(), IssuedAt: r.IssuedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), State: r.Step.State,
		Class: r.Step.Verdict.Class, Rule: r.Step.Verdict.Rule, Why: r.Step.Verdict.Why, Facts: r.Facts, FactsAt: r.FactsAt.UTC(), Labels: r.Labels, Roles: r.Need.Roles(),
		Signatures: make([]Signature, 0, len(r.Signatures)), Needed: r.Need.Needed(), Missing: r.Missing(),
		Demands: demands(r), Owed: append([]string{}, r.Owed...), CoolOff: int64(r.Need.CoolOff / time.Second),
		Windows:       append([]op.Window{}, r.Need.Windows...),
		PayloadSHA256: op.SHA256(r.Payload), Offline: r.Offline, Detail: r.Step.Detail, Error: stepError(r.Step)}
	for _, s := range r.Signatures {
		out.Signatures = append(out.Signatures, signatureOf(s))
	}
	if !r.AuthorizedAt.IsZero() {
		at := r.AuthorizedAt.UTC()
		from := at.Add(r.Need.CoolOff)
		out.AuthorizedAt, out.RunsAt = &at, &from
	}
	return out, nil
}

func reasons(rs []op.Reason) []Reason {
	out := make([]Reason, 0, len(rs))
	for _, r := range rs {
		out = append(out, Reason(r))
	}
	return out
}

func rejections(rs []op.Rejected) []Rejection {
	out := make([]Rejection, 0, len(rs))
	for _, r := range rs {
		out = append(out, Rejection{Request: r.Request.String(), By: r.By, Words: r.Words, At: r.At.UTC(), RequestedBy: r.AskedBy})
	}
	return out
}

func signatureOf(s op.Signed) Signature {
	out := Signature{Principal: s.Principal, Role: s.Role, Fingerprint: s.Key, CA: s.CA, Touch: s.Attested.Touch(),
		Armor: s.Armor, SignedAt: s.At.UTC()}
	if s.Attested != nil {
		out.Counter = &s.Attested.Counter
	}
	return out
}

// demands puts every demand on the wire, with the people who could still meet it, if that is known.
func demands(r op.Request) []Demand {
	out := []Demand{}
	for _, w := range r.Need.Ways {
		for _, d := range w.Demands {
			out = append(out, Demand{Rule: d.Rule, Way: w.Name, Roles: d.Roles, Threshold: d.Threshold,
				Have: d.Have(r.Signatures), Touch: d.Touch, Could: could(r, d.Roles)})
		}
	}
	return out
}

func could(r op.Request, roles []op.Role) []string {
	out := []string{}
	for _, role := range roles {
		for _, who := range r.Could[role] {
			if !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	return out
}
