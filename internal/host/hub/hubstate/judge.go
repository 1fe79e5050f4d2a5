package hubstate

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/log/witness"
)

// Last is what the judgement of a report needs of the one before.
type Last struct {
	Gate      op.GateID
	StartedAt time.Time
	Seq       int64
}

// LastOf returns what is needed of a report.
func LastOf(r hub.Report) Last { return Last{r.Gate, r.StartedAt, r.Seq} }

// Judge reports whether a report is to be kept in the place of the one before. A lower number of the same daemon came
// late: it is not kept, and acknowledged. A report of an earlier daemon of the same gate is a Conflict: it came late, or
// two daemons have one state. If the earlier daemon's start is in the hub's future, its clock was wrong, and the new
// report is kept.
func (l Last) Judge(r hub.Report, now time.Time) (keep bool, err error) {
	if l.Gate != r.Gate {
		return true, nil
	}
	switch {
	case r.StartedAt.Before(l.StartedAt) && !l.StartedAt.After(now):
		return false, refusal.New(refusal.Conflict, "the last report of that gate is from a daemon that started later").
			WithHint("two daemons may have one state; or the gate's clock was set back: gated hub forget HOST, or start a hub without PostgreSQL again")
	case r.StartedAt.Equal(l.StartedAt) && r.Seq < l.Seq:
		return false, nil
	}
	return true, nil
}

// Converged reports whether every guest is as its revision wishes.
func Converged(r hub.Report) bool {
	for _, s := range r.Sets {
		if s.Converged != s.Guests {
			return false
		}
	}
	return r.Error == nil && len(r.Sets) > 0
}

// Differing returns the operations of a report that differ from those before.
func Differing(before, list []hub.OperationReport) (out []hub.OperationReport) {
	known := make(map[string]hub.OperationReport, len(before))
	for _, o := range before {
		known[o.Digest] = o
	}
	for _, o := range list {
		if known[o.Digest] != o {
			out = append(out, o)
		}
	}
	return out
}

// tries bounds how often TakeHead judges one head anew because another one was kept meanwhile.
const tries = 3

// Contradiction is the error for a head that contradicts the kept one.
type Contradiction struct {
	Evidence witness.Record
	Was      witness.Record
	Kept     bool // the evidence is kept; false if there is no room for more of it
}

func (c *Contradiction) Error() string {
	return "the audit log of gate " + string(c.Evidence.Gate) + " was cut, rewritten or rolled back: " + c.Evidence.Why.String()
}

// TakeHead keeps a gate's head if it goes on from the kept one, and reports whether it is a first one. A head that goes on
// from another size than the kept one's is a Conflict, and says nothing about the log: the gate has to ask again. One that
// contradicts the kept head is a *Contradiction. Its other errors are those of witness.NewRecord and of the place.
func TakeHead(ctx context.Context, in Heads, h hub.Head, now time.Time) (first bool, err error) {
	is, err := witness.NewRecord(h.Gate, h.Host, "hub:"+h.Host, h.Key, h.Note, now)
	if err != nil {
		return false, err
	}
	for range tries {
		was, err := in.Head(ctx, h.Gate)
		if err != nil {
			return false, err
		}
		kept := int64(0)
		if was != nil {
			kept = was.Head().Size
		}
		switch {
		case was != nil && was.Note == is.Note && was.Key == is.Key:
			is = *was // its acknowledgement was lost; it is kept anew, because the standby may lack it
		case h.From != kept:
			return false, refusal.New(refusal.Conflict, "the head goes on from %d entries, and the hub keeps a head of %d", h.From, kept).
				WithHint("ask again which head the hub keeps")
		case was != nil:
			if why := was.Judge(is, h.Proof); why != "" {
				evidence := is.Contradicting(*was, why)
				err := in.Contradicted(ctx, evidence)
				if err != nil && !errors.Is(err, refusal.OverLimit) {
					return false, err
				}
				return false, &Contradiction{evidence, *was, err == nil}
			}
		}
		if ok, err := in.Replace(ctx, was, is); ok || err != nil {
			return was == nil, err
		}
	}
	return false, refusal.New(refusal.Unavailable, "other heads of gate %s arrive all the time", h.Gate)
}

// OverGates refuses the head of one more gate from a host.
func OverGates(host string) error {
	return refusal.New(refusal.OverLimit, "the hub keeps the heads of %d gates from the host %q", MaxGates, op.Shown(host)).
		WithHint("remove those of gates that are gone: gated docs formats/hub-tables")
}

// OverEvidence refuses more evidence from a host.
func OverEvidence(host string) error {
	return refusal.New(refusal.OverLimit, "the hub keeps no more heads that contradict others from the host %q", op.Shown(host))
}
