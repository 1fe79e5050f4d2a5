package gate

import (
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// undo is what takes a step back: an operation on the same target and the
// incarnation that the step was for or made. It is fixed at the dispatch, and it
// cannot name another target.
type undo struct {
	Op     string    `json:"op"`
	Params op.Params `json:"params"`
}

// undoOf returns, as JSON, what would take the step back. It returns "" if there is
// nothing to take back, or if that would take more than the step gave.
func undoOf(s op.Step, before op.Observed) string {
	spec, err := op.Lookup(s.Op)
	if err != nil || spec.Undo == nil || s.Undoes > 0 {
		return ""
	}
	var u undo
	if u.Op, u.Params = spec.Undo(s, before); u.Op == "" {
		return ""
	}
	b, err := json.Marshal(u)
	if err != nil {
		panic("gate: params do not encode: " + err.Error())
	}
	return string(b)
}

// endJob is called when a step ended without success. It cancels the open steps of
// the job and takes back what the job did, last first. While a step of the job runs,
// the taking back waits; Record of that step calls endJob again.
func (g *Gate) endJob(tx *store.Tx, cause op.Step) error {
	now := g.clock.Now().Now
	steps, err := journal.StepsOf(tx, cause.ID.Job)
	if err != nil {
		return err
	}
	if cause.Undoes == 0 {
		running := false
		for _, s := range steps {
			running = running || s.State == op.StateDispatched
			if s.State.Open() && s.State != op.StateDispatched {
				if err := g.cancelRest(tx, s, cause); err != nil {
					return err
				}
			}
		}
		if running {
			return nil
		}
		if err := g.compensate(tx, steps); err != nil {
			return err
		}
	}
	_, err = journal.Finish(tx, cause.ID.Job, now)
	return err
}

func (g *Gate) cancelRest(tx *store.Tx, s, cause op.Step) error {
	e := about(audit.Cancelled, "gate", s)
	e.Code, e.Detail = refusal.Cancelled, fmt.Sprintf("%s did not succeed", cause.ID)
	return g.shut(tx, s, e)
}

// compensate plans a step for each step that succeeded and can be taken back.
func (g *Gate) compensate(tx *store.Tx, steps []op.Step) error {
	index := len(steps)
	for i := len(steps) - 1; i >= 0; i-- {
		done := steps[i]
		if done.State != op.StateSucceeded || done.Undoes != 0 {
			continue
		}
		text, err := journal.Undo(tx, done.ID)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		var u undo
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			return fmt.Errorf("decode the undo of %s: %w", done.ID, err)
		}
		index++
		s := op.Step{ID: op.StepID{Job: done.ID.Job, Index: index}, Op: u.Op, Target: done.Target, Params: u.Params,
			Incarnation: done.Incarnation, Undoes: done.ID.Index, State: op.StatePlanned, UpdatedAt: g.clock.Now().Now,
			Verdict: op.Verdict{Class: op.Benign, Rule: "compensation", Why: "classified again before it runs"}}
		if spec, err := op.Lookup(u.Op); err != nil {
			return err
		} else if spec.Creates {
			s.Incarnation = "" // the name is free now
		}
		if err := journal.AddStep(tx, s); err != nil {
			return err
		}
		e := about(audit.Compensated, "gate", s)
		e.Undoes = done.ID.String()
		e.Detail, e.Why = "takes back "+e.Undoes, s.Verdict.Why
		if err := g.append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// keptFrom refuses, as Superseded, to take a step back if others changed its target since, or asked for that. What they
// did would be lost, and nobody would have asked for it. now is the look at the target. keptFrom returns nil for a step that
// is no compensation, and for one that brings a guest back: that overwrites nothing, because it needs a free name.
func keptFrom(tx *store.Tx, steps []op.Step, s op.Step, now op.Observed) (*refusal.Refusal, error) {
	if s.Undoes == 0 {
		return nil, nil
	}
	done := steps[s.Undoes-1]
	spec, err := op.Lookup(done.Op)
	if err != nil || spec.Identity == op.Ends {
		return nil, err
	}
	// What an operator signed is not held up by what somebody only asks for.
	other, ok, err := journal.OthersSince(tx, done, s.State != op.StateAuthorized)
	gave := done
	if len(s.Params) > 0 {
		gave.Params = maps.Clone(done.Params) // of the step, the part that would be taken back
		maps.DeleteFunc(gave.Params, func(name string, _ any) bool { return !s.Params.Has(name) })
	}
	switch {
	case err != nil:
		return nil, err
	case ok:
		return refusal.New(refusal.Superseded, "%s is not taken back: %s was asked for on %s since", done.ID, other, s.Target), nil
	case spec.Shows != nil && spec.Shows(gave, now) != op.ShowsDone:
		return refusal.New(refusal.Superseded, "%s is not taken back: %s is not as that step left it", done.ID, s.Target), nil
	}
	return nil, nil
}
