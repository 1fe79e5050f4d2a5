package gate

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

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
	end, err = g.looks.Take(ctx, by.Account().Lane())
	if err != nil {
		return nil, refusal.New(refusal.OverLimit, "too many looks at targets at once for %s", by.Payer()).
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
	err = g.view(ctx, func(tx *store.Tx) error {
		if err := g.mayAsk(tx, sub.Requester); err != nil {
			return err
		}
		return g.checkRoom(tx, sub, ask, claimed)
	})
	if err != nil {
		return planned{}, err
	}
	return g.plan(ctx, sub.Requester, ask, earlier)
}

// checkRoom refuses, as OverLimit, a step for which there is no room, whatever a
// look would show. It counts the steps that other submissions plan at the same time,
// so that these cannot all take the last place. The final decision is checkLimit's.
func (g *Gate) checkRoom(tx *store.Tx, sub op.Submission, ask op.Ask, claimed *claim) error {
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

// Turn is what a target has to be done now.
type Turn struct {
	Permit Permit       // for the step that may run now
	Signed bool         // operators authorized this step or another step of its job
	By     op.Requester // the first requester of its job
	Asks   bool         // a request about the target waits for signatures; known if no step may run, too

	// Wait is how long the policy still delays an authorized step, if no step may run. The wait ends when the delays are
	// over. It also ends when the payload has expired, because the step ends then. If the policy delays no step, it is 0.
	// It is 0 also while a step of the target is dispatched, because the end of that step wakes the target.
	Wait time.Duration
}

// Next returns the step of a target that may run now, with its permit; ok is false if none may. No step runs while
// another step of that target is dispatched. Steps of signed jobs go first, then the oldest. Otherwise a caller could
// delay authorized steps with many steps of its own.
func (g *Gate) Next(ctx context.Context, t op.Target) (turn Turn, ok bool, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, t)
		if err != nil {
			return err
		}
		running := false
		for _, s := range open {
			running = running || s.State == op.StateDispatched
			turn.Asks = turn.Asks || s.State == op.StatePending
		}
		if running {
			return nil
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
				turn.Permit, turn.Signed, ok = Permit{&permitCore{gate: g, step: s}}, signed, true
			}
			if may && signed {
				break
			}
		}
		if !ok {
			turn.Wait, err = g.due(tx, open)
			return err
		}
		who, err := journal.Requesters(tx, turn.Permit.Step().ID.Job)
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
	return turn.Permit.Step().ID, ok, err
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

// opSnapshot is the step that adds a snapshot. It is benign, and each snapshot takes
// space on the guests' disk.
const opSnapshot = "guest.snapshot"

// checkSnapshots refuses, as OverLimit, more snapshots than one requester may have
// on one guest. It counts those that exist, those that wait, and those that the job
// adds.
func (g *Gate) checkSnapshots(tx *store.Tx, by op.Requester, steps []planned) error {
	if g.quotas.Snapshots == 0 || by.Payer() == "" {
		return nil
	}
	adds := map[op.Target]int{}
	for _, p := range steps {
		if p.step.Op != opSnapshot || p.step.Verdict.Class == op.Destructive {
			continue
		}
		t := p.step.Target
		if adds[t] == 0 {
			n, err := g.countSnapshots(tx, by, t, p.observed)
			if err != nil {
				return err
			}
			waiting, err := openSnapshots(tx, by, t)
			if err != nil {
				return err
			}
			adds[t] = n + waiting
		}
		if adds[t]++; adds[t] > g.quotas.Snapshots {
			return g.tooManySnapshots(by, t)
		}
	}
	return nil
}

func (g *Gate) tooManySnapshots(by op.Requester, t op.Target) error {
	return refusal.New(refusal.OverLimit, "%s has %d snapshots of %s, and that is the most", by.Payer(),
		g.quotas.Snapshots, t).
		WithHint("delete some (gated submit guest.snapshot-delete, which an operator signs); limits.snapshots_per_guest in gated.yaml is the bound")
}

// countSnapshots returns how many of a requester's snapshots of a target the look
// shows.
func (g *Gate) countSnapshots(tx *store.Tx, by op.Requester, t op.Target, o op.Observed) (n int, err error) {
	mine, err := journal.SnapshotsBy(tx, t, by.Payer())
	for _, name := range mine {
		if slices.Contains(o.Snapshots, name) {
			n++
		}
	}
	return n, err
}

func openSnapshots(tx *store.Tx, by op.Requester, t op.Target) (n int, err error) {
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return 0, err
	}
	for _, s := range open {
		if s.Op != opSnapshot {
			continue
		}
		who, err := journal.Requesters(tx, s.ID.Job)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(who, func(r op.Requester) bool { return r.Payer() == by.Payer() }) {
			n++
		}
	}
	return n, nil
}

// snapshotFits checks the quota once more at the dispatch, because no other step of
// the target runs during that look. It deletes the records of snapshots that are
// gone.
func (g *Gate) snapshotFits(tx *store.Tx, by op.Requester, s op.Step, now op.Observed) error {
	if s.Op != opSnapshot || g.quotas.Snapshots == 0 || by.Payer() == "" {
		return nil
	}
	mine, err := journal.SnapshotsBy(tx, s.Target, by.Payer())
	if err != nil {
		return err
	}
	n := 0
	for _, name := range mine {
		if slices.Contains(now.Snapshots, name) {
			n++
		} else if err := journal.ForgetSnapshot(tx, s.Target, name); err != nil {
			return err
		}
	}
	if n >= g.quotas.Snapshots {
		return g.tooManySnapshots(by, s.Target)
	}
	return nil
}

// countSnapshot records which requester owns the snapshot that a step made.
func (g *Gate) countSnapshot(tx *store.Tx, s op.Step) error {
	if s.Op != opSnapshot {
		return nil
	}
	who, err := journal.Requesters(tx, s.ID.Job)
	if err != nil || len(who) == 0 || who[0].Payer() == "" {
		return err
	}
	return journal.AddSnapshot(tx, s.Target, s.Params.Str("snapshot"), who[0].Payer(), s.ID.Job)
}

// Incarnations returns every incarnation with a prefix that this gate made, or that a step was for. A back end that numbers its
// guests asks, so that it gives no number to a second guest.
func (g *Gate) Incarnations(ctx context.Context, prefix string) (all []op.Incarnation, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { all, err = journal.Incarnations(tx, prefix); return err })
	return all, err
}
