package gate

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// Quotas bounds what the gate stores for one requester. A field that is 0 sets no
// bound.
type Quotas struct {
	JournalBytes int64 // written within quotaWindow
	Snapshots    int   // on one guest
}

// Room keeps disk space for signed work. Its methods must not block.
type Room interface {
	// Admit refuses, as Unavailable, so many bytes of unsigned work if the disk has
	// too little room.
	Admit(bytes int64) error
	// Make frees a part of the reserve if signed work needs it, and reports whether
	// it did. full says that a write has just failed.
	Make(full bool) bool
	// Committed says that the admitted bytes are on disk.
	Committed()
}

// endless is the room of a gate whose Config has none.
type endless struct{}

func (endless) Admit(int64) error { return nil }
func (endless) Make(bool) bool    { return false }
func (endless) Committed()        {}

// quotaWindow is how long the bytes that the gate wrote for a requester count.
const quotaWindow = time.Hour

// What one row costs beyond the caller's bytes. It includes indexes, audit entries,
// their hashes, and what the gate writes until the step ends.
const (
	stepCost    = 4 << 10
	requestCost = 4 << 10
	rowCost     = 1 << 10
)

// update commits what fn writes. If the disk is full, it uses the reserve, which is
// for signed work and for the end of steps that run.
func (g *Gate) update(ctx context.Context, fn func(*store.Tx) error) error {
	return g.updateOr(ctx, fn, nil)
}

// updateOr is update with what the gate writes if fn fails.
func (g *Gate) updateOr(ctx context.Context, fn func(*store.Tx) error, or func(*store.Tx, error) error) error {
	g.room.Make(false)
	for {
		err := g.store.UpdateOr(ctx, fn, or)
		if !store.DiskFull(err) || !g.room.Make(true) {
			return err
		}
	}
}

// Spend counts bytes that an unsigned decision writes for a requester. It refuses,
// as OverLimit, more than the requester's quota. It refuses, as Unavailable, bytes
// for which the disk has too little room.
func (g *Gate) Spend(tx *store.Tx, by op.Requester, bytes int64) error {
	if by.Payer() == "" {
		return nil
	}
	if err := g.withinQuota(tx, by, bytes); err != nil {
		return err
	}
	if err := g.room.Admit(bytes); err != nil {
		return err
	}
	return g.charge(tx, by, bytes)
}

// charge counts bytes without checking the quota, because a step that has begun must
// be able to end.
func (g *Gate) charge(tx *store.Tx, by op.Requester, bytes int64) error {
	if g.quotas.JournalBytes == 0 {
		return nil
	}
	return journal.Spend(tx, by.Payer(), g.clock.Now().Now, bytes)
}

// withinQuota refuses, as OverLimit, bytes beyond a requester's quota for the
// window.
func (g *Gate) withinQuota(tx *store.Tx, by op.Requester, bytes int64) error {
	who, most := by.Payer(), g.quotas.JournalBytes
	if who == "" || most == 0 {
		return nil
	}
	n, err := journal.Spent(tx, who, g.clock.Now().Now.Add(-quotaWindow))
	if err != nil || n+bytes <= most {
		return err
	}
	return refusal.New(refusal.OverLimit,
		"%s had the gate write %d KiB within an hour; with %d KiB more that is over its quota of %d KiB",
		who, n>>10, (bytes+1023)>>10, most>>10).
		WithHint("wait some minutes and ask less often or with less; limits.journal_quota in gated.yaml is the bound; approvals go on meanwhile")
}

// mayAsk refuses, before any look, a caller whose quota is used up. It refuses every
// caller while the disk has too little room.
func (g *Gate) mayAsk(tx *store.Tx, by op.Requester) error {
	if err := g.room.Admit(0); err != nil {
		return err
	}
	return g.withinQuota(tx, by, 1)
}

// costOf is how many bytes the gate writes for a submission's steps.
func costOf(sub op.Submission, steps []planned) int64 {
	reason := int64(len(sub.Reason))
	n := reason + int64(len(sub.IdempotencyKey)) + rowCost
	for _, p := range steps {
		params := int64(len(p.step.Params.Canonical()))
		n += stepCost + reason + 2*params // in the step's row and in the audit log
		if p.step.Verdict.Class == op.Destructive {
			n += reason + params + shownCost(p.observed)
		}
	}
	return n
}

// shownCost is how many bytes the gate writes for a request beside its parameters.
func shownCost(o op.Observed) int64 {
	n := int64(requestCost)
	for _, f := range o.Facts {
		n += int64(len(f.Name) + len(f.Text) + 32)
	}
	for k, v := range o.Labels {
		n += int64(len(k) + len(v) + 8)
	}
	return n
}

// chargeOutput counts a step's output for the requester of the step.
func (g *Gate) chargeOutput(tx *store.Tx, s op.Step, text string) error {
	if text == "" || g.quotas.JournalBytes == 0 {
		return nil
	}
	who, err := journal.Requesters(tx, s.ID.Job)
	if err != nil || len(who) == 0 {
		return err
	}
	return g.charge(tx, who[0], int64(min(len(text), MaxOutput)))
}

// roomFor refuses, as Unavailable, to begin unsigned work while the disk has too
// little room. The step then waits. A job with a signed step goes on, and so does a
// compensation.
func (g *Gate) roomFor(ctx context.Context, id op.StepID) error {
	low := g.room.Admit(0)
	if low == nil {
		return nil
	}
	var steps []op.Step
	err := g.view(ctx, func(tx *store.Tx) (err error) { steps, err = journal.StepsOf(tx, id.Job); return err })
	for _, s := range steps {
		if s.Verdict.Class == op.Destructive || s.ID == id && s.Undoes != 0 {
			return err
		}
	}
	return errors.Join(err, low)
}
