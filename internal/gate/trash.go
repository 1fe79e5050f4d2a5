package gate

import (
	"context"
	"maps"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
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

// freed reports whether a desired set may make a guest now for which it asked people before: the name was in the trash
// then, and was swept or brought back since. What waits is withdrawn with the decision that takes the new step, so a wish
// that is refused takes nothing back.
func freed(by op.Requester, p planned, waits op.Step) bool {
	return by.Source == op.SourceDesired && p.spec.Identity == op.Makes && p.step.Verdict.Class == op.Benign &&
		p.hindered == nil && waits.State == op.StatePending
}
