package fsck

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/op"
)

// storedSignature is a row of signatures or of proofs, as the query of requests
// makes JSON of it.
type storedSignature struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Key       string  `json:"key"`
	CA        string  `json:"ca"`
	Armor     string  `json:"armor"`
	Flags     int64   `json:"flags"` // -1: none were kept
	Counter   int64   `json:"counter"`
}

// signed reads the rows of one request. A number that no security key could
// have said is an error: the gate would read another one.
func signed(rows []byte) ([]op.Signed, error) {
	var stored []storedSignature
	if err := json.Unmarshal(rows, &stored); err != nil {
		return nil, err
	}
	out := make([]op.Signed, len(stored))
	for i, s := range stored {
		out[i] = op.Signed{Principal: s.Principal, Role: s.Role, Key: s.Key, CA: s.CA, Armor: s.Armor}
		switch {
		case s.Flags == -1 && s.Counter == 0:
		case s.Flags < 0 || s.Flags > math.MaxUint8 || s.Counter < 0 || s.Counter > math.MaxUint32:
			return nil, errors.New("flags or counter are out of range")
		default:
			out[i].Attested = &op.Attested{Flags: byte(s.Flags), Counter: uint32(s.Counter)}
		}
	}
	return out, nil
}

// proven begins the words of the log about a proof of possession.
const proven = "proof "

// attestation ends them, in the entry that the proof came with and in no other:
// a proof is stored without what its key said.
var attestation = regexp.MustCompile(` flags=0x[0-9a-f]{2} counter=[0-9]+$`)

// counted returns what the log says that a request has, sorted: the signatures
// that count, and the proofs.
func counted(e audit.Entry) []string {
	words := slices.Clone(e.Signers)
	for _, k := range e.Keys {
		words = append(words, attestation.ReplaceAllString(k, ""))
	}
	slices.Sort(words)
	return slices.Compact(words) // one that signed offline may have proved twice
}

// words returns the same of the journal.
func words(signatures, proofs []op.Signed) []string {
	var out []string
	for _, s := range signatures {
		out = append(out, s.String())
	}
	for _, s := range proofs {
		out = append(out, proven+s.String())
	}
	slices.Sort(out)
	return out
}

// sign follows which signatures a request has. Each entry of one that counted
// names all that count then; the gate takes out what no longer does only to
// count another, and a new payload begins without any.
func (h *history) sign(id op.StepID, e audit.Entry) {
	switch e.Kind {
	case audit.Requested, audit.Reissued:
		delete(h.counted, id)
		if e.Kind == audit.Reissued {
			h.reissued[id] = true
		}
	case audit.Signed:
		h.counted[id] = counted(e)
	case audit.Uncounted:
		h.counted[id] = slices.DeleteFunc(h.counted[id], func(s string) bool { return slices.Contains(e.Signers, s) })
	case audit.Approved:
		delete(h.counted, id)
		h.approved[id] = approval{e.Payload, digestWords(counted(e))}
	}
}

// verify reads the stored signatures of a request and verifies each again. It
// touches nothing but the request, so that several may be verified at once.
func (r *request) verify() {
	var err error
	if r.signatures, err = signed(r.signatureRows); err != nil {
		r.wrong = append(r.wrong, "its signatures do not decode")
	}
	if r.proofs, err = signed(r.proofRows); err != nil {
		r.wrong = append(r.wrong, "its proofs do not decode")
	}
	for _, s := range r.signatures {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("the signature of %s does not verify: %s", op.Shown(s.Principal), op.AsRefusal(err).Detail))
		}
	}
	for _, s := range r.proofs {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("the proof by the key %s does not verify: %s", op.Shown(s.Key), op.AsRefusal(err).Detail))
		}
	}
	r.signatureRows, r.proofRows = nil, nil
}
