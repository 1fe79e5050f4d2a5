package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// maxAttempts is how often the gate dispatches a benign step before a transient
// error is final.
const maxAttempts = 8

// MaxOutput is how many bytes of a step's output the gate keeps.
const MaxOutput = 64 << 10

// Outcome is how a dispatched step ended, as far as its driver can tell.
type Outcome struct {
	Err       error        // nil: the driver reports success
	Unknown   bool         // the driver cannot tell whether the work was done
	Transient bool         // Err may go away by itself
	Detail    string       // for people: "can be undone until …"
	Output    string       // what the work printed, at most MaxOutput bytes
	After     *op.Observed // a look after the work; nil if that look failed
}

// SetTask records the back end's task id of a dispatched step, so that the daemon
// finds the task again after a restart.
func (g *Gate) SetTask(ctx context.Context, id op.StepID, task string) error {
	return g.machine(g.update(ctx, func(tx *store.Tx) error { return journal.SetTask(tx, id, task) }))
}

// Record ends a dispatched step with what is true. The gate believes a success only
// if the look at the target shows it. A benign step with a transient error goes back
// to planned. Record wakes the target if a step of it is still open.
func (g *Gate) Record(ctx context.Context, id op.StepID, out Outcome) (op.Step, error) {
	by := op.Requester{Source: op.SourceGate}
	var s op.Step
	var steps []op.Step
	var more bool
	err := g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) (err error) {
		if s, steps, err = inJob(tx, id); err != nil {
			return err
		}
		if s.State != op.StateDispatched {
			return refusal.New(refusal.Conflict, "step %s is %s, not dispatched", id, s.State).About(id, s.State)
		}
		known, err := g.knownAfter(tx, s, out)
		if err != nil {
			return err
		}
		if err := g.record(tx, &s, steps, confirmed(s, out, known)); err != nil {
			return err
		}
		if alone := len(steps) == 1 && s.State == op.StateSucceeded; alone {
			steps = nil // the job has no open step
		} else if s, steps, err = inJob(tx, id); err != nil {
			return err
		}
		more, err = journal.HasOpen(tx, s.Target)
		crashpoint.Here(crashpoint.OutcomeWritten)
		return err
	})
	if err == nil {
		crashpoint.Here(crashpoint.OutcomeKept)
		if more {
			g.wake(s.Target)
		}
		g.wakeAll(steps)
	}
	return s, err
}

// knownAfter returns the provenance of the incarnation that the look after a create
// shows, nil if this gate did not make it.
func (g *Gate) knownAfter(tx *store.Tx, s op.Step, out Outcome) (*op.Provenance, error) {
	if !makesNew(s.Op) || out.After == nil {
		return nil, nil
	}
	return journal.ReadProvenance(tx, out.After.Incarnation)
}

// inJob returns a step and all steps of its job; UnknownTarget if there is none.
func inJob(tx *store.Tx, id op.StepID) (op.Step, []op.Step, error) {
	steps, err := journal.StepsOf(tx, id.Job)
	if err != nil {
		return op.Step{}, nil, err
	}
	for _, s := range steps {
		if s.ID == id {
			return s, steps, nil
		}
	}
	return op.Step{}, nil, refusal.New(refusal.UnknownTarget, "there is no step %s", id)
}

// confirmed turns a success that the look contradicts into a failure. It turns a
// success that no look could show into an unknown. The provenance, known, is
// knownAfter's.
func confirmed(s op.Step, out Outcome, known *op.Provenance) Outcome {
	if out.Err != nil || out.Unknown {
		return out
	}
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return Outcome{Err: err, Output: out.Output, After: out.After}
	}
	if spec.Unseen {
		return out
	}
	if out.After == nil {
		out.Unknown = true
		out.Detail = "the target could not be looked at afterwards"
		return out
	}
	denied := spec.Denied(s, *out.After)
	if denied == "" && spec.Identity == op.Makes && known != nil {
		denied = s.Target.String() + " is one that was made before"
	}
	if denied != "" {
		return Outcome{Err: refusal.New(refusal.Internal, "the back end says that it is done, but %s", denied),
			Output: out.Output, After: out.After}
	}
	if spec.Silent(s, *out.After) {
		out.Unknown, out.Detail = true, "the back end says that it is done, and a look cannot tell; look at the target, then ask again"
		return out
	}
	if spec.Identity == op.Ends && out.Detail == "" {
		out.Detail = untilWhen(s, *out.After)
	}
	return out
}

// makesNew reports whether an operation makes a new incarnation.
func makesNew(name string) bool {
	spec, err := op.Lookup(name)
	return err == nil && spec.Identity == op.Makes
}

// untilWhen says until when a destroyed incarnation can be brought back.
func untilWhen(s op.Step, after op.Observed) string {
	for _, t := range after.Trash {
		if t.Incarnation == s.Incarnation {
			return "can be undone until " + t.Until.UTC().Format(time.RFC3339)
		}
	}
	return "cannot be undone"
}

// record ends the step s. If it succeeded, s is afterwards as the journal has it.
// steps are all steps of its job.
func (g *Gate) record(tx *store.Tx, s *op.Step, steps []op.Step, out Outcome) error {
	now := g.clock.Now().Now
	kind, code := audit.Succeeded, refusal.Code("")
	detail := clipTo(out.Detail, maxDetail)
	again := s.Verdict.Class == op.Benign && s.Attempts < maxAttempts && (s.Undoes != 0 || !over(steps))
	switch {
	case out.Unknown:
		kind, code = audit.Interrupted, refusal.Unavailable
		if detail == "" {
			detail = "the gate cannot tell whether it was done; look at the target, then ask again"
		}
	case out.Err != nil && out.Transient && again:
		kind, code, detail = audit.Retried, refusal.CodeOf(out.Err), words(out.Err)
	case out.Err != nil:
		kind, code, detail = audit.Failed, refusal.CodeOf(out.Err), words(out.Err)
	}
	t := op.TransitionOf(string(kind))
	to := t.To
	moved, err := journal.Move(tx, s.ID, op.StateDispatched, t, code, detail, now)
	if err != nil || !moved {
		return errors.Join(err, refusal.New(refusal.Conflict, "step %s is no longer dispatched", s.ID))
	}
	e := about(kind, "gate", *s)
	e.Code, e.Detail = code, detail
	if e.OutputSHA256, err = keepOutput(tx, s.ID, to, out.Output); err != nil {
		return err
	}
	if err := g.chargeOutput(tx, *s, out.Output); err != nil {
		return err
	}
	if to != op.StateSucceeded {
		if err := g.append(tx, e); err != nil || to == op.StatePlanned {
			return err
		}
		return g.endJob(tx, *s)
	}
	var after op.Observed // stays empty for a command that the driver can no longer look at
	if out.After != nil {
		after = *out.After
	}
	if e.Made, err = g.remember(tx, s, after); err != nil {
		return err
	}
	e.Incarnation = s.Incarnation
	if err := g.append(tx, e); err != nil {
		return err
	}
	if err := errors.Join(g.promoteBy(tx, *s, after), g.countSnapshot(tx, *s)); err != nil {
		return err
	}
	s.State, s.Code, s.Detail, s.UpdatedAt = to, code, detail, now.Round(0).UTC()
	if s.Undoes == 0 && over(steps) {
		return g.endJob(tx, *s)
	}
	_, err = journal.Finish(tx, s.ID.Job, now)
	return err
}

// keepOutput stores the output of a step that ends in the state to, and returns its
// digest for the log. If the step will run again, keepOutput stores nothing, because
// the last run's output counts. Bytes that are not UTF-8 become U+FFFD.
func keepOutput(tx *store.Tx, id op.StepID, to op.State, text string) (digest string, err error) {
	if text == "" || to.Open() {
		return "", nil
	}
	text = clipTo(strings.ToValidUTF8(text, "\uFFFD"), MaxOutput)
	return op.SHA256([]byte(text)), journal.AddOutput(tx, id, text)
}

// over reports whether a job ended while a step of it ran, because a later step was
// rejected. Then the gate takes back the work of that step too.
func over(steps []op.Step) bool {
	for _, s := range steps {
		if fellThrough(s) {
			return true
		}
	}
	return false
}

// words is what people read of an error: a refusal's sentence with its hint, or the
// text of a driver's error.
func words(err error) string {
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return clipTo(r.Sentence(), maxDetail)
	}
	return clipTo(err.Error(), maxDetail)
}

// remember records what a create made: the incarnation, its storage, its creator,
// and whether it is scratch. No other function writes provenance.
func (g *Gate) remember(tx *store.Tx, s *op.Step, after op.Observed) (*audit.Made, error) {
	if spec, err := op.Lookup(s.Op); err == nil && spec.Identity == op.Revives {
		s.Incarnation = after.Incarnation
		return nil, journal.Rebind(tx, *s)
	}
	if !makesNew(s.Op) {
		return nil, nil
	}
	who, err := g.requesters(tx, *s)
	if err != nil {
		return nil, err
	}
	by := who[0]
	// The age counts from the dispatch, because after a crash this record may come
	// much later.
	p := op.Provenance{Incarnation: after.Incarnation, Target: s.Target, Creator: by.String(), Agent: by.Agent,
		Job: s.ID.Job, Scratch: s.Params.Bool("scratch"), CreatedAt: s.UpdatedAt, Content: after.Content}
	if p.Scratch {
		p.ScratchUntil = p.CreatedAt.Add(g.rules.Load().policy.ScratchMaxAge)
	}
	made := &audit.Made{Creator: p.Creator, Agent: p.Agent, CreatedAt: p.CreatedAt, Scratch: p.Scratch, ScratchUntil: p.ScratchUntil,
		Content: p.Content}
	for _, id := range after.Storage {
		// Storage of another incarnation was moved here, and this step did not make it. What is in doubt proves nothing later.
		foreign, err := journal.IsStorage(tx, id)
		if err != nil {
			return nil, err
		}
		if !foreign && !after.Doubted {
			p.Storage = append(p.Storage, op.StorageOrigin{ID: id, Job: s.ID.Job})
			made.Storage = append(made.Storage, id)
		}
	}
	if err := journal.AddProvenance(tx, p); err != nil {
		return nil, err
	}
	if s.Params.Str("state") == op.Running {
		if err := g.setUsed(tx, s.Target, p.Incarnation, fmt.Sprintf("its program was started (%s)", s.ID)); err != nil {
			return nil, err
		}
	}
	s.Incarnation = after.Incarnation
	if err := journal.Rebind(tx, *s); err != nil {
		return nil, err
	}
	return made, nil
}

// Refuse ends a step that its driver refused before it used the permit. A step that
// does not wait to run stays unchanged.
func (g *Gate) Refuse(ctx context.Context, id op.StepID, refused error) (op.Step, error) {
	by := op.Requester{Source: op.SourceGate}
	r := *refusal.As(refused)
	r.Detail = clipTo(r.Sentence(), maxDetail) // the driver's hint too: a step keeps no other words
	var s op.Step
	err := g.decide(ctx, by, audit.Entry{Job: id.Job.String(), Step: id.String()}, func(tx *store.Tx) (err error) {
		if s, err = journal.ReadStep(tx, id); err != nil {
			return err
		}
		if s.State != op.StatePlanned && s.State != op.StateAuthorized {
			return nil
		}
		if _, err := g.end(tx, s, audit.Refused, &r); err != nil {
			return err
		}
		s, err = journal.ReadStep(tx, id)
		return err
	})
	if err == nil {
		g.wakeJob(ctx, id.Job)
	}
	return s, err
}
