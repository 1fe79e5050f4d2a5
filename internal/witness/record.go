package witness

import (
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/checkpoint"
	"gated/internal/op"
)

// recordType begins every line, so that one is known wherever it lies.
const recordType = "gated/witness/v1"

// The limits of a record's texts, in bytes; that of a host is a payload's.
const (
	maxHost    = 253
	maxAddress = 4 << 10
)

// Why says how a head contradicts the one that was remembered.
type Why string

// The ways in which one does.
const (
	Shorter   Why = "shorter"    // it has fewer entries
	OtherRoot Why = "other-root" // as many, and other ones
	NoProof   Why = "no-proof"   // more, and the gate did not prove that the log goes on from it
	OtherKey  Why = "other-key"  // it is signed with another key
)

// Signed is a head as a gate signed it.
type Signed struct {
	Seen time.Time `json:"seen"` // when it was shown first, UTC, by the witness's clock
	Key  string    `json:"key"`
	Note string    `json:"note"`
}

// Record is one line: a head that a gate showed and that is remembered or, with
// Why and Against, one that contradicted what was remembered then.
type Record struct {
	Type    string    `json:"type"`
	Gate    op.GateID `json:"gate"`
	Host    string    `json:"host"`
	Address string    `json:"address"` // where it was shown
	Signed
	Why     Why     `json:"why,omitempty"`
	Against *Signed `json:"against,omitempty"`
}

// Contradiction reports whether it is one.
func (r Record) Contradiction() bool { return r.Against != nil }

// Head returns the head that was shown. It was checked when the record was read
// or made.
func (r Record) Head() checkpoint.Checkpoint { return r.checkpoint() }

// checkpoint of a head that was opened before.
func (s Signed) checkpoint() checkpoint.Checkpoint {
	c, err := checkpoint.Read(s.Note)
	if err != nil {
		panic("a head was kept that was never opened: " + err.Error())
	}
	return c
}

// open checks the signature, and that it is of that gate.
func (s Signed) open(gate op.GateID) (checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(s.Note, s.Key)
	if err == nil && c.Gate != gate {
		err = op.Refuse(op.TargetMismatch, "the head is of gate %s and not of %s", c.Gate, gate)
	}
	return c, err
}

// line writes a record, with the line's end.
func (r Record) line() ([]byte, error) {
	b, err := json.Marshal(r)
	return append(b, '\n'), err
}

// ParseRecord reads one line, without its end. What a witness would not write is
// Malformed: another form of the same JSON, a head that is not signed with the key
// beside it, a contradiction that is none.
func ParseRecord(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
		return Record{}, malformed("it is not the JSON of one")
	}
	if again, err := r.line(); err != nil || string(again) != string(line)+"\n" {
		return Record{}, malformed("it is not in the one form that a witness writes")
	}
	if why := r.wrong(); why != "" {
		return Record{}, malformed(why)
	}
	return r, nil
}

func malformed(why string) error {
	return op.Refuse(op.Malformed, "this is no head that a witness keeps: %s", why)
}

// wrong says why a record cannot be one, empty if it can.
func (r Record) wrong() string {
	switch {
	case r.Type != recordType:
		return "its type is not " + recordType
	case !r.Gate.Valid():
		return "it names no gate"
	case r.Host == "" || len(r.Host) > maxHost || op.CheckText("host", r.Host) != nil:
		return "it names no host"
	case r.Address == "" || len(r.Address) > maxAddress || op.CheckText("address", r.Address) != nil:
		return "it names no address"
	case !moment(r.Seen):
		return "it does not say when, in seconds of UTC"
	}
	is, err := r.open(r.Gate)
	if err != nil {
		return err.Error()
	}
	if r.Against == nil {
		if r.Why != "" {
			return "it contradicts nothing"
		}
		return ""
	}
	if !moment(r.Against.Seen) {
		return "it does not say when, in seconds of UTC"
	}
	was, err := r.Against.open(r.Gate)
	switch {
	case err != nil:
		return err.Error()
	case r.Why != NoProof && r.Why != contradicts(was, is, r.Against.Key == r.Key),
		r.Why == NoProof && (is.Size <= was.Size || r.Against.Key != r.Key):
		return "it does not contradict what it says that it does"
	}
	return ""
}

func moment(t time.Time) bool { return !t.IsZero() && t.Location() == time.UTC && t.Nanosecond() == 0 }

// contradicts says how a head contradicts an earlier one by itself, empty if
// only a proof can tell.
func contradicts(was, is checkpoint.Checkpoint, sameKey bool) Why {
	switch {
	case !sameKey:
		return OtherKey
	case is.Size < was.Size:
		return Shorter
	case is.Size == was.Size && is.Root != was.Root:
		return OtherRoot
	}
	return ""
}
