package fsck

import (
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/log/journal"
)

// storedSignature is a row of signatures or proofs, in the JSON that the query of
// requests makes.
type storedSignature struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Key       string  `json:"key"`
	CA        string  `json:"ca"`
	Armor     string  `json:"armor"`
	Flags     int64   `json:"flags"` // -1: none are stored
	Counter   int64   `json:"counter"`
	Origin    string  `json:"origin"` // of the page that had a passkey sign
	Batch     string  `json:"batch"`  // hex; empty: the payload itself was signed
	Leaf      int64   `json:"leaf"`
	Path      string  `json:"path"` // hex
}

// signed reads the signature rows of one request. A number that no security key can
// attest is an error, because the gate would read another number.
func signed(rows []byte) ([]op.Signed, error) {
	var stored []storedSignature
	if err := json.Unmarshal(rows, &stored); err != nil {
		return nil, err
	}
	out := make([]op.Signed, len(stored))
	for i, s := range stored {
		out[i] = op.Signed{Principal: s.Principal, Role: s.Role, Key: s.Key, CA: s.CA, Armor: s.Armor}
		switch {
		case s.Flags == -1 && s.Counter == 0 && s.Origin == "":
		case s.Flags < 0 || s.Flags > math.MaxUint8 || s.Counter < 0 || s.Counter > math.MaxUint32:
			return nil, errors.New("flags or counter are out of range")
		default:
			out[i].Attested = &op.Attested{Flags: byte(s.Flags), Counter: uint32(s.Counter), Origin: s.Origin}
		}
		var err error
		if out[i].Batch, err = s.batched(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// batched reads the batch that was signed, nil if it was the payload.
func (s storedSignature) batched() (*op.Inclusion, error) {
	batch, err := hex.DecodeString(s.Batch)
	path, err2 := hex.DecodeString(s.Path)
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	if s.Leaf < 0 || s.Leaf >= op.MaxBatch {
		return nil, errors.New("the index in a batch is out of range")
	}
	return journal.DecodeInclusion(batch, int(s.Leaf), path)
}

// taken reports whether no signature is over a batch where the step takes none, in that role. A gate adds to what is
// stored that a change of the signers takes none.
func taken(name string, need op.Requirement, signatures []op.Signed) bool {
	spec, err := op.Lookup(name)
	return err == nil && !slices.ContainsFunc(signatures, func(s op.Signed) bool {
		return s.Batch != nil && (spec.Kind == op.KindTrust || !need.TakesBatch(s.Role))
	})
}
