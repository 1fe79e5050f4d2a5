package gate

import (
	"context"
	"fmt"
	"time"

	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// CanGo returns, for people, who may still end a target without a signature and
// until when: its agent, while it is scratch, and its own job, while that is open
// and nothing used the target. It returns nothing for a target that only a
// signature can end.
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
