package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Limits of what a gate and a hub exchange. A gate refuses anything above them.
const (
	// MaxAnswer is the largest answer of a hub, in bytes.
	MaxAnswer = 16 << 20
	// MaxSets is the most sets of one host.
	MaxSets = 1000
	// MaxOperations is the most operations that are relayed to one host at a time.
	MaxOperations = 10_000
	// MaxReport is the largest report, in bytes.
	MaxReport = 4 << 20
	// MaxHead is the largest head with its proof, in bytes.
	MaxHead = 64 << 10
	// MaxRevision is the longest name of a revision, in bytes.
	MaxRevision = 128
	// MaxETag is the longest ETag, with its quotes, in bytes.
	MaxETag = 256
)

// ContentType is the media type of everything that a gate and a hub exchange.
const ContentType = api.ContentType

// Paths below a hub's address.
const (
	PathDesired    = "desired"
	PathOperations = "operations"
	PathReport     = "report"
	PathHead       = "head"
)

// Path returns the path of one of a host's documents, below the hub's address.
func Path(host, document string) string { return "/v1/hosts/" + url.PathEscape(host) + "/" + document }

// Desired has all wishes of a hub for one host.
type Desired struct {
	Revision string            `json:"revision"` // the hub's name for it; shown and reported, never compared
	Host     string            `json:"host"`
	Sets     map[string]string `json:"sets"` // YAML documents by name (docs/formats/desired-state.md)
}

// Operations has all operations that a hub relays to one host.
type Operations struct {
	Host       string         `json:"host"`
	Operations []api.Envelope `json:"operations"`
}

// Digest identifies a relayed operation. It is the SHA-256, in hex, of the SHA-256 sums (32 bytes each) of the
// envelope's texts: the payload as base64, then each signature.
func Digest(e api.Envelope) string {
	sum := sha256.Sum256([]byte(e.Payload))
	all := sum[:]
	for _, s := range e.Signatures {
		sum := sha256.Sum256([]byte(s))
		all = append(all, sum[:]...)
	}
	sum = sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}

// Report is the whole state of one gate: it replaces all reports before it.
type Report struct {
	Host      string     `json:"host"`
	Gate      op.GateID  `json:"gate"`
	Version   string     `json:"version"`
	StartedAt time.Time  `json:"started_at"` // of the daemon
	Seq       int64      `json:"seq"`        // number of the report since that start; from 1
	At        time.Time  `json:"at"`         // by the gate's clock
	Revision  string     `json:"revision"`   // of the last good answer; empty before the first
	Error     *api.Error `json:"error"`      // why the hub's wishes rest now, else null

	Sets          []SetReport       `json:"sets"`
	Guests        []GuestReport     `json:"guests"` // guests that are not as wished
	GuestsLeftOut int               `json:"guests_left_out"`
	Operations    []OperationReport `json:"operations"` // relayed operations that the gate was asked about
	OpsLeftOut    int               `json:"operations_left_out"`

	Requests        []api.FleetRequest `json:"requests"` // that wait for signatures, the oldest first
	RequestsLeftOut int                `json:"requests_left_out"`
}

// Head is a gate's newest signed head, with the proof that its log goes on from the head that a hub keeps.
type Head struct {
	Host  string    `json:"host"`
	Gate  op.GateID `json:"gate"`
	Key   string    `json:"key"`
	Note  string    `json:"note"`
	From  int64     `json:"from"`  // size of the head that the hub keeps; 0 if it keeps none
	Proof []string  `json:"proof"` // as checkpoint.EncodeHashes writes it; empty if From is 0 or there is no such proof
}

// Kept is the size of the head that a hub keeps of a gate; 0 if it keeps none.
type Kept struct {
	Gate op.GateID `json:"gate"`
	Size int64     `json:"size"`
}

// SetReport counts the guests of one set.
type SetReport struct {
	Name        string `json:"name"`
	Guests      int    `json:"guests"` // all of them; the other members count parts
	Converged   int    `json:"converged"`
	Waiting     int    `json:"waiting"` // for signatures
	Stopped     int    `json:"stopped"` // not tried again until something changes
	Unknown     int    `json:"unknown"` // the driver cannot observe them
	Conflicting int    `json:"conflicting"`
	Working     int    `json:"working"`
}

// GuestReport is a guest that is not as wished.
type GuestReport struct {
	Set     string     `json:"set"`
	Name    string     `json:"name"`
	State   string     `json:"state"` // waiting, stopped, unknown, conflicting or working
	Why     string     `json:"why"`
	Request string     `json:"request"` // the request that waits, or empty
	Since   *time.Time `json:"since"`   // when that was made, or null
}

// OperationReport is the result of a relayed operation.
type OperationReport struct {
	Digest  string       `json:"digest"`  // Digest of its envelope
	Payload string       `json:"payload"` // SHA-256 of the payload in hex; empty if it could not be read
	Request string       `json:"request"` // the request that it made or was for; empty for none
	Op      string       `json:"op"`      // of the request
	Target  string       `json:"target"`
	State   op.State     `json:"state"` // of the request now; empty for none
	Code    refusal.Code `json:"code"`  // of the refusal; empty if it was not refused
	Detail  string       `json:"detail"`
}

// DecodeDesired reads an answer, which must be for that host. It is as strict as api.DecodeBody. Every refusal is
// Malformed, Oversized or TargetMismatch.
func DecodeDesired(b []byte, host string) (Desired, error) {
	if err := desiredLimits.check(b); err != nil {
		return Desired{}, err
	}
	var d Desired
	if err := api.DecodeBody(b, &d); err != nil {
		return Desired{}, err
	}
	if d.Revision == "" || len(d.Revision) > MaxRevision {
		return Desired{}, refusal.New(refusal.Malformed, "the revision has %d bytes, not 1 to %d",
			len(d.Revision), MaxRevision)
	}
	if err := op.CheckText("the revision", d.Revision); err != nil {
		return Desired{}, err
	}
	if err := forHost(d.Host, host); err != nil {
		return Desired{}, err
	}
	if len(d.Sets) == 0 {
		return Desired{}, refusal.New(refusal.Malformed, "there is no set").
			WithHint("to wish for nothing, say so: a set with guests: []")
	}
	for name := range d.Sets {
		if op.CheckName(name) != nil {
			return Desired{}, refusal.New(refusal.Malformed, "%q is not the name of a set", clip(name))
		}
	}
	return d, nil
}

// DecodeOperations reads an answer as DecodeDesired does. It checks only the number of envelopes, not their content.
func DecodeOperations(b []byte, host string) ([]api.Envelope, error) {
	if err := operationsLimits.check(b); err != nil {
		return nil, err
	}
	var o Operations
	if err := api.DecodeBody(b, &o); err != nil {
		return nil, err
	}
	if err := forHost(o.Host, host); err != nil {
		return nil, err
	}
	return o.Operations, nil
}

// DecodeReport reads a report for that host. It is strict, but accepts nulls, and members that a newer gate may add. It
// refuses lists and texts that are longer than a gate's as Oversized.
func DecodeReport(b []byte, host string) (Report, error) {
	if err := reportLimits.check(b); err != nil {
		return Report{}, err
	}
	var r Report
	if err := api.DecodeAnswer(b, &r); err != nil {
		return Report{}, err
	}
	if err := r.check(); err != nil {
		return Report{}, err
	}
	return r, forHost(r.Host, host)
}

// DecodeHead reads a head of that host, which it does not verify. It is as strict as api.DecodeBody.
func DecodeHead(b []byte, host string) (Head, error) {
	if err := headLimits.check(b); err != nil {
		return Head{}, err
	}
	var h Head
	if err := api.DecodeBody(b, &h); err != nil {
		return Head{}, err
	}
	if !h.Gate.Valid() || h.From < 0 {
		return Head{}, refusal.New(refusal.Malformed, "a head names its gate, and the size that it goes on from")
	}
	return h, forHost(h.Host, host)
}

// DecodeKept reads a hub's answer about the head that it keeps of a gate.
func DecodeKept(b []byte, gate op.GateID) (int64, error) {
	var k Kept
	if err := api.DecodeAnswer(b, &k); err != nil {
		return 0, err
	}
	if k.Gate != gate || k.Size < 0 {
		return 0, refusal.New(refusal.Malformed, "the hub's answer is not about the head of gate %s", gate)
	}
	return k.Size, nil
}

func forHost(got, want string) error {
	if got != want {
		return refusal.New(refusal.TargetMismatch, "it is for the host %q, and this one is %q", clip(got), want)
	}
	return nil
}

// clip bounds how much of another program's text is repeated.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
