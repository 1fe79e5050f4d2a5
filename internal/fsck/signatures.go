package fsck

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/journal"
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
		h.counted[id] = tally{counted(e), h.now(e)}
	case audit.Uncounted:
		t := h.counted[id]
		t.words = slices.DeleteFunc(t.words, func(s string) bool { return slices.Contains(e.Signers, s) })
		h.counted[id] = t
	case audit.Approved:
		delete(h.counted, id)
		h.approved[id] = approval{e.Payload, digestWords(counted(e)), h.now(e)}
	}
}

func (h *history) now(e audit.Entry) when { return when{h.epoch, e.Time.Unix(), h.since} }

// trusted returns the list of signers that counted a request's signatures, nil
// where the log does not know which.
func (c *check) trusted(r *request) (err error) {
	w := c.log.counted[r.step.ID].when
	if a, ok := c.log.approved[r.step.ID]; ok {
		w = a.when
	}
	if w.epoch == 0 {
		return nil
	}
	r.counted = time.Unix(w.unix, 0)
	if r.list, err = c.listOf(w.epoch); err != nil || w.epoch == 1 || r.counted.Sub(time.Unix(w.since, 0)) > replaceTook {
		return err
	}
	// A decision that was under way when the list was replaced went by the one
	// before; such an approval is refused when its step would run.
	r.before, err = c.listOf(w.epoch - 1)
	return err
}

// listOf returns the list of an epoch, nil where it cannot be read: the rule of
// the lists says so.
func (c *check) listOf(epoch int64) (*authz.Trust, error) {
	list, ok := c.lists[epoch]
	if ok {
		return list, nil
	}
	v, err := journal.ReadTrustOf(c.tx, epoch)
	if err != nil {
		return nil, err
	}
	if list, err = authz.LoadTrust(v.Text); err != nil || v.Epoch != epoch {
		list = nil
	}
	c.lists[epoch] = list
	return list, nil
}

// countTook is how long it may take from the moment for which signatures were
// verified to their entry: what is between is a transaction.
const countTook = time.Minute

// replaceTook is how long after the entry of a new list a decision may come that
// was under way by the one before: the rest of its transaction.
const replaceTook = 5 * time.Second

// listed checks that whoever signed was listed for that role, with that key or by
// that CA, when the signature was counted. Keys that were revoked by then are in
// a file, and not in the database.
func (r *request) listed(s op.Signed) error {
	if r.list == nil {
		return nil
	}
	err := r.list.Still(s, r.counted)
	if err != nil && (r.list.Still(s, r.counted.Add(-countTook)) == nil || r.before != nil && r.before.Still(s, r.counted) == nil) {
		err = nil
	}
	return err
}

// wrong is what is wrong with a request, found beside others.
type wrong struct {
	code Code
	says string
}

func (r *request) bad(code Code, format string, args ...any) {
	r.wrong = append(r.wrong, wrong{code, fmt.Sprintf(format, args...)})
}

// verify reads the stored signatures of a request and verifies each again. It
// touches nothing but the request, so that several may be verified at once.
func (r *request) verify() {
	var err error
	if r.signatures, err = signed(r.signatureRows); err != nil {
		r.bad(signaturesUnreadable, "its signatures do not decode")
	}
	if r.proofs, err = signed(r.proofRows); err != nil {
		r.bad(signaturesUnreadable, "its proofs do not decode")
	}
	for _, s := range r.signatures {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.bad(signatureInvalid, "the signature of %s does not verify: %s", op.Shown(s.Principal), op.AsRefusal(err).Detail)
		} else if err := r.listed(s); err != nil {
			r.bad(signerNotListed, "the signature of %s should not have counted: %s", op.Shown(s.Principal), op.AsRefusal(err).Detail)
		}
	}
	for _, s := range r.proofs {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.bad(proofInvalid, "the proof by the key %s does not verify: %s", op.Shown(s.Key), op.AsRefusal(err).Detail)
		}
	}
	r.signatureRows, r.proofRows = nil, nil
}
