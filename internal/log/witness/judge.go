package witness

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/log/checkpoint"
)

// NewRecord returns the line for a head that a witness sees now. Its errors are those of checkpoint.Open, TargetMismatch
// for the head of another gate, and Malformed for a host or an address that a record cannot have.
func NewRecord(gate op.GateID, host, address, key, note string, seen time.Time) (Record, error) {
	r := Record{Type: recordType, Gate: gate, Host: host, Address: address,
		Signed: Signed{Seen: seen.UTC().Truncate(time.Second), Key: key, Note: note}}
	if _, err := r.open(gate); err != nil {
		return Record{}, err
	}
	if why := r.wrong(); why != "" {
		return Record{}, malformed(why)
	}
	return r, nil
}

// Line returns the one line of a record, with its end.
func (r Record) Line() ([]byte, error) { return r.line() }

// Judge says how a later head contradicts the head of r; empty if it does not. The proof came with the head, in the form
// of checkpoint.EncodeHashes.
func (r Record) Judge(is Record, proof []string) Why {
	was, now := r.Head(), is.Head()
	if why := contradicts(was, now, r.Key == is.Key); why != "" || was.Size == now.Size {
		return why
	}
	hashes, err := checkpoint.DecodeHashes(proof)
	if err != nil || was.Continues(now, hashes) != nil {
		return NoProof
	}
	return ""
}

// Contradicting returns a head as evidence against the kept one.
func (r Record) Contradicting(was Record, why Why) Record {
	r.Why, r.Against = why, &was.Signed
	return r
}
