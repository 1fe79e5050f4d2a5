package gate

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// The most looks at a time for callers: of all uids, and of one uid. A look can be a
// probe that takes a minute. Looks for signed work need no turn, and driver/several
// has room for both.
const (
	maxLooks    = 32
	maxLooksUID = 8
)

// lookTurn waits for a requester's turn to look at a target. Desired state needs no
// turn, because reconcile looks at one target for each of its workers.
func (g *Gate) lookTurn(ctx context.Context, by op.Requester) (end func(), err error) {
	if by.Source != op.SourceAPI {
		return func() {}, nil
	}
	end, err = g.looks.Take(ctx, by.UID)
	if err != nil {
		return nil, refusal.New(refusal.OverLimit, "too many looks at targets at once for uid %d", by.UID).
			WithHint("end some, or try again later")
	}
	return end, nil
}

// planStep plans one step of a submission in its turn. It checks limits before the
// look, and after the wait for the turn, because a limit may have been reached
// meanwhile.
func (g *Gate) planStep(ctx context.Context, sub op.Submission, ask op.Ask, earlier []planned, claimed *claim) (planned, error) {
	end, err := g.lookTurn(ctx, sub.Requester)
	if err != nil {
		return planned{}, err
	}
	defer end()
	if err := g.mayAsk(ctx, sub.Requester); err != nil {
		return planned{}, err
	}
	if err := g.checkRoom(ctx, sub, ask, claimed); err != nil {
		return planned{}, err
	}
	return g.plan(ctx, sub.Requester, ask, earlier)
}

// checkRoom refuses, as OverLimit, a step for which there is no room, whatever a
// look would show. It counts the steps that other submissions plan at the same time,
// so that these cannot all take the last place. The final decision is checkLimit's.
func (g *Gate) checkRoom(ctx context.Context, sub op.Submission, ask op.Ask, claimed *claim) error {
	return g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, ask.Target)
		if err != nil {
			return err
		}
		if len(sub.Steps) == 1 && mayJoin(open, ask) {
			return nil
		}
		waits := g.surelyWaits(ask)
		ofTarget, ofRequester := claimed.add(ask.Target, waits)
		if err := g.checkTarget(tx, sub.Requester, ask.Target, len(open), ofTarget); err != nil {
			return err
		}
		if !waits {
			return nil
		}
		return g.checkPending(tx, sub.Requester, ofRequester)
	})
}

// claims counts steps that are planned and not yet written: all of each target, and
// of each requester those that will wait for a signature.
type claims struct {
	mu      sync.Mutex
	targets map[op.Target]int
	waiting map[string]int
}

// claim has the claims of one submission.
type claim struct {
	of      *claims
	by      string
	targets []op.Target
	waits   int
}

func newClaims() *claims { return &claims{targets: map[op.Target]int{}, waiting: map[string]int{}} }

func (c *claims) begin(by op.Requester) *claim { return &claim{of: c, by: by.String()} }

// add claims room for a step, and returns how many claims there are now.
func (c *claim) add(t op.Target, waits bool) (ofTarget, ofRequester int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.targets = append(c.targets, t)
	c.of.targets[t]++
	if waits {
		c.waits++
		c.of.waiting[c.by]++
	}
	return c.of.targets[t], c.of.waiting[c.by]
}

// end gives up the claims of a submission when its steps are written or refused.
func (c *claim) end() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, t := range c.targets {
		if c.of.targets[t]--; c.of.targets[t] == 0 {
			delete(c.of.targets, t)
		}
	}
	if c.of.waiting[c.by] -= c.waits; c.of.waiting[c.by] == 0 {
		delete(c.of.waiting, c.by)
	}
}

// mayJoin reports whether a step may turn out to be one that is already open. Such a
// step needs no more room.
func mayJoin(open []op.Step, ask op.Ask) bool {
	return slices.ContainsFunc(open, func(s op.Step) bool {
		return s.Op == ask.Op && bytes.Equal(s.Params.Canonical(), ask.Params.Canonical())
	})
}

// surelyWaits reports whether a step is destructive, whatever a look shows. This is
// a command that the operator does not call benign. A look at a command runs its
// probe.
func (g *Gate) surelyWaits(ask op.Ask) bool {
	return ask.Op == op.Run && !g.rules.Load().policy.Harmless(ask.Target.Name)
}
