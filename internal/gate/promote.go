package gate

import (
	"cmp"
	"fmt"

	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// use records, in the transaction that dispatches a step, what the step means for
// the target's past: a step of another requester ends its scratch status, and a
// step of another job or a start ends that its own job may take it back unsigned.
func (g *Gate) use(tx *store.Tx, s op.Step, now op.Observed) error {
	if s.Undoes > 0 || !now.Present {
		return nil // what its job does to take back its own work is no use of it
	}
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return err
	}
	asking, err := journal.Requesters(tx, s.ID.Job)
	if err != nil {
		return err
	}
	known, err := g.origins(tx, now)
	if err != nil {
		return err
	}
	for _, p := range known {
		for _, by := range asking {
			if by.String() == p.Creator {
				continue
			}
			if err := g.promote(tx, "gate", p.Target, p.Incarnation, fmt.Sprintf("%s used it (%s)", by, s.ID)); err != nil {
				return err
			}
		}
		why := ""
		switch {
		case p.Job != s.ID.Job:
			why = fmt.Sprintf("another job used it (%s)", s.ID)
		case spec.Starts:
			why = fmt.Sprintf("its program was started (%s)", s.ID)
		}
		if err := g.setUsed(tx, p.Target, p.Incarnation, why); err != nil {
			return err
		}
	}
	return nil
}

// origins returns the provenance of what is there now, and of what that was when
// this gate made it: a back end may know the same guest by another identity while
// a disk more is in it.
func (g *Gate) origins(tx *store.Tx, o op.Observed) (out []op.Provenance, err error) {
	was, err := journal.MadeWith(tx, cmp.Or(o.Birth, o.Marked))
	if err != nil {
		return nil, err
	}
	for _, inc := range []op.Incarnation{o.Incarnation, was} {
		if inc == "" || len(out) > 0 && inc == o.Incarnation {
			continue
		}
		p, err := journal.ReadProvenance(tx, inc)
		if err != nil {
			return nil, err
		}
		if p != nil {
			out = append(out, *p)
		}
	}
	return out, nil
}

// setUsed ends, for ever, that the job which made an incarnation may take it back
// unsigned. An empty why ends nothing.
func (g *Gate) setUsed(tx *store.Tx, t op.Target, inc op.Incarnation, why string) error {
	if why == "" {
		return nil
	}
	ended, err := journal.SetUsed(tx, inc, why)
	if err != nil || !ended {
		return err
	}
	return g.append(tx, audit.Entry{Kind: audit.Used, By: "gate", Target: t.String(), Incarnation: inc, Detail: why})
}

// promoteBy ends scratch where the step showed an interest in the target, or
// changed what it is made of.
func (g *Gate) promoteBy(tx *store.Tx, s op.Step, after op.Observed) error {
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return err
	}
	why := spec.Promotes
	if why == "" && after.Protected {
		why = "it was protected"
	}
	if why == "" {
		return nil
	}
	if s.Incarnation != "" && s.Incarnation != after.Incarnation {
		if err := g.promote(tx, "gate", s.Target, s.Incarnation, why); err != nil {
			return err
		}
	}
	return g.promoteSeen(tx, "gate", after, why)
}

// promoteMade ends it for everything that the job of a step has made so far; why
// says what the step does.
func (g *Gate) promoteMade(tx *store.Tx, id op.StepID, why string) error {
	steps, err := journal.StepsOf(tx, id.Job)
	if err != nil {
		return err
	}
	for _, made := range steps {
		if makesNew(made.Op) && made.State == op.StateSucceeded {
			if err := g.promote(tx, "gate", made.Target, made.Incarnation, id.String()+" of its job "+why); err != nil {
				return err
			}
		}
	}
	return nil
}

// promoteSeen ends it for what is there now, and for what that was when this gate
// made it: a back end may know the same guest by another identity while a disk
// more is in it, and by the first one again when that is gone.
func (g *Gate) promoteSeen(tx *store.Tx, by string, o op.Observed, why string) error {
	if err := g.promote(tx, by, o.Target, o.Incarnation, why); err != nil {
		return err
	}
	was, err := journal.MadeWith(tx, cmp.Or(o.Birth, o.Marked))
	if err != nil || was == "" || was == o.Incarnation {
		return err
	}
	return g.promote(tx, by, o.Target, was, why)
}

// promote ends for ever that an incarnation may be destroyed unsigned.
func (g *Gate) promote(tx *store.Tx, by string, t op.Target, inc op.Incarnation, why string) error {
	ended, err := journal.EndScratch(tx, inc, why)
	if err != nil || !ended {
		return err
	}
	return g.append(tx, audit.Entry{Kind: audit.Promoted, By: by, Target: t.String(), Incarnation: inc, Detail: why})
}
