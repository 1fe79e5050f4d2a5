package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/classify"
	"gated/internal/log/journal"
)

// planned is a step that the gate has looked at and classified, and not yet decided
// on.
type planned struct {
	step     op.Step
	spec     op.Spec
	observed op.Observed
	need     op.Requirement // of a step that an operator signed before the gate saw it
	hindered error          // why it cannot be done now; only a step that waits already is not refused for it
}

// look observes a target, and adds all that people should see before they sign.
func (g *Gate) look(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := g.see(ctx, l)
	if err == nil {
		o = g.told(ctx, l, o)
	}
	return o, err
}

// told adds to a look what the step would change and what the gate knows.
func (g *Gate) told(ctx context.Context, l op.Look, o op.Observed) op.Observed {
	o.Facts = append(g.knows(ctx, l, o), g.rulesOn(o.Changed(l.Op, l.Params))...)
	return o
}

// maxRulesNamed is how many rules a fact on a label names.
const maxRulesNamed = 8

// rulesOn says of each label that a step changes which rules of the policy use it.
func (g *Gate) rulesOn(facts []op.Fact) []op.Fact {
	used := map[string][]string{} // by the fact's name
	for _, r := range g.rules.Load().policy.Rules {
		for label := range r.Labels {
			used[op.ChangesLabel(label)] = append(used[op.ChangesLabel(label)], r.Where)
		}
	}
	out := slices.Clone(facts)
	for i, f := range out {
		where, more := used[f.Name], ""
		if n := len(where) - maxRulesNamed; n > 0 {
			where, more = where[:maxRulesNamed], fmt.Sprintf(" and %d more", n)
		}
		switch {
		case len(where) > 0:
			out[i].Text += " (a rule uses it: " + strings.Join(where, ", ") + more + ")"
		case strings.HasPrefix(f.Name, op.ChangesLabel("")):
			out[i].Text += " (no rule uses it)"
		}
	}
	return out
}

// see observes a target. A target that does not exist has a fingerprint too, so that
// an operator can sign that it did not exist.
func (g *Gate) see(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	o, err := g.observer.Observe(ctx, l)
	if err != nil {
		var r *refusal.Refusal
		if errors.As(err, &r) {
			return o, r
		}
		g.log.Warn("cannot look at a target", "target", t.String(), "error", err)
		return o, refusal.New(refusal.Unavailable, "%s cannot be looked at now", t).WithHint("see the daemon's log")
	}
	return completed(o), identified(o, t)
}

// identified refuses a look that does not name the target and its incarnation,
// because a step on an unclear target must not run.
func identified(o op.Observed, t op.Target) error {
	switch {
	case o.Target != t:
		return refusal.New(refusal.Unavailable, "the back end answered for %s when asked for %s", o.Target, t)
	case o.Present && o.Incarnation == "":
		return refusal.New(refusal.Unavailable, "the back end does not say which %s this is", t)
	}
	return nil
}

func completed(o op.Observed) op.Observed {
	if !o.Present && o.Fingerprint == "" {
		o.Fingerprint = op.FingerprintOf([]byte("absent"))
	}
	return o
}

// check refuses a step that is wrong whatever the target's state is.
func check(by op.Requester, ask op.Ask) (op.Spec, error) {
	spec, err := op.Lookup(ask.Op)
	if err != nil {
		return spec, err
	}
	if err := op.CheckName(ask.Target.Name); err != nil {
		return spec, err
	}
	if err := spec.Check(ask.Target, ask.Params); err != nil {
		return spec, err
	}
	if by.Source == op.SourceDesired {
		for _, p := range spec.Params {
			if p.JobOnly && ask.Params.Has(p.Name) {
				return spec, refusal.New(refusal.BadParams, "desired state may not say %q", p.Name)
			}
		}
	}
	return spec, nil
}

// applies refuses a step that does not fit the target as the look shows it.
func applies(spec op.Spec, s op.Step, o op.Observed) error {
	t := s.Target
	switch {
	case spec.Creates && o.Present:
		return refusal.New(refusal.Conflict, "%s exists already", t).WithHint("%s", op.HintExists)
	case spec.Identity == op.Revives && len(s.Revivable(o.Trash)) == 0:
		return refusal.New(refusal.UnknownTarget, "the trash holds no such guest/%s", s.Look().TrashName()).
			WithHint("gated guests NAME lists what the trash has of a name; from says the name, if it comes back under another one")
	case !spec.Creates && !o.Present:
		return refusal.New(refusal.UnknownTarget, "there is no %s", t).WithHint("%s", whereListed(t.Kind))
	case o.Missing != "":
		return missing(s, o)
	case o.Ops != nil && !slices.Contains(o.Ops, s.Op):
		return refusal.New(refusal.UnknownOp, "the back end of %s has no %s", t, s.Op).
			WithHint("gated ops lists the operations; the page of its driver says which of them it has")
	}
	return nil
}

// missing refuses a step that needs what the target does not have. Of a snapshot it says which ones there are.
func missing(s op.Step, o op.Observed) error {
	r := refusal.New(refusal.UnknownTarget, "%s", o.Missing)
	if !s.Params.Has("snapshot") || !o.Present {
		return r.WithHint("%s", o.Clear)
	}
	if len(o.Snapshots) == 0 {
		return r.WithHint("it has no snapshot")
	}
	names := make([]string, min(len(o.Snapshots), maxNamed))
	for i := range names {
		names[i] = op.Shown(o.Snapshots[i])
	}
	text := "it has " + strings.Join(names, ", ")
	if more := len(o.Snapshots) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return r.WithHint("%s", text)
}

// maxNamed is how many snapshots a hint names.
const maxNamed = 8

func whereListed(kind string) string {
	if kind == op.KindScope {
		return "gated reservation list shows the scopes' ids; one whose directory was made anew is another scope"
	}
	if kind == op.KindCommand {
		return "gated commands lists what there is"
	}
	return "gated guests lists what there is"
}

// plan looks at an ask's target and classifies the step. earlier has the steps of
// the same job before it.
func (g *Gate) plan(ctx context.Context, by op.Requester, ask op.Ask, earlier []planned) (planned, error) {
	p, err := g.draft(ctx, by, ask, earlier)
	if err != nil {
		return p, err
	}
	err = g.view(ctx, func(tx *store.Tx) error {
		p.step.Verdict, err = g.classify(tx, by, p.step, p.observed)
		return err
	})
	if err == nil {
		err = g.rules.Load().couldSign(p.step, p.observed.Labels, g.clock.Now().Now)
	}
	if err == nil && p.step.Verdict.Class == op.Destructive && changes(earlier, ask.Target) {
		err = refusal.New(refusal.Conflict,
			"%s changes in an earlier step of this job, so no operator could sign for it now", ask.Target).
			WithHint("submit this step by itself when the others are done")
	}
	return p, err
}

// draft is plan without the class.
func (g *Gate) draft(ctx context.Context, by op.Requester, ask op.Ask, earlier []planned) (planned, error) {
	spec, err := check(by, ask)
	if err != nil {
		return planned{}, err
	}
	p := planned{spec: spec, step: op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params}}
	if p.step.Params == nil {
		p.step.Params = op.Params{}
	}
	if p.observed, err = g.look(ctx, p.step.Look()); err != nil {
		return p, err
	}
	if changes(earlier, ask.Target) {
		p.observed.Missing = "" // an earlier step of this job may make it
	}
	if mayClear(earlier, p.observed) {
		p.observed.Cannot = ""
	}
	if stops(earlier, ask.Target) {
		p.observed.MemoryUsed = 0 // its programs hold none then; the step is classified again before it runs
	}
	if maker, ok := makerOf(earlier, ask.Target); ok && !spec.Creates && !p.observed.Present {
		// The target will be in the back end of the step that makes it. This look was at the back end of new guests.
		was := p.observed
		p.observed = op.Observed{Target: ask.Target, Present: true, Ops: maker.observed.Ops}
		if was.Backend == maker.observed.Backend {
			p.observed.Cannot, p.observed.Clear, p.observed.CannotCode = was.Cannot, was.Clear, was.CannotCode
		}
	}
	if err := applies(spec, p.step, p.observed); err != nil {
		return p, err
	}
	p.hindered = p.observed.Hindrance()
	if p.step, err = revives(by, spec, p.step, p.observed.Trash); err != nil {
		return p, err
	}
	if spec.Name == op.Rotate {
		if _, err := g.rules.Load().rotation(p.step.Params, g.clock.Now().Now); err != nil {
			return p, err
		}
	}
	p.step.Incarnation, p.step.Fingerprint = p.observed.Incarnation, p.observed.Fingerprint
	return p, nil
}

// classify reads the provenance and applies the rules of the operation.
func (g *Gate) classify(tx *store.Tx, by op.Requester, s op.Step, o op.Observed) (op.Verdict, error) {
	prov, err := journal.ReadProvenance(tx, o.Incarnation)
	if err != nil {
		return op.Verdict{}, err
	}
	return g.classifyMade(tx, by, s, o, prov)
}

// classifyMade is classify for a caller that has read the provenance of the
// incarnation in the same transaction.
func (g *Gate) classifyMade(tx *store.Tx, by op.Requester, s op.Step, o op.Observed, prov *op.Provenance) (op.Verdict, error) {
	if prov != nil && prov.Target != o.Target {
		prov = nil // this gate made that identity under another name
	}
	trash, err := g.destroyed(tx, s, o.Trash)
	if err != nil {
		return op.Verdict{}, err
	}
	m := g.clock.Now()
	return classify.Classify(classify.Input{Step: s, Requester: by, Observed: o, Provenance: prov, Operator: g.operator(by), Trash: trash,
		Policy: g.rules.Load().policy, Now: m.Now, Doubt: !m.Trusted})
}

// makerOf returns the earlier step that makes t.
func makerOf(earlier []planned, t op.Target) (planned, bool) {
	i := slices.IndexFunc(earlier, func(e planned) bool { return e.step.Target == t && e.spec.Creates })
	if i < 0 {
		return planned{}, false
	}
	return earlier[i], true
}

// changes reports whether an earlier step changes t's signed state. Starting and
// stopping do not change it.
func changes(earlier []planned, t op.Target) bool {
	return slices.ContainsFunc(earlier, func(e planned) bool { return e.step.Target == t && !e.spec.Runtime })
}

// reshapes reports whether an earlier step changes fields or disks of t, which parameters of a later one are about. A
// copy changes neither.
func reshapes(earlier []planned, t op.Target) bool {
	return slices.ContainsFunc(earlier, func(e planned) bool {
		return e.step.Target == t && (e.spec.Identity != op.Keeps || e.spec.Changes != nil)
	})
}

// mayClear reports whether an earlier step may clear what is in the way: stop the guest, or take another guest that has its disk.
// It makes no parameters right, and allows no program, unless it changes what these are about. A command can change the owner
// of a program.
func mayClear(earlier []planned, o op.Observed) bool {
	switch {
	case o.Never:
		return false
	case o.CannotCode == refusal.BadParams:
		return reshapes(earlier, o.Target)
	case o.CannotCode == refusal.NotAllowed:
		return reshapes(earlier, o.Target) || slices.ContainsFunc(earlier, func(e planned) bool { return e.step.Op == op.Run })
	}
	return len(earlier) > 0
}

// stops reports whether the guest is stopped after the earlier steps, because one stops it and none starts it after that.
func stops(earlier []planned, t op.Target) (stopped bool) {
	for _, e := range earlier {
		if e.step.Target == t && e.spec.Runtime {
			stopped = !e.spec.Starts
		}
	}
	return stopped
}

// Verdict classifies a step on a driver's look at its target.
func (g *Gate) Verdict(ctx context.Context, by op.Requester, s op.Step, o op.Observed) (v op.Verdict, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { v, err = g.classify(tx, by, s, o); return err })
	return v, err
}

// Explain returns the class that a step would have, with its rule and reason, and
// the facts that people should see. It changes nothing.
func (g *Gate) Explain(ctx context.Context, by op.Requester, ask op.Ask) (op.Step, []op.Fact, error) {
	end, err := g.lookTurn(ctx, by)
	if err != nil {
		return op.Step{}, nil, err
	}
	defer end()
	p, err := g.plan(ctx, by, ask, nil)
	if err = cmp.Or(err, p.hindered); err != nil {
		return p.step, p.observed.Facts, err
	}
	canGo, err := g.CanGo(ctx, p.observed)
	return p.step, append(slices.Clip(p.observed.Facts), canGo...), err
}
