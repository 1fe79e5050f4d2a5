package gate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// Submit accepts a job. The gate plans benign steps and runs them at once; a
// destructive step gets a request and waits. If the same single destructive step
// already waits, the requester joins that job. Only callers on the socket can
// submit, because the gate believes other sources more than a caller deserves.
func (g *Gate) Submit(ctx context.Context, sub op.Submission) (op.Job, error) {
	job, err := g.submit(ctx, sub)
	switch refusal.CodeOf(err) {
	case "", refusal.Unavailable, refusal.Internal: // they decide nothing
	default:
		g.turnAway(sub, err)
	}
	return job, err
}

func (g *Gate) submit(ctx context.Context, sub op.Submission) (op.Job, error) {
	e := audit.Entry{}
	if len(sub.Steps) > 0 {
		e.Op, e.Target = clip(sub.Steps[0].Op), clip(sub.Steps[0].Target.String())
	}
	if sub.Requester.Source != op.SourceAPI {
		return op.Job{}, g.refuse(ctx, sub.Requester, e, refusal.New(refusal.NotAllowed, "%s does not submit jobs",
			sub.Requester))
	}
	body := digest(sub)
	if sub.IdempotencyKey != "" {
		if job, err := g.recall(ctx, sub, body); err != nil || job.ID != 0 {
			if err != nil {
				err = g.refuse(ctx, sub.Requester, e, err)
			}
			return job, err
		}
	}
	claimed := g.claims.begin(sub.Requester)
	defer claimed.end()
	steps, err := g.planJob(ctx, sub, claimed)
	if err != nil {
		return op.Job{}, g.refuseKeyed(ctx, sub, body, e, err)
	}
	return g.admit(ctx, sub, body, e, steps)
}

// refuseKeyed is refuse for a submission. If the submission has an idempotency key,
// a repeat gets the same refusal.
func (g *Gate) refuseKeyed(ctx context.Context, sub op.Submission, body string, e audit.Entry, refused error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	return g.decideOr(ctx, sub.Requester, e, func(*store.Tx) error { return g.machine(refused) }, g.answerWith(sub, body))
}

// answerWith stores a refusal as the answer to a submission's key. Unavailable and
// Internal are not stored, because they decide nothing.
func (g *Gate) answerWith(sub op.Submission, body string) func(*store.Tx, error) error {
	return func(tx *store.Tx, refused error) error {
		r := refusal.As(refused)
		if sub.IdempotencyKey == "" || r.Code == refusal.Unavailable || r.Code == refusal.Internal {
			return nil
		}
		if err := g.Spend(tx, sub.Requester, rowCost+int64(len(sub.IdempotencyKey)+len(r.Detail)+len(r.Hint))); err != nil {
			if errors.As(err, new(*refusal.Refusal)) {
				return nil // the gate decides a repeat anew
			}
			return err
		}
		return journal.RememberRefusal(tx, sub.Requester.String(), sub.IdempotencyKey, body, r, g.clock.Now().Now)
	}
}

// ErrHindered is returned by Want, beside the refusal, if something is in the way of the step that may go.
var ErrHindered = errors.New("something is in the way")

// Want submits a difference that reconcile found, on behalf of a desired set. It
// refuses, as Rejected, a wish that an operator rejected, without a new request.
// That ends if the set withdraws the wish and wishes it again, or wishes something
// else, or if a caller asks for the same after the rejection.
func (g *Gate) Want(ctx context.Context, set string, ask op.Ask) (op.Job, error) {
	by := op.Requester{Source: op.SourceDesired, Set: set}
	e := audit.Entry{Op: ask.Op, Target: ask.Target.String()}
	sub := op.Submission{Requester: by, Steps: []op.Ask{ask}, Reason: "desired state " + set}
	claimed := g.claims.begin(sub.Requester)
	defer claimed.end()
	steps, err := g.planJob(ctx, sub, claimed)
	if err != nil {
		return op.Job{}, g.refuse(ctx, by, e, err)
	}
	var rejected error
	err = g.view(ctx, func(tx *store.Tx) error {
		s, ok, err := journal.Rejected(tx, steps[0].step)
		if err == nil && ok {
			rejected = refusal.New(refusal.Rejected, "an operator rejected this (%s)", s.ID).About(s.ID, s.State)
		}
		return err
	})
	if err = errors.Join(err, rejected); err != nil {
		return op.Job{}, err
	}
	job, err := g.admit(ctx, sub, digest(sub), e, steps)
	if hindered := steps[0].hindered; hindered != nil && errors.Is(err, hindered) && !steps[0].observed.Never {
		err = fmt.Errorf("%w: %w", ErrHindered, err)
	}
	return job, err
}

// planJob checks the job as a whole and plans each of its steps. The caller ends the
// claim.
func (g *Gate) planJob(ctx context.Context, sub op.Submission, claimed *claim) ([]planned, error) {
	switch n := len(sub.Steps); {
	case n == 0:
		return nil, refusal.New(refusal.BadParams, "a job has at least one step")
	case n > op.MaxSteps:
		return nil, refusal.New(refusal.TooComplex, "a job has at most %d steps, not %d", op.MaxSteps, n)
	}
	if len(sub.Reason) > op.MaxReason {
		return nil, refusal.New(refusal.BadParams, "the reason has %d bytes, more than %d", len(sub.Reason), op.MaxReason)
	}
	if err := op.CheckText("reason", sub.Reason); err != nil {
		return nil, err
	}
	if len(sub.IdempotencyKey) > 255 {
		return nil, refusal.New(refusal.BadParams, "the idempotency key has more than 255 bytes")
	}
	// No look is needed to refuse these, also of a later step: a look may run a probe.
	for i, ask := range sub.Steps {
		if _, err := check(sub.Requester, ask); err != nil {
			return nil, ofStep(sub, i, err)
		}
	}
	var steps []planned
	for i, ask := range sub.Steps {
		p, err := g.planStep(ctx, sub, ask, steps, claimed)
		if err == nil && len(sub.Steps) > 1 && !errors.Is(p.hindered, refusal.Conflict) {
			err = p.hindered // a job of several steps joins none that waits, and another job clears no more than a conflict
		}
		if err != nil {
			return nil, ofStep(sub, i, err)
		}
		p.step.ID.Index = i + 1
		steps = append(steps, p)
	}
	return steps, nil
}

// ofStep says in a refusal which step of several is refused.
func ofStep(sub op.Submission, i int, err error) error {
	var r *refusal.Refusal
	if len(sub.Steps) < 2 || !errors.As(err, &r) {
		return err
	}
	of := *r
	of.Detail = fmt.Sprintf("step %d: %s", i+1, r.Detail)
	return &of
}

// admit commits the decision on a planned job.
func (g *Gate) admit(ctx context.Context, sub op.Submission, body string, e audit.Entry, steps []planned) (op.Job, error) {
	if job, ok, err := g.known(ctx, sub, steps); err != nil || ok {
		return job, err
	}
	var job op.Job
	err := g.decideOr(ctx, sub.Requester, e, func(tx *store.Tx) error {
		var err error
		job, err = g.joinOrInsert(tx, sub, body, steps)
		crashpoint.Here(crashpoint.RequestWritten)
		return err
	}, g.answerWith(sub, body))
	if err != nil {
		return op.Job{}, err
	}
	crashpoint.Here(crashpoint.RequestKept)
	g.wakeAll(job.Steps)
	return job, nil
}

// known returns the open job that this requester already has for the same single
// wish. Then there is nothing to decide. It finds none if the request must be issued
// anew.
func (g *Gate) known(ctx context.Context, sub op.Submission, steps []planned) (job op.Job, ok bool, err error) {
	if !mayShare(sub, steps) || sub.IdempotencyKey != "" {
		return job, false, nil
	}
	err = g.view(ctx, func(tx *store.Tx) error {
		if g.notRejected(tx, sub, steps) != nil {
			return nil // joinOrInsert refuses it
		}
		s, found, err := openWish(tx, sub.Requester, steps[0])
		// The gate classifies a planned step again when it runs. So asking again would
		// decide nothing.
		moved := s.State == op.StatePending && s.Fingerprint != steps[0].step.Fingerprint
		if err != nil || !found || moved || freed(sub.Requester, steps[0], s) {
			return err
		}
		if job, err = journal.ReadJob(tx, s.ID.Job); err != nil {
			return err
		}
		ok = slices.ContainsFunc(job.Requesters, func(r op.Requester) bool { return r.String() == sub.Requester.String() })
		return nil
	})
	return job, ok, err
}

// mayShare reports whether a job may be one that is open already. Only a desired set shares a benign step. A step that is
// benign and cannot be done now may be one that waits for people all the same.
func mayShare(sub op.Submission, steps []planned) bool {
	return len(steps) == 1 &&
		(steps[0].step.Verdict.Class == op.Destructive || steps[0].hindered != nil || sub.Requester.Source == op.SourceDesired)
}

// openWish finds an open single-step job that asks for the same step. Requesters
// share only steps that wait for people. A desired set also shares benign steps,
// because it asks again every round. It shares no step of others' that waits for
// people if it needs nobody any more.
func openWish(tx *store.Tx, by op.Requester, p planned) (op.Step, bool, error) {
	s := p.step
	open, err := journal.OpenSteps(tx, s.Target)
	if err != nil {
		return s, false, err
	}
	for _, o := range open {
		if journal.Wish(o) != journal.Wish(s) || o.Undoes != 0 || o.ID.Index != 1 {
			continue
		}
		if o.Verdict.Class == op.Benign && by.Source != op.SourceDesired {
			continue
		}
		if freed(by, p, o) {
			who, err := journal.Requesters(tx, o.ID.Job)
			if err != nil {
				return s, false, err
			}
			if !slices.Contains(who, by) {
				continue
			}
		}
		all, err := journal.StepsOf(tx, o.ID.Job)
		if err != nil || len(all) == 1 {
			return o, err == nil, err
		}
	}
	return s, false, nil
}

func (g *Gate) joinOrInsert(tx *store.Tx, sub op.Submission, body string, steps []planned) (job op.Job, err error) {
	now := g.clock.Now().Now
	if sub.IdempotencyKey != "" {
		id, err := journal.Recall(tx, sub.Requester.String(), sub.IdempotencyKey, body)
		if err != nil {
			return job, err
		}
		if id != 0 {
			return journal.ReadJob(tx, id)
		}
	}
	if err := g.notRejected(tx, sub, steps); err != nil {
		return job, err
	}
	id, err := g.join(tx, sub, steps)
	switch {
	case err != nil:
		return job, err
	case id != 0:
		job, err = journal.ReadJob(tx, id)
	default:
		job, err = g.insert(tx, sub, steps, now)
	}
	if err == nil && sub.IdempotencyKey != "" {
		err = journal.Remember(tx, sub.Requester.String(), sub.IdempotencyKey, body, job.ID, now)
	}
	return job, err
}

// join adds the requester to the open request for the same wish; it returns 0 if
// there is none. If the look shows a changed target, join issues the request anew.
func (g *Gate) join(tx *store.Tx, sub op.Submission, steps []planned) (op.JobID, error) {
	if !mayShare(sub, steps) {
		return 0, nil
	}
	s, ok, err := openWish(tx, sub.Requester, steps[0])
	switch {
	case err != nil || !ok:
		return 0, err
	case freed(sub.Requester, steps[0], s):
		return 0, g.withdraw(tx, sub.Requester, s.Target, nil)
	}
	moved := s.State == op.StatePending && s.Fingerprint != steps[0].step.Fingerprint
	if moved {
		r, err := journal.RequestOf(tx, s)
		if err != nil {
			return 0, err
		}
		if r.Offline {
			// The gate cannot issue an operator's own payload anew, so this is another wish.
			e := about(audit.Superseded, "gate", s)
			e.Code, e.Detail = refusal.Superseded, "the target is not as it was when an operator signed"
			return 0, g.close(tx, s, e)
		}
	}
	if err := g.Spend(tx, sub.Requester, rowCost+int64(len(sub.IdempotencyKey)+2*len(sub.Reason))); err != nil {
		return 0, err
	}
	added, err := journal.AddRequester(tx, s.ID.Job, sub.Requester, sub.Reason)
	if err == nil && added {
		e := withPID(about(audit.Joined, sub.Requester.String(), s), sub.Requester)
		e.Reason = sub.Reason
		err = g.append(tx, e)
	}
	if err != nil {
		return 0, err
	}
	if moved {
		return s.ID.Job, g.reissue(tx, s.ID, steps[0].observed, "the target changed")
	}
	return s.ID.Job, nil
}

// stillHindered refuses a step that cannot be done now, unless a step of another job may clear the way first: it is decided and has
// not ended. That makes no parameters right (Never), changes no settings, and takes nothing out of a guest's data. A desired set asks
// again by itself.
func stillHindered(tx *store.Tx, by op.Requester, p planned) error {
	if !errors.Is(p.hindered, refusal.Conflict) || p.observed.Never || by.Source == op.SourceDesired {
		return p.hindered
	}
	open, err := journal.OpenSteps(tx, p.step.Target)
	if err != nil || slices.ContainsFunc(open, func(s op.Step) bool { return s.State != op.StatePending }) {
		return err
	}
	return p.hindered
}

// insert writes a new job and returns it as the journal has it then. It refuses a step that cannot be done now: none like it
// waits, and no other job is at work on its target.
func (g *Gate) insert(tx *store.Tx, sub op.Submission, steps []planned, now time.Time) (op.Job, error) {
	job := op.Job{Requesters: []op.Requester{sub.Requester}, Reason: sub.Reason,
		Reasons: []op.Reason{{By: sub.Requester.String(), Text: sub.Reason}}, CreatedAt: now.UTC()}
	for i, p := range steps {
		if err := stillHindered(tx, sub.Requester, p); err != nil {
			return job, ofStep(sub, i, err)
		}
	}
	if err := g.checkLimit(tx, sub.Requester, steps); err != nil {
		return job, err
	}
	if err := g.Spend(tx, sub.Requester, costOf(sub, steps)); err != nil {
		return job, err
	}
	id, err := journal.NewJob(tx, sub.Requester, sub.Reason, now)
	if err != nil {
		return job, err
	}
	job.ID = id
	for _, p := range steps {
		s := p.step
		s.ID.Job, s.State, s.UpdatedAt = id, op.StatePlanned, now.UTC()
		kind := audit.Planned
		if s.Verdict.Class == op.Destructive {
			s.State, kind = op.StatePending, audit.Requested
		}
		if makesNew(s.Op) {
			s.Birth = newBirth()
		}
		if err := journal.AddStep(tx, s); err != nil {
			return job, err
		}
		e := asked(kind, sub.Requester, s, sub.Reason)
		if s.State == op.StatePending {
			r, err := g.issue(tx, s, p.spec, p.observed, sub.Reason, now, journal.AddRequest)
			if err != nil {
				return job, err
			}
			e = issued(e, r)
		}
		if err := g.append(tx, e); err != nil {
			return job, err
		}
		job.Steps = append(job.Steps, s)
	}
	return job, nil
}

func (g *Gate) recall(ctx context.Context, sub op.Submission, body string) (job op.Job, err error) {
	err = g.view(ctx, func(tx *store.Tx) error {
		id, err := journal.Recall(tx, sub.Requester.String(), sub.IdempotencyKey, body)
		if err == nil && id != 0 {
			job, err = journal.ReadJob(tx, id)
		}
		return err
	})
	return job, err
}

// digest identifies a submission's body for the idempotency key.
func digest(sub op.Submission) string {
	b := fmt.Appendf(nil, "%q", sub.Reason)
	for _, s := range sub.Steps {
		b = fmt.Appendf(b, "%q %q %s", s.Op, s.Target, s.Params.Canonical())
	}
	return op.SHA256(b)
}

// newBirth returns a random UUID (RFC 9562, version 4).
func newBirth() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func withPID(e audit.Entry, by op.Requester) audit.Entry {
	e.PID = by.PID
	return e
}

// clip bounds how much of a caller's text an audit entry repeats, and keeps it valid
// UTF-8.
func clip(s string) string { return clipTo(s, 200) }

func clipTo(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
