package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// Shown is Request for people who are about to decide. If the request waits, the
// facts are those of a new look. The data that would be lost may have grown since
// the request was made, although nothing that a signature covers has changed. If the
// look fails or shows another target, the old facts stay.
func (g *Gate) Shown(ctx context.Context, id op.RequestID) (op.Request, error) {
	r, err := g.Request(ctx, id)
	if err != nil || r.Step.State != op.StatePending {
		return r, err
	}
	o, err := g.look(ctx, r.Step.Look())
	if err == nil && stale(r.Step, o) == nil {
		r.Facts, r.FactsAt = o.Facts, g.clock.Now().Now
	}
	return r, nil
}

// present fills in what people see of a waiting request: what it asks for, which
// signatures are missing, and which people could give them.
func (g *Gate) present(inForce *rules, r *op.Request, now time.Time) {
	need, err := inForce.requirement(*r, now)
	if err != nil {
		return // the next approval refuses it or issues it anew
	}
	r.Need = need
	if r.Step.State != op.StatePending || inForce.trust.Blocked() != nil {
		return
	}
	r.Signatures, _ = split(inForce, need, r.Signatures, now)
	r.Could = map[op.Role][]string{}
	for _, role := range need.Roles() {
		for _, who := range inForce.trust.Could(role, need.Touch(role), now) {
			if !slices.ContainsFunc(r.Signatures, func(s op.Signed) bool { return s.Principal == who && s.Role == role }) {
				r.Could[role] = append(r.Could[role], who)
			}
		}
	}
	owed, err := inForce.owed(*r, now)
	if err != nil {
		return
	}
	for _, o := range owed {
		r.Owed = append(r.Owed, o.Key+" "+string(o.Role))
	}
}

// knows returns what people should see of a step before they sign it and only the
// gate can tell. For a rotation that is which keys come and go. For a restored or
// deleted snapshot or backup it is who asked for that copy.
func (g *Gate) knows(ctx context.Context, l op.Look, o op.Observed) []op.Fact {
	if l.Op == op.Rotate {
		return g.rotationFacts(l.Params)
	}
	spec, err := op.Lookup(l.Op)
	if err != nil || spec.Copy == "" || !o.Present || o.Missing != "" {
		return nil
	}
	if o.Copy == nil {
		return []op.Fact{{Name: spec.Copy, Text: "the back end tells nothing of it"}}
	}
	return []op.Fact{{Name: spec.Copy + " made by", Text: g.maker(ctx, o.Target, *o.Copy)}}
}

func (g *Gate) rotationFacts(p op.Params) []op.Fact {
	inForce, now := g.rules.Load(), g.clock.Now().Now
	r, err := inForce.rotation(p, now)
	if err != nil {
		return nil // the gate refuses it, or issues its request anew
	}
	var out []op.Fact
	for _, e := range inForce.trust.Effects(r, now) {
		out = append(out, e.Fact())
	}
	return out
}

// clocksApart is how far a back end's clock may differ from the gate's. A larger
// difference means that the step did not make the copy.
const clocksApart = 2 * time.Minute

// maker says who asked for a copy, by this gate's own records. It finds the step
// that made a copy of that name at that time. If the back end names its copies
// itself, the time alone decides. The gate does not believe a back end's own word on
// the maker.
func (g *Gate) maker(ctx context.Context, t op.Target, c op.Copy) string {
	if c.Made.IsZero() {
		return "not known: the back end does not say when it was made"
	}
	by, params := "guest.backup", op.Params(nil)
	if c.Kind == "snapshot" {
		by, params = "guest.snapshot", op.Params{"snapshot": c.Name}
	}
	var who []string
	var step op.StepID
	err := g.view(ctx, func(tx *store.Tx) error {
		s, err := journal.CopyMadeBy(tx, t, by, params, c.Made.Add(-clocksApart), c.Made.Add(clocksApart))
		if err != nil {
			return err
		}
		step = s.ID
		all, err := journal.Requesters(tx, s.ID.Job)
		for _, r := range all {
			who = append(who, r.String())
		}
		return err
	})
	switch {
	case errors.Is(err, refusal.UnknownTarget):
		return "other hands than this gate's: it has no record of a step that made it"
	case err != nil:
		return "not known: this gate's records cannot be read"
	}
	return strings.Join(who, ", ") + " by " + step.String()
}

// CanGo says, for people, which caller may still end a target without a signature,
// and until when. The target's agent may while the target is scratch. The job that
// made the target may while it is open and no other step used the target. CanGo
// returns nothing if only a signature can end the target.
func (g *Gate) CanGo(ctx context.Context, o op.Observed) (facts []op.Fact, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { facts, err = g.canGo(tx, o); return err })
	return facts, err
}

func (g *Gate) canGo(tx *store.Tx, o op.Observed) ([]op.Fact, error) {
	p, err := journal.ReadProvenance(tx, o.Incarnation)
	if err != nil || p == nil || !o.Present {
		return nil, err
	}
	destroy := op.Step{Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation, Params: op.Params{}}
	until := p.CreatedAt.Add(g.rules.Load().policy.ScratchMaxAge)
	var facts []op.Fact
	say := func(by op.Requester, s op.Step, end time.Time, text string) error {
		v, err := g.classify(tx, by, s, o)
		if err == nil && v.Class == op.Benign {
			facts = append(facts, op.Fact{Name: "can still go", Text: fmt.Sprintf("until %s %s", end.UTC().Format(time.RFC3339), text)})
		}
		return err
	}
	if p.Scratch {
		end := until
		if p.ScratchUntil.Before(end) {
			end = p.ScratchUntil
		}
		err = say(op.Requester{Source: op.SourceAPI, Agent: p.Agent}, destroy, end, "agent "+p.Agent+" may destroy it unsigned: it is its scratch")
		if err != nil {
			return nil, err
		}
	}
	job, err := journal.ReadJob(tx, p.Job)
	if err != nil || !job.FinishedAt.IsZero() {
		return facts, err
	}
	destroy.ID.Job, destroy.Undoes = p.Job, 1
	err = say(op.Requester{Source: op.SourceGate}, destroy, until,
		fmt.Sprintf("job %s takes it back unsigned if it fails, unless another step uses it", p.Job))
	return facts, err
}
