package gate

import (
	"context"
	"errors"
	"strings"
	"time"

	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// knows returns what the gate itself knows of a step that people should see before
// they sign it, because no back end can tell: who comes and who goes by a rotation,
// and who asked for the snapshot or the backup that a step restores or deletes.
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
	held, now := g.rules.Load(), g.clock.Now().Now
	r, err := held.rotation(p, now)
	if err != nil {
		return nil // it is refused, or its request has to be issued anew
	}
	var out []op.Fact
	for _, e := range held.trust.Effects(r, now) {
		out = append(out, e.Fact())
	}
	return out
}

// clocksApart is how far a back end's clock and the gate's may be apart for a copy
// to count as the one that a step made.
const clocksApart = 2 * time.Minute

// maker says who asked for a copy, by this gate's own records: it was made while a
// step of this gate made one of that name, or, of a back end that names its copies
// itself, one. Whatever a back end says of a copy's maker is not believed.
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
	case errors.Is(err, op.UnknownTarget):
		return "other hands than this gate's: it has no record of a step that made it"
	case err != nil:
		return "not known: this gate's records cannot be read"
	}
	return strings.Join(who, ", ") + " by " + step.String()
}
