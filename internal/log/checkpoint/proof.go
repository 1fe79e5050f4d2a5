package checkpoint

import (
	"encoding/base64"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// MaxProof is the most hashes in a proof: two for each level of a tree over 2^63
// entries.
const MaxProof = 128

// Continues checks that the log with the head later begins with exactly the log with
// the head c: no entry was cut off, changed or moved. The proof is from
// tlog.ProveTree (RFC 6962, section 2.1.2). If it proves something else, the error
// is BindingMismatch.
func (c Checkpoint) Continues(later Checkpoint, proof []tlog.Hash) error {
	refuse := func(why string) error {
		return refusal.New(refusal.BindingMismatch, "the audit log of gate %s does not go on from entry %d: %s", c.Gate,
			c.Size, why)
	}
	switch {
	case later.Gate != c.Gate:
		return refuse("the other head is of gate " + string(later.Gate))
	case later.Size < c.Size:
		return refuse("it is shorter than it was")
	case later.Size == c.Size && later.Root != c.Root:
		return refuse("it says other things")
	case later.Size == c.Size:
		return nil
	case len(proof) > MaxProof:
		return refuse("the proof is too long to be one")
	}
	if tlog.CheckTree(proof, later.Size, later.Root, c.Size, c.Root) != nil {
		return refuse("the proof does not hold")
	}
	return nil
}

// Includes checks that entry number seq of the log with the head c is exactly text.
// The proof is from tlog.ProveRecord (RFC 6962, section 2.1.1). If it proves
// something else, the error is BindingMismatch.
func (c Checkpoint) Includes(seq int64, text []byte, proof []tlog.Hash) error {
	if len(proof) <= MaxProof && seq >= 1 && seq <= c.Size &&
		tlog.CheckRecord(proof, c.Size, c.Root, seq-1, tlog.RecordHash(text)) == nil {
		return nil
	}
	return refusal.New(refusal.BindingMismatch,
		"the proof does not show that this is entry %d of the %d that gate %s signed for", seq, c.Size, c.Gate)
}

// EncodeHashes returns the hashes of a proof as they are sent, each in standard
// base64.
func EncodeHashes(proof []tlog.Hash) []string {
	out := make([]string, len(proof))
	for i, h := range proof {
		out[i] = h.String()
	}
	return out
}

// DecodeHashes reverses EncodeHashes. If EncodeHashes would write another text, or
// there are more than MaxProof, the error is Malformed.
func DecodeHashes(proof []string) ([]tlog.Hash, error) {
	if len(proof) > MaxProof {
		return nil, refusal.New(refusal.Malformed, "a proof of %d hashes is too long to be one", len(proof))
	}
	out := make([]tlog.Hash, len(proof))
	for i, s := range proof {
		h, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil || len(h) != tlog.HashSize || base64.StdEncoding.EncodeToString(h) != s {
			return nil, refusal.New(refusal.Malformed, "%q is not a hash of a proof", op.Shown(s))
		}
		copy(out[i][:], h)
	}
	return out, nil
}
