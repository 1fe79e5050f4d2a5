package gate

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

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
	k := refusalKey{cmp.Or(payer(by), by.String()), r.Code}
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
	err := g.store.Update(ctx, func(tx *store.Tx) error { return g.note(tx, by, audit.Entry{Op: clip(what)}, r) })
	if err != nil {
		g.log.Error("a refusal is not in the audit log", "error", err)
	}
}
