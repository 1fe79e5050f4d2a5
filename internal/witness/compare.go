package witness

import (
	"context"

	"gated/internal/op"
)

// Finding is how a head that another witness remembers goes together with the
// log that is shown here.
type Finding struct {
	Record Record
	Why    Why // it does not; empty if it does
}

// Compare looks whether heads of other witnesses are of the log of a gate that
// was checked here: two who were shown different logs find out. It demands a proof
// for each head of that gate; contradictions that others kept, and heads of other
// gates, are left out. The records have to be from before the check: a log may
// have grown since. Errors are what log returns.
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

// related demands that the log that was checked goes on from a head.
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

// refusesProof holds for a gate that says that there is no such proof.
func refusesProof(err error) bool {
	code := op.CodeOf(err)
	return code == op.BadParams || code == op.UnknownTarget
}
