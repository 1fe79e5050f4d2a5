package api

import (
	"time"
)

// Request is the open question to operators about a destructive step.
type Request struct {
	ID               string            `json:"id"` // j12.1, the step's
	Job              string            `json:"job"`
	Op               string            `json:"op"`
	Host             string            `json:"host"`
	Gate             GateID            `json:"gate"`
	Target           string            `json:"target"`
	Incarnation      Incarnation       `json:"incarnation"`
	StateFingerprint Fingerprint       `json:"state_fingerprint"`
	Params           Params            `json:"params"`
	RequestedBy      []string          `json:"requested_by"`
	Users            map[string]string `json:"users"`          // of requested_by, by uid:1000, as the gate's host names them; {} in most answers
	Reason           string            `json:"reason"`         // the first requester's, which is signed
	Reasons          []Reason          `json:"reasons"`        // of each requester
	TimesRejected    int               `json:"times_rejected"` // how many other requests for the same wish operators rejected
	Rejections       []Rejection       `json:"rejections"`     // the newest of them, newest first
	CreatedAt        time.Time         `json:"created_at"`     // of the request; its payload may be younger
	IssuedAt         time.Time         `json:"issued_at"`
	ExpiresAt        time.Time         `json:"expires_at"` // of the payload; the request continues with a new one
	State            State             `json:"state"`
	Class            Class             `json:"class"`
	Rule             string            `json:"rule"`
	Why              string            `json:"why"`
	Facts            []Fact            `json:"facts"`
	FactsAt          time.Time         `json:"facts_at"` // when the facts were observed
	Labels           map[string]string `json:"labels"`   // of the target
	Roles            []Role            `json:"roles"`    // each of them may sign
	Batch            []Role            `json:"batch"`    // those of them in which a batch's signature may count
	Signatures       []Signature       `json:"signatures"`
	Needed           int               `json:"needed"`         // the least number of distinct people
	Missing          int               `json:"missing"`        // how many of them still have to sign
	Demands          []Demand          `json:"demands"`        // all must be met, or the one of recovery alone
	Owed             []string          `json:"owed"`           // added keys that still have to sign: fingerprint and role
	CoolOff          int64             `json:"cool_off"`       // seconds between the last signature and the step
	Windows          []Window          `json:"windows"`        // the step runs only if all are open
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
	Role        Role      `json:"role"`
	Fingerprint string    `json:"fingerprint"` // SHA256:… of the underlying key
	CA          string    `json:"ca"`          // SHA256:… of the certificate's signer; empty for a plain key
	Touch       Touch     `json:"touch"`       // what a security key attested; empty for nothing
	Counter     *uint32   `json:"counter"`     // of a security key, else null
	Armor       string    `json:"signature"`
	SignedAt    time.Time `json:"signed_at"` // when the gate counted it
	Batch       *Batched  `json:"batch"`     // that the signature is over; null: it is over the request's payload
}

// Demand is one condition on the signatures.
type Demand struct {
	Rule      string   `json:"rule"` // "built-in", or the line of the configuration that asks for it
	Way       string   `json:"way"`  // empty, or "recovery": the demands of one way must be met together
	Roles     []Role   `json:"roles"`
	Threshold int      `json:"threshold"`
	Have      int      `json:"have"`  // of Threshold
	Touch     Touch    `json:"touch"` // what the signatures have to attest
	Could     []string `json:"could"` // people who could still sign
}
