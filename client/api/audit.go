package api

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one entry of the audit log. Raw is its stored text, which its hash covers. The other fields are those that
// people need most.
type Entry struct {
	Seq    int64
	Time   time.Time
	Kind   string
	By     string // uid:1000, desired:web, gate
	Job    string // j12
	Step   string // j12.1
	Op     string
	Target string
	Class  Class
	Rule   string
	Code   Code
	Detail string
	// Signers lists the people who signed. Keys lists the keys that were added, removed or proven
	// (docs/formats/audit.md).
	Signers, Keys []string
	// The result for a reservation (docs/formats/audit.md). Holder has it after the entry. For lists the agents that
	// the entry concerns.
	Reservation string // r12
	Patterns    []string
	Of          int // the number of patterns, if not all are here
	Mode        string
	Holder      string // an agent's name, or uid:1000
	Until       time.Time
	For         []string
	Count       int // of refusals in one entry; 0 and 1 mean one
	Raw         jsontext.Value
}

// entryFields names the members that Entry picks out of Raw.
type entryFields struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	By      string    `json:"by"`
	Job     string    `json:"job"`
	Step    string    `json:"step"`
	Op      string    `json:"op"`
	Target  string    `json:"target"`
	Class   Class     `json:"class"`
	Rule    string    `json:"rule"`
	Code    Code      `json:"code"`
	Detail  string    `json:"detail"`
	Signers []string  `json:"signers"`
	Keys    []string  `json:"keys"`
	Count   int       `json:"count"`

	Reservation string    `json:"reservation"`
	Patterns    []string  `json:"patterns"`
	Of          int       `json:"of"`
	Mode        string    `json:"mode"`
	Holder      string    `json:"holder"`
	Until       time.Time `json:"until"`
	For         []string  `json:"for"`
}

// ParseEntry reads the stored text of an entry and keeps it.
func ParseEntry(raw []byte) (Entry, error) {
	var f entryFields
	if err := DecodeAnswer(raw, &f); err != nil {
		return Entry{}, err
	}
	return Entry{Seq: f.Seq, Time: f.Time, Kind: f.Kind, By: f.By, Job: f.Job, Step: f.Step, Op: f.Op, Target: f.Target,
		Class: f.Class, Rule: f.Rule, Code: f.Code, Detail: f.Detail, Signers: f.Signers, Keys: f.Keys, Count: f.Count,
		Reservation: f.Reservation, Patterns: f.Patterns, Of: f.Of, Mode: f.Mode, Holder: f.Holder, Until: f.Until, For: f.For,
		Raw: jsontext.Value(raw).Clone()}, nil
}

// MarshalJSONTo writes the stored text.
func (e Entry) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(e.Raw) }

// UnmarshalJSONFrom reads as ParseEntry does.
func (e *Entry) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*e, err = ParseEntry(raw)
	return err
}

var (
	_ json.MarshalerTo     = Entry{}
	_ json.UnmarshalerFrom = (*Entry)(nil)
)

// Head is the newest entry's number, the hash of its text, and the gate's signature over the whole log up to it.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`           // hex SHA-256
	Note string `json:"note,omitempty"` // a signed checkpoint; empty if the gate cannot sign for the log
	Key  string `json:"key,omitempty"`  // the public key of the signature

	Archived int64 `json:"archived,omitzero"` // entries up to this one are in segment files alone
}

// Consistency proves that the log's first Old entries are unchanged among its first Size (RFC 6962, section 2.1.2).
type Consistency struct {
	Old   int64    `json:"old"`
	Size  int64    `json:"size"`
	Proof []string `json:"proof"` // hashes in standard base64
}

// Inclusion proves that an entry is in the log whose head is Note (RFC 6962, section 2.1.1).
type Inclusion struct {
	Seq   int64    `json:"seq"`
	Entry string   `json:"entry"` // its text, byte for byte
	Proof []string `json:"proof"`
	Note  string   `json:"note"`
	Key   string   `json:"key"`
}
