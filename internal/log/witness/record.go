package witness

import (
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
)

// recordType begins every line, so that a line can be recognised anywhere.
const recordType = "gated/witness/v1"

// The limits of a record's texts, in bytes. The host has the limit of a payload's
// host.
const (
	maxHost    = 253
	maxAddress = 4 << 10
)

// Why says how a head contradicts the stored one.
type Why string

// The ways in which a head can contradict.
const (
	Shorter   Why = "shorter"    // the new head has fewer entries
	OtherRoot Why = "other-root" // as many entries, and other ones
	NoProof   Why = "no-proof"   // more entries, and the gate did not prove that the log continues
	OtherKey  Why = "other-key"  // another key signed it
)

// Signed is a head as a gate signed it.
type Signed struct {
	Seen time.Time `json:"seen"` // when the witness first saw it, UTC, by its own clock
	Key  string    `json:"key"`
	Note string    `json:"note"`
}

// Record is one line: a stored head of a gate. With Why and Against, it is a head
// that contradicted the head that was stored then.
type Record struct {
	Type    string    `json:"type"`
	Gate    op.GateID `json:"gate"`
	Host    string    `json:"host"`
	Address string    `json:"address"` // of the gate when it showed the head
	Signed
	Why     Why     `json:"why,omitempty"`
	Against *Signed `json:"against,omitempty"`
}

// Contradiction reports whether the record is a contradiction.
func (r Record) Contradiction() bool { return r.Against != nil }

// Head returns the head of the record. It was checked when the record was read or
// made.
func (r Record) Head() checkpoint.Checkpoint { return r.checkpoint() }

// checkpoint returns the checkpoint of a head that was opened before.
func (s Signed) checkpoint() checkpoint.Checkpoint {
	c, err := checkpoint.Read(s.Note)
	if err != nil {
		panic("a head was kept that was never opened: " + err.Error())
	}
	return c
}

// open checks the signature and the gate id.
func (s Signed) open(gate op.GateID) (checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(s.Note, s.Key)
	if err == nil && c.Gate != gate {
		err = refusal.New(refusal.TargetMismatch, "the head is of gate %s and not of %s", c.Gate, gate)
	}
	return c, err
}

// line writes a record, with the line's end.
func (r Record) line() ([]byte, error) {
	b, err := json.Marshal(r)
	return append(b, '\n'), err
}

// ParseRecord reads one line, without its end. If a witness would not write the
// line, it is Malformed. Examples are another form of the same JSON, a head that the
// key beside it did not sign, and a false contradiction.
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
	return refusal.New(refusal.Malformed, "this is no head that a witness keeps: %s", why)
}

// wrong says why a record is not valid; empty if it is.
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

// contradicts says how a head by itself contradicts an earlier one; empty if only a
// proof can tell.
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
