package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// Job returns one job; UnknownTarget if there is none.
func (g *Gate) Job(ctx context.Context, id op.JobID) (j op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { j, err = journal.ReadJob(tx, id); return g.orTurnedAway(tx, id, err) })
	return j, err
}

// ShownJob is Job with the output of the steps, at most MaxOutput bytes each.
func (g *Gate) ShownJob(ctx context.Context, id op.JobID) (j op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { j, err = journal.ReadShownJob(tx, id); return g.orTurnedAway(tx, id, err) })
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
	err = g.view(ctx, func(tx *store.Tx) error { r, err = journal.ReadRequest(tx, id); return g.orTurnedAway(tx, id.Job, err) })
	if err == nil {
		g.present(g.rules.Load(), &r, g.clock.Now().Now)
	}
	return r, err
}

// RequestFilter chooses requests.
type RequestFilter = journal.RequestFilter

// requestsPage is how many bytes of requests the gate reads at a time for itself.
const requestsPage = 1 << 20

// EachRequest calls fn with every request in the state, page by page, and ends with
// fn's error. It may miss requests that are made meanwhile, and those that end.
func (g *Gate) EachRequest(ctx context.Context, state op.State, fn func(op.Request) error) error {
	for f := (RequestFilter{State: state, Bytes: requestsPage}); ; {
		page, err := g.RequestPage(ctx, f)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
		f.After = page[len(page)-1].ID
	}
}

// Requests returns the requests whose step is in the state, oldest first. The empty
// state means the open requests. They may be many.
func (g *Gate) Requests(ctx context.Context, state op.State) (rs []op.Request, err error) {
	return rs, g.EachRequest(ctx, state, func(r op.Request) error { rs = append(rs, r); return nil })
}

// RequestPage returns the requests that a filter chooses, oldest first.
func (g *Gate) RequestPage(ctx context.Context, f RequestFilter) (rs []op.Request, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { rs, err = journal.ReadRequests(tx, f); return err })
	inForce, now := g.rules.Load(), g.clock.Now().Now
	for i := range rs {
		g.present(inForce, &rs[i], now)
	}
	return rs, err
}

// Provenance returns this gate's record of an incarnation, nil if the gate did not
// make it.
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

// Dispatched returns the steps that ran when the daemon stopped.
func (g *Gate) Dispatched(ctx context.Context) (steps []op.Step, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { steps, err = journal.InState(tx, op.StateDispatched); return err })
	return steps, err
}

// Events returns audit entries with a number above after, oldest first.
func (g *Gate) Events(ctx context.Context, after int64, limit int) (es []audit.Entry, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { es, err = audit.After(tx, after, limit); return err })
	return es, err
}

// EventTexts is Events with the stored text of each entry, which its hash covers. It
// ends with the entry that reaches so many bytes; 0 means no bound.
func (g *Gate) EventTexts(ctx context.Context, after int64, limit, bytes int) (bodies [][]byte, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { bodies, err = audit.BodiesOf(tx, after, limit, bytes); return err })
	return bodies, err
}

// AuditHead returns the newest audit entry's number and hash.
func (g *Gate) AuditHead(ctx context.Context) (h audit.Head, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { h, err = audit.ReadHead(tx); return err })
	return h, err
}

// Set is a named piece of desired state.
type Set = journal.Set

// PutSet stores a desired set for an operator. If ifMatch is not empty, the set must
// have that ETag now, or any if ifMatch is "*"; else it is a Conflict. The caller
// has checked the body.
func (g *Gate) PutSet(ctx context.Context, by op.Requester, name, ifMatch string, body []byte) (string, error) {
	if err := op.CheckName(name); err != nil {
		return "", g.refuse(ctx, by, audit.Entry{}, err)
	}
	s := journal.Set{Name: name, ETag: op.SHA256(body), Body: body}
	e := audit.Entry{Kind: audit.DesiredPut, By: by.String(), PID: by.PID, Detail: name + " sha256:" + s.ETag,
		Parts: audit.Parts{Set: audit.Set{Name: name, SHA256: s.ETag}}}
	return s.ETag, g.decideOr(ctx, by, audit.Entry{}, func(tx *store.Tx) error {
		if err := g.Spend(tx, by, rowCost+int64(len(body))); err != nil {
			return err
		}
		old, err := journal.ReadSet(tx, name)
		if err != nil && !errors.Is(err, refusal.UnknownTarget) {
			return err
		}
		if ifMatch != "" && (err != nil || ifMatch != "*" && ifMatch != old.ETag) {
			return refusal.New(refusal.Conflict, "the set %s is another version by now", name).
				WithHint("read it again, then put your change on top of it")
		}
		s.UpdatedAt = g.clock.Now().Now
		if err := journal.PutSet(tx, s); err != nil {
			return err
		}
		crashpoint.Here(crashpoint.SetWritten)
		return g.append(tx, e)
	}, nil)
}

// Set returns one desired set; UnknownTarget if there is none.
func (g *Gate) Set(ctx context.Context, name string) (s Set, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { s, err = journal.ReadSet(tx, name); return err })
	return s, err
}

// SetHeads returns every desired set without its body, sorted by name.
func (g *Gate) SetHeads(ctx context.Context) (ss []journal.SetHead, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { ss, err = journal.ReadSetHeads(tx); return err })
	return ss, err
}

// Sets returns every desired set, sorted by name.
func (g *Gate) Sets(ctx context.Context) (ss []Set, err error) {
	err = g.view(ctx, func(tx *store.Tx) error { ss, err = journal.ReadSets(tx); return err })
	return ss, err
}

// DeleteSet removes a desired set. Its wishes end, and its guests stay.
func (g *Gate) DeleteSet(ctx context.Context, by op.Requester, name string) error {
	e := audit.Entry{Kind: audit.DesiredGone, By: by.String(), PID: by.PID, Detail: name,
		Parts: audit.Parts{Set: audit.Set{Name: name}}}
	return g.decide(ctx, by, audit.Entry{}, func(tx *store.Tx) error {
		found, err := journal.DeleteSet(tx, name)
		if err == nil && !found {
			err = refusal.New(refusal.UnknownTarget, "there is no desired set %q", clip(name))
		}
		if err != nil {
			return err
		}
		return g.append(tx, e)
	})
}

// issue makes the request of a destructive step: a fresh nonce and the exact bytes
// that an operator signs. With put, the caller writes it as a new request or in
// place of the one before.
func (g *Gate) issue(tx *store.Tx, s op.Step, spec op.Spec, o op.Observed, reason string, now time.Time,
	put func(*store.Tx, op.Request) error) (op.Request, error) {
	need, err := g.rules.Load().asks(spec, s, o.Labels, now)
	if err != nil {
		return op.Request{}, err
	}
	issued := now.UTC().Truncate(time.Second)
	r := op.Request{ID: s.ID, Facts: o.Facts, Labels: o.Labels, Nonce: op.NewNonce(now), Need: need,
		CreatedAt: now, IssuedAt: issued, ExpiresAt: issued.Add(need.MaxValidity)}
	r.Payload, err = op.Payload{Gate: g.id, Host: g.host, Op: s.Op, Target: s.Target, Incarnation: s.Incarnation,
		State: s.Fingerprint, Params: s.Params, Nonce: r.Nonce, IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt,
		Reason: reason}.Encode()
	if err != nil {
		return r, err
	}
	if err := nonce.Issue(tx, recordOf(r)); err != nil {
		return r, err
	}
	return r, put(tx, r)
}

func recordOf(r op.Request) nonce.Record {
	return nonce.Record{Nonce: r.Nonce, Request: r.ID, Payload: op.SHA256(r.Payload), ExpiresAt: r.ExpiresAt}
}

// reissue gives a waiting request a new payload for the target as the look shows it.
// The old nonce is spent and the signatures are dropped. The id and the state stay.
func (g *Gate) reissue(tx *store.Tx, id op.RequestID, o op.Observed, why string) error {
	r, err := journal.ReadRequest(tx, id)
	if err != nil {
		return err
	}
	if r.Step.State != op.StatePending || r.Offline || gone(r.Step, o) {
		return fmt.Errorf("request %s is not one to issue anew", id)
	}
	now := g.clock.Now().Now
	spec, err := op.Lookup(r.Step.Op)
	if err != nil {
		return err
	}
	s := r.Step
	s.Fingerprint = o.Fingerprint
	if s.Verdict, err = g.classify(tx, r.Requesters[0], s, o); err != nil {
		return err
	}
	// The step has asked for a signature, so it stays destructive.
	if s.Verdict.Class == op.Benign {
		s.Verdict = r.Step.Verdict
	}
	fate := nonce.Superseded
	if !now.Before(r.ExpiresAt) {
		fate = nonce.Expired
	}
	if err := nonce.Spend(tx, r.Nonce, fate); err != nil {
		return err
	}
	if err := journal.Rebind(tx, s); err != nil {
		return err
	}
	first := r.Requesters[0]
	if r, err = g.issue(tx, s, spec, o, r.Reason, now, journal.PutRequest); err != nil {
		return err
	}
	if err := g.charge(tx, first, requestCost+2*int64(len(r.Payload))+shownCost(o)); err != nil {
		return err
	}
	e := about(audit.Reissued, "gate", s)
	e.Detail, e.Why = why, s.Verdict.Why // the reason for its class may have changed
	return g.append(tx, issued(e, r))
}

// issued adds to an entry what a request asks for, and a digest of what people see
// beside it.
func issued(e audit.Entry, r op.Request) audit.Entry {
	e.Need, e.Payload, e.ShownSHA256 = journal.EncodeExtra(r.Need), op.SHA256(r.Payload), journal.ShownDigest(r)
	return e
}

// close ends an open step that did not run, with the kind of its entry. It also ends
// the other open steps of its job.
func (g *Gate) close(tx *store.Tx, s op.Step, e audit.Entry) error {
	if err := g.shut(tx, s, e); err != nil {
		return err
	}
	return g.endJob(tx, s)
}

// shut ends an open step that did not run, and spends the nonce of its request.
func (g *Gate) shut(tx *store.Tx, s op.Step, e audit.Entry) error {
	t := op.TransitionOf(string(e.Kind))
	code := cmp.Or(e.Code, t.Code)
	moved, err := journal.Move(tx, s.ID, s.State, t, code, e.Detail, g.clock.Now().Now)
	if err != nil {
		return err
	}
	if !moved {
		return refusal.New(refusal.Conflict, "step %s is no longer %s", s.ID, s.State)
	}
	if s.State == op.StatePending {
		r, err := journal.ReadRequest(tx, s.ID)
		if err != nil {
			return err
		}
		if err := nonce.Spend(tx, r.Nonce, nonce.Fate(t.Nonce)); err != nil {
			return err
		}
	}
	return g.append(tx, e)
}
