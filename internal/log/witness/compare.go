package witness

import (
	"context"

	"gated/internal/base/refusal"
)

// Finding says how a head of another witness fits the log that this gate shows.
type Finding struct {
	Record Record
	Why    Why // how it contradicts the log; empty if it does not
}

// Compare checks whether heads of other witnesses fit the log of a gate that Check
// has checked. So two operators notice if the gate showed them different logs. It
// demands a proof for each head of that gate, and ignores contradictions that others
// stored and heads of other gates. The records must be from before Check, because
// the log may have grown since. Its errors are those of log.
func Compare(ctx context.Context, checked Checked, records []Record, log Log) ([]Finding, error) {
	var out []Finding
	for _, r := range records {
		if r.Gate != checked.Head.Gate || r.Contradiction() {
			continue
		}
		why, err := related(ctx, r, checked, log)
		if err != nil {
			return nil, err
		}
		out = append(out, Finding{r, why})
	}
	return out, nil
}

// related demands that the checked log continues from a head.
func related(ctx context.Context, r Record, checked Checked, log Log) (Why, error) {
	was, is := r.Head(), checked.Head
	if why := contradicts(was, is, r.Key == checked.Key); why != "" || is.Size == was.Size {
		return why, nil
	}
	proven, err := proves(ctx, was, is, log)
	if err != nil || proven {
		return "", err
	}
	return NoProof, nil
}

// refusesProof reports whether a gate says that there is no such proof.
func refusesProof(err error) bool {
	code := refusal.CodeOf(err)
	return code == refusal.BadParams || code == refusal.UnknownTarget
}
