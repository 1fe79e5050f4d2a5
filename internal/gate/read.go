package gate

import (
	"context"
	"errors"

	"gated/internal/audit"
	"gated/internal/crashpoint"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// Job returns one job; UnknownTarget if there is none.
func (g *Gate) Job(ctx context.Context, id op.JobID) (j op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { j, err = journal.ReadJob(tx, id); return err })
	return j, err
}

// ShownJob is Job with what the steps printed, of up to MaxOutput bytes each.
func (g *Gate) ShownJob(ctx context.Context, id op.JobID) (j op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { j, err = journal.ReadShownJob(tx, id); return err })
	return j, err
}

// JobFilter chooses jobs.
type JobFilter = journal.Filter

// Jobs returns jobs, oldest first.
func (g *Gate) Jobs(ctx context.Context, f JobFilter) (js []op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { js, err = journal.ReadJobs(tx, f); return err })
	return js, err
}

// Request returns one request; UnknownTarget if there is none.
func (g *Gate) Request(ctx context.Context, id op.RequestID) (r op.Request, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { r, err = journal.ReadRequest(tx, id); return err })
	if err == nil {
		g.present(g.rules.Load(), &r, g.clock.Now().Now)
	}
	return r, err
}

// Requests returns the requests whose step is in the state, or with the empty
// state those that are open, oldest first.
func (g *Gate) Requests(ctx context.Context, state op.State) (rs []op.Request, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { rs, err = journal.ReadRequests(tx, state); return err })
	held, now := g.rules.Load(), g.clock.Now().Now
	for i := range rs {
		g.present(held, &rs[i], now)
	}
	return rs, err
}

// Provenance returns what this gate recorded of an incarnation, nil if it did
// not make it.
func (g *Gate) Provenance(ctx context.Context, inc op.Incarnation) (p *op.Provenance, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { p, err = journal.ReadProvenance(tx, inc); return err })
	return p, err
}

// Counts returns how many steps are in each open state.
func (g *Gate) Counts(ctx context.Context) (n map[op.State]int, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { n, err = journal.Count(tx); return err })
	return n, err
}

// OpenTargets returns the targets that have an open step.
func (g *Gate) OpenTargets(ctx context.Context) (ts []op.Target, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { ts, err = journal.OpenTargets(tx); return err })
	return ts, err
}

// Open returns a target's open steps, oldest first.
func (g *Gate) Open(ctx context.Context, t op.Target) (steps []op.Step, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { steps, err = journal.OpenSteps(tx, t); return err })
	return steps, err
}

// Dispatched returns the steps that were under way when the daemon stopped.
func (g *Gate) Dispatched(ctx context.Context) (steps []op.Step, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { steps, err = journal.InState(tx, op.StateDispatched); return err })
	return steps, err
}

// Runnable returns the first step of a target that may run now. None may while
// another one of that target is dispatched.
func (g *Gate) Runnable(ctx context.Context, t op.Target) (id op.StepID, ok bool, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		open, err := journal.OpenSteps(tx, t)
		if err != nil {
			return err
		}
		for _, s := range open {
			if s.State == op.StateDispatched {
				return nil
			}
		}
		for _, s := range open {
			steps, err := journal.StepsOf(tx, s.ID.Job)
			if err != nil {
				return err
			}
			if _, err := ready(steps, s.ID); err != nil {
				continue
			}
			held, err := g.holds(tx, s)
			if err == nil && !held {
				_, held, err = g.heldUp(tx, steps, s)
			}
			if err != nil {
				return err
			}
			if !held {
				id, ok = s.ID, true
				return nil
			}
		}
		return nil
	})
	return id, ok, err
}

// Events returns audit entries with a number above after, oldest first.
func (g *Gate) Events(ctx context.Context, after int64, limit int) (es []audit.Entry, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { es, err = audit.After(tx, after, limit); return err })
	return es, err
}

// EventTexts is Events with the stored text of each entry, over which its hash
// goes.
func (g *Gate) EventTexts(ctx context.Context, after int64, limit int) (bodies [][]byte, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { bodies, err = audit.Bodies(tx, after, limit); return err })
	return bodies, err
}

// AuditHead returns the newest audit entry's number and hash.
func (g *Gate) AuditHead(ctx context.Context) (h audit.Head, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { h, err = audit.ReadHead(tx); return err })
	return h, err
}

// Set is a named piece of desired state.
type Set = journal.Set

// PutSet stores a desired set for an operator. ifMatch, if not empty, is the
// ETag that the set must have now, or "*" for any; another is a Conflict. The
// caller has checked the body.
func (g *Gate) PutSet(ctx context.Context, by op.Requester, name, ifMatch string, body []byte) (string, error) {
	if err := op.CheckName(name); err != nil {
		return "", g.refuse(ctx, by, audit.Entry{}, err)
	}
	s := journal.Set{Name: name, ETag: op.SHA256(body), Body: body}
	e := audit.Entry{Kind: audit.DesiredPut, By: by.String(), PID: by.PID, Detail: name + " sha256:" + s.ETag}
	return s.ETag, g.decide(ctx, by, e, func(tx *store.Tx) error {
		old, err := journal.ReadSet(tx, name)
		if err != nil && !errors.Is(err, op.UnknownTarget) {
			return err
		}
		if ifMatch != "" && (err != nil || ifMatch != "*" && ifMatch != old.ETag) {
			return op.Refuse(op.Conflict, "the set %s is another version by now", name).
				WithHint("read it again, then put your change on top of it")
		}
		s.UpdatedAt = g.clock.Now().Now
		if err := journal.PutSet(tx, s); err != nil {
			return err
		}
		crashpoint.Here(crashpoint.SetWritten)
		return g.append(tx, e)
	})
}

// Set returns one desired set; UnknownTarget if there is none.
func (g *Gate) Set(ctx context.Context, name string) (s Set, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { s, err = journal.ReadSet(tx, name); return err })
	return s, err
}

// Sets returns every desired set, sorted by name.
func (g *Gate) Sets(ctx context.Context) (ss []Set, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { ss, err = journal.ReadSets(tx); return err })
	return ss, err
}

// DeleteSet removes a desired set; its wishes end, its guests stay.
func (g *Gate) DeleteSet(ctx context.Context, by op.Requester, name string) error {
	e := audit.Entry{Kind: audit.DesiredGone, By: by.String(), PID: by.PID, Detail: clip(name)}
	return g.decide(ctx, by, e, func(tx *store.Tx) error {
		found, err := journal.DeleteSet(tx, name)
		if err == nil && !found {
			err = op.Refuse(op.UnknownTarget, "there is no desired set %q", clip(name))
		}
		if err != nil {
			return err
		}
		return g.append(tx, e)
	})
}
