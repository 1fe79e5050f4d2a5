package audit

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// version is the version of the entries that this program writes. Version 1 has no
// member that says so.
const version = 2

// SchemaParts changes no table. It gives the database a higher version, because an
// older program would miss the data of entries of version 2.
const SchemaParts = `SELECT 2;`

// Parts is the data of an entry that belongs to some kinds alone. Each member has one
// meaning, whatever the kind.
type Parts struct {
	// SignersFile is the list in force after started, trusted and rotated.
	SignersFile SignersFile `json:"signers_file,omitzero"`
	// Edited says of trusted that the file was edited by hand, and the gate wrote it anew.
	Edited bool `json:"edited,omitzero"`
	// HeadKey is the public half of keyed's key (checkpoint.Key.Public).
	HeadKey string `json:"head_key,omitempty"`
	// ShownSHA256 digests what people saw beside the payload of requested and reissued
	// (journal.ShownDigest).
	ShownSHA256 string `json:"shown_sha256,omitempty"`
	// OutputSHA256 digests the kept output of succeeded, failed and interrupted.
	OutputSHA256 string `json:"output_sha256,omitempty"`
	// Incidents are the steps whose incidents reviewed closed, such as j12.1.
	Incidents []string `json:"incidents,omitempty"`
	// Undoes is the step that a compensated one takes back, such as j12.1.
	Undoes string `json:"undoes,omitempty"`
	// Set is the subject of desired-put and desired-deleted.
	Set Set `json:"set,omitzero"`
	// Registration is the subject of agent-registered and agent-ended.
	Registration Registration `json:"registration,omitzero"`
	// Ended counts what restored and time-accepted ended.
	Ended Ended `json:"ended,omitzero"`
	// Member is which daemon of a gate with a ledger wrote started.
	Member Member `json:"member,omitzero"`
	// Segment is the subject of archived.
	Segment SegmentPart `json:"segment,omitzero"`
	// InForce is by what signed, approved and rejected were decided.
	InForce InForce `json:"in_force,omitzero"`
	// RevokedKeys are the fingerprints that started and trusted refuse, sorted, if they are at most MaxRevokedKeys.
	RevokedKeys []string `json:"revoked_keys,omitempty"`
	// Rejection is what the operators of rejected signed, if it has at most MaxRejection bytes.
	Rejection Envelope `json:"rejection,omitempty"`
}

// MaxRevokedKeys is how many revoked keys an entry names. An entry has to fit into a segment file, so a longer list has its digest alone.
const MaxRevokedKeys = 500

// MaxRejection is how many bytes of a signed rejection an entry has.
const MaxRejection = 16 << 10

// InForce is by what the gate decided: the list of signers, the revoked keys, and all that the step needs.
type InForce struct {
	Epoch   int64  `json:"epoch,omitzero"`    // of the list of signers
	SHA256  string `json:"sha256,omitempty"`  // of the list's bytes
	Revoked string `json:"revoked,omitempty"` // authz.Trust.RevokedDigest
	Need    string `json:"need,omitempty"`    // journal.EncodeNeed
}

// Envelope is a signed text with its signatures.
type Envelope struct {
	Payload    string   `json:"payload,omitempty"`
	Signatures []string `json:"signatures,omitempty"` // SSHSIG, armored
}

// Bounded returns the envelope, or the zero one if it has more than MaxRejection bytes.
func (e Envelope) Bounded() Envelope {
	n := len(e.Payload)
	for _, s := range e.Signatures {
		n += len(s)
	}
	if n > MaxRejection {
		return Envelope{}
	}
	return e
}

func (e Envelope) none() bool { return e.Payload == "" && len(e.Signatures) == 0 }

// SegmentPart is a segment as its entry tells of it.
type SegmentPart struct {
	Number int64  `json:"number,omitzero"`
	First  int64  `json:"first,omitzero"` // entries
	Last   int64  `json:"last,omitzero"`
	Jobs   int    `json:"jobs,omitzero"` // how many
	SHA256 string `json:"sha256,omitempty"`
	// JobsSHA256 digests the numbers of the jobs (journal.DigestRanges).
	JobsSHA256 string `json:"jobs_sha256,omitempty"`
}

// Part returns what the log says of a segment.
func (s Segment) Part(jobs string) SegmentPart {
	return SegmentPart{s.Number, s.First, s.Last, s.Jobs, s.SHA256, jobs}
}

// Member is one daemon of a gate that several daemons know.
type Member struct {
	Name string `json:"name,omitempty"` // store.member of its gated.yaml
	Era  int64  `json:"era,omitzero"`   // of the ledger, from which on it decides
	// Lease is how many seconds others have to wait for it without a sign of life: store.lease of its gated.yaml, rounded up.
	Lease int64 `json:"lease,omitzero"`
}

// SignersFile is a version of allowed_signers.
type SignersFile struct {
	Epoch  int64  `json:"epoch,omitzero"` // its number, from 1
	SHA256 string `json:"sha256,omitempty"`
	How    string `json:"how,omitempty"` // of rotated: journal.TrustVersion.How
}

// Set is a set of desired state.
type Set struct {
	Name   string `json:"name,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the document; empty if the set was deleted
}

// Registration is a registered agent. Only agent-registered has the last three members.
type Registration struct {
	ID     int64  `json:"id,omitzero"` // its number, from 1
	Name   string `json:"name,omitempty"`
	PID    int    `json:"pid,omitzero"`     // the process that has the name; 0 if a token has it
	Token  bool   `json:"token,omitzero"`   // the holder of a token has the name
	SHA256 string `json:"sha256,omitempty"` // agent.Registration.Binding
}

// Ended counts what a new gate id ended.
type Ended struct {
	Registrations int `json:"registrations,omitzero"`
	Reservations  int `json:"reservations,omitzero"`
}

// stored is the stored form of an entry, of either version. The number comes first,
// then the version. Seq takes the place of Entry's.
type stored struct {
	Seq int64 `json:"seq"`
	V   int   `json:"v,omitzero"`
	Entry
	old
}

// known refuses a version that this program cannot read. 0 stands for version 1.
func known(v int) error {
	if v != 0 && v != version {
		return fmt.Errorf("the audit entry is of version %d, and this program knows up to %d", v, version)
	}
	return nil
}

// Decode reads the stored text of an entry of any version.
func Decode(body []byte) (Entry, error) {
	var s stored
	if err := json.Unmarshal(body, &s); err != nil {
		return Entry{}, fmt.Errorf("decode audit entry: %w", err)
	}
	if err := known(s.V); err != nil {
		return Entry{}, err
	}
	s.Entry.Seq = s.Seq
	if s.V == 0 {
		s.translate()
	}
	return s.Entry, nil
}
