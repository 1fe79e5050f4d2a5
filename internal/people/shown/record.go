package shown

import (
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// recordType begins every file, so that its form can be told.
const recordType = "gated/shown/v1"

// Way is how a request was shown. An older opsign did not say.
type Way string

// The ways. A program reads a file, a pipe, JSON and the bytes alone; nobody has to look at them.
const (
	OnTerminal Way = "terminal"
	ToProgram  Way = "program"
)

// Record is what opsign showed of one request, at one time.
type Record struct {
	Type    string    `json:"type"`
	Gate    op.GateID `json:"gate"`
	Request string    `json:"request"` // j12.1
	Shown   time.Time `json:"shown"`   // when, UTC, whole seconds, by this machine's clock
	Way     Way       `json:"way,omitempty"`
	SHA256  string    `json:"sha256"`  // of the payload, in hex
	Payload string    `json:"payload"` // the exact bytes that a signature would be over
	// Beside is what was shown beside the payload. It is nil if the payload alone was shown.
	Beside *Beside `json:"beside,omitempty"`
}

// Beside is what a gate says of a request that a signature does not bind, and that people decide
// by.
type Beside struct {
	Facts   []op.Fact         `json:"facts"`
	FactsAt time.Time         `json:"facts_at"`
	Labels  map[string]string `json:"labels"` // of the target
	Rule    string            `json:"rule"`   // that made it wait
	Why     string            `json:"why"`
}

// RecordOf makes a record of payload bytes that were shown. beside may be nil.
func RecordOf(id string, payload []byte, beside *Beside, way Way, now time.Time) (Record, error) {
	p, err := op.DecodePayload(payload)
	if err != nil {
		return Record{}, err
	}
	return Record{Type: recordType, Gate: p.Gate, Request: id, Shown: now.UTC().Truncate(time.Second), Way: way,
		SHA256: op.SHA256(payload), Payload: string(payload), Beside: beside}, nil
}

// Is reports whether these are the bytes that were shown. Whoever signs others signs what nobody read.
func (r Record) Is(payload []byte) bool { return r.Payload == string(payload) }

// line writes a record, with the line's end. One record has one form.
func (r Record) line() ([]byte, error) {
	b, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		return nil, malformed("it cannot be written as JSON")
	}
	return append(b, '\n'), nil
}

// parseRecord reads a file. Any other form than the one that line writes is Malformed, and so is a
// payload that no gate issues or that has another digest.
func parseRecord(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r, json.RejectUnknownMembers(true)); err != nil {
		return Record{}, malformed("it is not the JSON of one")
	}
	if again, err := r.line(); err != nil || string(again) != string(text) {
		return Record{}, malformed("it is not in the one form that opsign writes")
	}
	if why := r.wrong(); why != "" {
		return Record{}, malformed(why)
	}
	return r, nil
}

// wrong says why a record is not valid; empty if it is.
func (r Record) wrong() string {
	p, err := op.DecodePayload([]byte(r.Payload))
	switch {
	case r.Type != recordType:
		return "its type is not " + recordType
	case r.Way != "" && r.Way != OnTerminal && r.Way != ToProgram:
		return "it was shown in a way that this opsign does not know"
	case err != nil:
		return "it has no payload: " + refusal.As(err).Detail
	case r.SHA256 != op.SHA256([]byte(r.Payload)):
		return "its payload has another digest"
	case r.Gate != p.Gate:
		return "its payload is of another gate"
	case r.Shown.IsZero() || r.Shown.Location() != time.UTC || r.Shown.Nanosecond() != 0:
		return "it does not say when, in seconds of UTC"
	}
	if id, err := op.ParseStepID(r.Request); err != nil || id.String() != r.Request {
		return "it names no request"
	}
	return ""
}

func malformed(why string) error {
	return refusal.New(refusal.Malformed, "this is nothing that opsign keeps of a request: %s", why)
}
