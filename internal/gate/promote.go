package gate

import (
	"cmp"
	"fmt"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// use has what the transaction that dispatches a step has read of its target's use.
type use struct {
	asking []op.Requester // of the step's job
	made   *op.Provenance // of the incarnation that the look shows, nil if this gate did not make it
}

// use records what a dispatched step means for the target, in the transaction that
// dispatches the step. A step by another requester ends the target's scratch status.
// After a step of another job, or a start, the job that made the target can no
// longer take it back unsigned.
func (g *Gate) use(tx *store.Tx, s op.Step, now op.Observed, u use) error {
	if s.Undoes > 0 || !now.Present {
		return nil // a job that takes back its own work does not use it
	}
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return err
	}
	known, err := g.origins(tx, now, u.made)
	if err != nil {
		return err
	}
	for _, p := range known {
		for _, by := range u.asking {
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

// origins returns the provenance of the target as it is now, made, and of the
// incarnation that this gate made. The two may differ, because a back end may give a
// guest another identity while it has one disk more.
func (g *Gate) origins(tx *store.Tx, o op.Observed, made *op.Provenance) (out []op.Provenance, err error) {
	if made != nil {
		out = append(out, *made)
	}
	was, err := journal.MadeWith(tx, cmp.Or(o.Birth, o.Marked))
	if err != nil || was == "" || was == o.Incarnation {
		return out, err
	}
	p, err := journal.ReadProvenance(tx, was)
	if p != nil {
		out = append(out, *p)
	}
	return out, err
}

// setUsed records for ever that the job which made an incarnation may not take it
// back unsigned. An empty why records nothing.
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

// promoteBy ends a target's scratch status if the step's operation promotes it, if
// the target is protected afterwards, or if others asked for what the step made, too.
func (g *Gate) promoteBy(tx *store.Tx, s op.Step, after op.Observed) error {
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return err
	}
	why := spec.Promotes
	if why == "" && after.Protected {
		why = "it was protected"
	}
	if why == "" && makesNew(s.Op) {
		who, err := g.requesters(tx, s)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(who, func(r op.Requester) bool { return r.String() != who[0].String() }); i >= 0 {
			why = who[i].String() + " asked for it, too"
		}
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

// promoteMade ends the scratch status of everything that the job of a step has made
// so far. why says what the step does.
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

// promoteSeen ends the scratch status of the target as it is now and of the
// incarnation that this gate made. The two may differ, because a back end may give a
// guest another identity while it has one disk more, and the old one afterwards.
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

// promote ends an incarnation's scratch status for ever.
func (g *Gate) promote(tx *store.Tx, by string, t op.Target, inc op.Incarnation, why string) error {
	ended, err := journal.EndScratch(tx, inc, why)
	if err != nil || !ended {
		return err
	}
	return g.append(tx, audit.Entry{Kind: audit.Promoted, By: by, Target: t.String(), Incarnation: inc, Detail: why})
}
