package gate

import (
	"context"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// Turn is a step that may run now.
type Turn struct {
	Step   op.StepID
	Signed bool         // operators authorized this step or another step of its job
	By     op.Requester // the first requester of its job
}

// Next returns the step of a target that may run now. No step runs while another
// step of that target is dispatched. Steps of signed jobs go first, then the oldest.
// Otherwise a caller could delay authorized steps with many steps of its own.
func (g *Gate) Next(ctx context.Context, t op.Target) (turn Turn, ok bool, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, t)
		if err != nil {
			return err
		}
		for _, s := range open {
			if s.State == op.StateDispatched {
				return nil
			}
		}
		for _, s := range open {
			if ok && s.State != op.StateAuthorized && s.State != op.StatePlanned {
				continue
			}
			steps, err := journal.StepsOf(tx, s.ID.Job)
			if err != nil {
				return err
			}
			signed := authorized(steps)
			if ok && !signed {
				continue // an older step goes first
			}
			may, err := g.mayRun(tx, steps, s)
			if err != nil {
				return err
			}
			if may {
				turn, ok = Turn{Step: s.ID, Signed: signed}, true
			}
			if may && signed {
				break
			}
		}
		if !ok {
			return nil
		}
		who, err := journal.Requesters(tx, turn.Step.Job)
		if len(who) > 0 {
			turn.By = who[0]
		}
		return err
	})
	return turn, ok, err
}

// mayRun reports whether the step s of a job may run now. steps are all steps of the
// job.
func (g *Gate) mayRun(tx *store.Tx, steps []op.Step, s op.Step) (bool, error) {
	if _, err := ready(steps, s.ID); err != nil {
		return false, nil
	}
	held, err := g.holds(tx, s)
	if err == nil && !held {
		_, held, err = g.heldUp(tx, steps, s)
	}
	if err == nil && !held {
		_, held, err = g.waitsFor(tx, s)
	}
	return err == nil && !held, err
}

// Runnable is Next, and returns only the step's id.
func (g *Gate) Runnable(ctx context.Context, t op.Target) (id op.StepID, ok bool, err error) {
	turn, ok, err := g.Next(ctx, t)
	return turn.Step, ok, err
}

// SignedTargets returns the targets of open steps of jobs in which operators
// authorized a step.
func (g *Gate) SignedTargets(ctx context.Context) (ts []op.Target, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		found, err := journal.InState(tx, op.StateAuthorized)
		if err != nil {
			return err
		}
		for _, s := range found {
			steps, err := journal.StepsOf(tx, s.ID.Job)
			if err != nil {
				return err
			}
			for _, x := range steps {
				if x.State.Open() && !slices.Contains(ts, x.Target) {
					ts = append(ts, x.Target)
				}
			}
		}
		return nil
	})
	return ts, err
}

// authorized reports whether a step is authorized, and therefore has not run.
func authorized(steps []op.Step) bool {
	return slices.ContainsFunc(steps, func(s op.Step) bool { return s.State == op.StateAuthorized })
}
