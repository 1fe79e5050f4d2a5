// Package evidence makes documents with which a reader can check, without gated and without the gate, what was decided about a step:
// the signed bytes, the signatures, the list of signers, and the log's entries with proofs that a signed head has them
// (docs/formats/evidence.md).
package evidence

import (
	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
)

// Type begins each document.
const Type = "gated/evidence/v1"

// Document is the evidence about one step.
type Document struct {
	Type string `json:"type"`
	Step string `json:"step"` // j12.1
	Host string `json:"host"` // that the gate guards
	Head Head   `json:"head"`
	// Witness is a head that somebody kept, with the proof that the log of Head continues it. It is absent if none was given.
	Witness *Witness `json:"witness,omitempty"`
	Entries []Entry  `json:"entries"` // in the log's order
	// Payload has the bytes that were approved, and the payloads of a request that was not. It is empty if nothing was asked to be signed.
	Payload    []byte      `json:"payload,omitempty"`
	Signatures []Signature `json:"signatures,omitempty"`
	Proofs     []string    `json:"proofs,omitempty"` // of possession, armored
	Shown      *Shown      `json:"shown,omitempty"`
	Signers    *Signers    `json:"signers,omitempty"`
}

// Line returns the document as one line of a file.
func (d Document) Line() ([]byte, error) {
	text, err := json.Marshal(d)
	return append(text, '\n'), err
}

// Head is a signed head of the log.
type Head struct {
	Note string `json:"note"`
	Key  string `json:"key"` // the public key, as the document claims it
	// SSH is an SSH signature over the note's text in checkpoint.SSHNamespace. It is empty if the gate's key was not at hand.
	SSH string `json:"ssh,omitempty"`
}

// Witness is an earlier head, and the proof of consistency from it to Head.
type Witness struct {
	Note  string   `json:"note"`
	Proof []string `json:"proof"`
}

// Entry is an entry of the log, and the proof that Head has it.
type Entry struct {
	Seq   int64    `json:"seq"`
	Text  string   `json:"text"` // as its hash covers it
	Proof []string `json:"proof"`
}

// Signature is one that counted.
type Signature struct {
	Armor string `json:"armor"`
	Batch *Batch `json:"batch,omitempty"` // what was signed in the payload's place
}

// Batch is a signed batch, and the payload's place in it.
type Batch struct {
	Payload []byte   `json:"payload"`
	Index   int64    `json:"index"`
	Path    []string `json:"path"` // hex
}

// Shown is what people saw beside the payload, as the log's digest covers it.
type Shown struct {
	Facts  string `json:"facts"`
	Labels string `json:"labels"`
}

// Signers is the list of signers by which signatures counted.
type Signers struct {
	Epoch int64  `json:"epoch"`
	Text  string `json:"text"` // allowed_signers
}

// Step is a step that ended, as a report tells of it.
type Step struct {
	ID      op.StepID
	End     string // the kind of its last entry
	Op      string
	Target  string
	Class   string
	By      string   // who asked
	Reason  string   // the requester's words
	Signers []string // as the log has them
	Asked   string   // RFC 3339
	Decided string   // when it was approved or rejected; empty if nobody was asked
	Ended   string
}
