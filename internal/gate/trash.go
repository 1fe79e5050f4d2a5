package gate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// revives returns an undelete with the incarnation that it brings back, so that the
// request, the signature and the sweep all mean the same guest. A payload that was
// signed before the gate saw it stays unchanged.
func revives(by op.Requester, spec op.Spec, s op.Step, trash []op.Trashed) (op.Step, error) {
	if spec.Identity != op.Revives || by.Source == op.SourceOffline || by.Source == op.SourceHub {
		return s, nil
	}
	found := s.Revivable(trash)
	if len(found) != 1 {
		newest := slices.MaxFunc(found, func(a, b op.Trashed) int { return a.Until.Compare(b.Until) })
		return s, refusal.New(refusal.Conflict, "the trash has %d guests that were guest/%s", len(found),
			s.Look().TrashName()).
			WithHint("say which with -p incarnation=%s", newest.Incarnation)
	}
	s.Params = maps.Clone(s.Params)
	s.Params["incarnation"] = string(found[0].Incarnation)
	return s, nil
}

// destroyed adds to the guests in the trash how they came there, if the step's class
// depends on that.
func (g *Gate) destroyed(tx *store.Tx, s op.Step, trash []op.Trashed) ([]op.Destroyed, error) {
	spec, err := op.Lookup(s.Op)
	if err != nil || spec.Identity != op.Makes && spec.Identity != op.Revives {
		return nil, nil
	}
	out := make([]op.Destroyed, 0, len(trash))
	for _, t := range trash {
		d := op.Destroyed{Trashed: t}
		if d.Creator, err = creator(tx, t.Incarnation); err != nil {
			return nil, err
		}
		ends, err := journal.EndsOf(tx, t.Incarnation)
		if err != nil {
			return nil, err
		}
		if len(ends) > 0 {
			d.By = ends[0].ID
		}
		if d.Askers, err = askers(tx, ends); err != nil {
			return nil, err
		}
		d.ByOperator = slices.ContainsFunc(d.Askers, g.asksAsOperator)
		out = append(out, d)
	}
	return out, nil
}

// askers returns all requesters of the steps, each once.
func askers(tx *store.Tx, steps []op.Step) (all []op.Requester, err error) {
	for _, s := range steps {
		of, err := journal.Requesters(tx, s.ID.Job)
		if err != nil {
			return nil, err
		}
		for _, r := range of {
			if !slices.ContainsFunc(all, func(x op.Requester) bool { return x.Source == r.Source && x.String() == r.String() }) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// creator returns the requester for whom a guest was made, nil if this gate has no
// record. The provenance has only a name, which the carrier of a signed payload may
// have too. So creator reads the requester from the job.
func creator(tx *store.Tx, inc op.Incarnation) (*op.Requester, error) {
	p, err := journal.ReadProvenance(tx, inc)
	if err != nil || p == nil {
		return nil, err
	}
	all, err := journal.Requesters(tx, p.Job)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.String() == p.Creator {
			return &r, nil
		}
	}
	return nil, nil
}

// operator reports whether a requester is an operator on the socket.
func (g *Gate) operator(r op.Requester) bool {
	if r.Source != op.SourceAPI || r.Agent != "" {
		return false
	}
	here := r.Set == g.member && (r.UID == 0 || r.UID == g.uid || slices.Contains(g.operates, r.UID))
	return here || slices.Contains(g.elsewhere, r.Account())
}

// asksAsOperator reports whether an operator is behind a request: on the socket, in
// desired state, or as the signer of a payload.
func (g *Gate) asksAsOperator(r op.Requester) bool { return r.Source != op.SourceAPI || g.operator(r) }

// Wanted reports whether an open step is to bring back a destroyed guest with the
// name of t. A sweep of the trash keeps the guest then.
func (g *Gate) Wanted(ctx context.Context, t op.Target, inc op.Incarnation) (wanted bool, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenOf(tx, op.Undelete)
		for _, s := range open {
			which := op.Incarnation(s.Params.Str("incarnation"))
			wanted = wanted || s.Target.Kind == t.Kind && s.Look().TrashName() == t.Name && (which == "" || which == inc)
		}
		return err
	})
	return wanted, err
}

// freed withdraws a desired set's waiting request to make a guest once the set may
// use the name without a signature. That is so after a sweep of the trash, or after
// an undelete of the destroyed guest.
func (g *Gate) freed(ctx context.Context, by op.Requester, p planned) error {
	if p.spec.Identity != op.Makes || p.step.Verdict.Class != op.Benign {
		return nil
	}
	waits := false
	err := g.view(ctx, func(tx *store.Tx) error {
		s, ok, err := openWish(tx, by, p.step)
		waits = ok && s.State == op.StatePending
		return err
	})
	if err != nil || !waits {
		return err
	}
	return g.Withdraw(ctx, by.Set, p.step.Target, nil)
}

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
