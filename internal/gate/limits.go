package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// The bounds of open steps of one target. Each look for the next step reads them
// all. A step can wait for a signature for days. So steps of uids must leave room
// for operators and desired state.
const (
	maxOpenPerTarget = 128
	openForOperators = 32               // of these, only for operators and desired state
	maxOpenPerPayer  = op.MaxSteps + 16 // of a uid that is not an operator's: a whole job, and some steps more
)

// maxRotations is the most rotations that one requester may have open. Each listing
// computes what every one of them would make of the file.
const maxRotations = 4

// checkRotations refuses, as OverLimit, more open steps on the trust file than a
// requester may have.
func checkRotations(tx *store.Tx, by op.Requester, more int) error {
	open, err := journal.OpenSteps(tx, op.Signers)
	if err != nil {
		return err
	}
	mine, err := askedBy(tx, open, func(r op.Requester) bool { return r.String() == by.String() })
	if err != nil {
		return err
	}
	if mine+more > maxRotations {
		return refusal.New(refusal.OverLimit, "%s has %d rotations open, and %d is the most", by, mine, maxRotations).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return nil
}

// checkLimit refuses, as OverLimit, a job with which too many steps would be open.
func (g *Gate) checkLimit(tx *store.Tx, by op.Requester, steps []planned) error {
	asks := 0
	opens := map[op.Target]int{}
	for _, p := range steps {
		if p.step.Verdict.Class == op.Destructive {
			asks++
		}
		opens[p.step.Target]++
	}
	if n := opens[op.Signers]; n > 0 {
		if err := checkRotations(tx, by, n); err != nil {
			return err
		}
	}
	if opens[op.Drilled] > 0 {
		if err := checkDrills(tx); err != nil {
			return err
		}
	}
	if opens[op.Incidents] > 0 {
		if err := checkReviews(tx); err != nil {
			return err
		}
	}
	for t, more := range opens {
		n, err := journal.CountOpen(tx, t)
		if err == nil {
			err = g.checkTarget(tx, by, t, n, more)
		}
		if err != nil {
			return err
		}
	}
	if err := g.checkSnapshots(tx, by, steps); err != nil {
		return err
	}
	if asks == 0 {
		return nil
	}
	return g.checkPending(tx, by, asks)
}

// checkTarget refuses, as OverLimit, more steps on a target than there is room for
// beside the n open steps.
func (g *Gate) checkTarget(tx *store.Tx, by op.Requester, t op.Target, n, more int) error {
	limit := maxOpenPerTarget
	if !g.asksAsOperator(by) {
		limit -= openForOperators
	}
	if n+more > limit {
		return targetFull(t, n, "", limit)
	}
	if n+more <= maxOpenPerPayer || g.asksAsOperator(by) {
		return nil
	}
	open, err := journal.OpenSteps(tx, t)
	if err != nil {
		return err
	}
	mine, err := askedBy(tx, open, func(r op.Requester) bool { return r.Payer() == by.Payer() })
	if err == nil && mine+more > maxOpenPerPayer {
		err = targetFull(t, mine, " of "+by.Payer(), maxOpenPerPayer)
	}
	return err
}

// targetFull refuses another step on a target with n open steps. of says, in words,
// which steps n counts.
func targetFull(t op.Target, n int, of string, limit int) error {
	return refusal.New(refusal.OverLimit, "%s has %d open steps%s, and %d is the most", t, n, of, limit).
		WithHint("wait for some to end, or cancel some (gated jobs, gated cancel)")
}

// askedBy counts the steps with a requester that is accepts.
func askedBy(tx *store.Tx, steps []op.Step, is func(op.Requester) bool) (n int, err error) {
	asked := map[op.JobID]bool{}
	for _, s := range steps {
		if _, known := asked[s.ID.Job]; !known {
			all, err := journal.Requesters(tx, s.ID.Job)
			if err != nil {
				return 0, err
			}
			asked[s.ID.Job] = slices.ContainsFunc(all, is)
		}
		if asked[s.ID.Job] {
			n++
		}
	}
	return n, nil
}

// checkPending refuses, as OverLimit, more open requests than the policy allows one
// requester.
func (g *Gate) checkPending(tx *store.Tx, by op.Requester, more int) error {
	limit := g.rules.Load().policy.OpenPerSource
	n, err := journal.PendingOf(tx, by.String())
	if err == nil && n+more > limit {
		err = refusal.New(refusal.OverLimit, "%s has %d requests open, and %d is the most", by, n, limit).
			WithHint("approve or reject some (opsign list), or cancel some (gated cancel)")
	}
	return err
}

// Bounds of what a flood of refusals writes. Of one caller and code, the first ten
// within a minute are one entry each. The others are one entry with a count.
const (
	refusalWindow = time.Minute
	refusalBurst  = 10
	// refusalCallers bounds the memory. Callers beyond it share one counter.
	refusalCallers = 4096
	// maxDetail is the most bytes of an entry's sentence, because the sentence may
	// repeat a caller's text.
	maxDetail = 1024
)

type refusalKey struct {
	who  string
	code refusal.Code
}

type refusalCount struct {
	since    time.Time
	seen     int
	withheld int
}

// refusals counts the refusals of the last minute.
type refusals struct {
	mu     sync.Mutex
	counts map[refusalKey]*refusalCount
}

// admit counts one refusal and reports whether it gets its own entry. If a window
// ended in which refusals got none, it returns their number.
func (r *refusals) admit(k refusalKey, now time.Time) (write bool, withheld int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[refusalKey]*refusalCount{}
	}
	c := r.counts[k]
	if c == nil && len(r.counts) >= refusalCallers {
		k = refusalKey{who: "others"}
		c = r.counts[k]
	}
	if c == nil {
		c = &refusalCount{since: now}
		r.counts[k] = c
	}
	if now.Sub(c.since) >= refusalWindow {
		withheld = c.withheld
		*c = refusalCount{since: now}
	}
	c.seen++
	if c.seen > refusalBurst {
		c.withheld++
		return false, withheld
	}
	return true, withheld
}

// withhold counts a refusal that was admitted and then not written.
func (r *refusals) withhold(k refusalKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.counts[k]; c != nil {
		c.withheld++
	}
}

// ended returns and forgets the windows that are over.
func (r *refusals) ended(now time.Time) map[refusalKey]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[refusalKey]int{}
	for k, c := range r.counts {
		if now.Sub(c.since) >= refusalWindow {
			if c.withheld > 0 {
				out[k] = c.withheld
			}
			delete(r.counts, k)
		}
	}
	return out
}

// note writes a refusal to the audit log, within the bounds on floods.
func (g *Gate) note(tx *store.Tx, by op.Requester, e audit.Entry, refused error) error {
	r := refusal.As(refused)
	// The key has no agent, because a caller could choose a new name for each refusal.
	k := refusalKey{cmp.Or(by.Payer(), by.String()), r.Code}
	write, withheld := g.refusals.admit(k, g.clock.Now().Now)
	if write {
		err := g.Spend(tx, by, rowCost+int64(min(len(r.Detail), maxDetail)+len(e.Op)+len(e.Target)))
		if errors.As(err, new(*refusal.Refusal)) {
			g.refusals.withhold(k)
			write = false
		} else if err != nil {
			return err
		}
	}
	if withheld > 0 {
		if err := g.append(tx, countEntry(k, withheld)); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}
	e.Kind, e.By, e.PID = audit.Refused, by.String(), by.PID
	e.Code, e.Stage, e.Detail = r.Code, r.Stage, clipTo(r.Detail, maxDetail)
	return g.append(tx, e)
}

// flushRefusals writes the counts of windows that are over.
func (g *Gate) flushRefusals(ctx context.Context) error {
	for k, n := range g.refusals.ended(g.clock.Now().Now) {
		if err := g.Log(ctx, countEntry(k, n)); err != nil {
			return err
		}
	}
	return nil
}

func countEntry(k refusalKey, n int) audit.Entry {
	return audit.Entry{Kind: audit.Refused, By: k.who, Code: k.code, Count: n,
		Detail: "repeats within a minute that have no entry of their own"}
}

// NoteRefused writes a refusal that was found before the gate was asked, such as a
// caller that may not ask at all. The text what has the method and path.
func (g *Gate) NoteRefused(ctx context.Context, by op.Requester, what string, r *refusal.Refusal) {
	err := g.decideOr(ctx, by, audit.Entry{Op: clip(what)}, func(*store.Tx) error { return r }, nil)
	if !errors.Is(err, r) {
		g.log.Error("a refusal is not in the audit log", "error", err)
	}
}
