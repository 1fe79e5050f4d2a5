// Package acceptor replays an audit log against the relation of the model in model/gated.pml: which entry may follow which, for
// each step and each job. It knows nothing of the gate's code. A log that the gate wrote and that it does not accept shows that the
// gate did what the model does not have, and of which the model's properties say nothing. Only tests import it.
//
// docs/design/model.md says which property of the model each rule here is, and what a log cannot show.
package acceptor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Violation is an entry that the model does not have.
type Violation struct {
	Property string // of the model: never_unsigned, once, …; moves for an entry that no state allows
	Seq      int64  // number of the entry
	Says     string
}

func (v Violation) String() string { return fmt.Sprintf("%s: entry %d: %s", v.Property, v.Seq, v.Says) }

// Acceptor has what the entries so far say. It is for one log, from its first entry on.
type Acceptor struct {
	steps    map[op.StepID]*step
	jobs     map[op.JobID][]*step
	payloads map[string]bool     // each payload that people were asked to sign
	approved map[string]bool     // each payload that was approved
	running  map[string]*step    // the step that is under way, by its target
	removed  map[string]bool     // keys that a rotation took out and none put in again
	rotation map[string][]string // the keys of a rotation that is not in force yet, by its step; "" is one of a stopped gate

	entry audit.Entry // the one that is replayed
	found []Violation
}

// step is what the log says of one step.
type step struct {
	id          op.StepID
	state       op.State
	destructive bool
	target      string
	undoes      int // the index of the step that it takes back, or 0
	ran         bool

	payload     string          // what people were asked to sign last
	incarnation op.Incarnation  // of the target then
	gate        op.GateID       // the gate id then
	need        need            // what it needed then
	signers     []string        // the signatures that count
	approvedAt  time.Time       // the last signature
	earlier     map[string]bool // payloads that were replaced
}

// New returns the acceptor of an empty log.
func New() *Acceptor {
	return &Acceptor{steps: map[op.StepID]*step{}, jobs: map[op.JobID][]*step{}, payloads: map[string]bool{}, approved: map[string]bool{},
		running: map[string]*step{}, removed: map[string]bool{}, rotation: map[string][]string{}}
}

// Replay replays the whole log of a database. It replays nothing of a log whose beginning is in segment files, because it
// does not know the states of the steps then.
func Replay(tx *store.Tx) ([]Violation, error) {
	const page = 512
	a, out := New(), []Violation(nil)
	for after := int64(0); ; {
		entries, err := audit.After(tx, after, page)
		if err != nil || len(entries) == 0 {
			return out, err
		}
		if after == 0 && entries[0].Seq != 1 {
			return nil, nil
		}
		for _, e := range entries {
			out = append(out, a.Next(e)...)
		}
		after = entries[len(entries)-1].Seq
	}
}

// Next replays the next entry, and returns what the model does not allow.
func (a *Acceptor) Next(e audit.Entry) []Violation {
	a.entry, a.found = e, nil
	switch e.Kind {
	case audit.Rotated:
		a.rotates()
	case audit.Started:
		a.inForce("") // also what a daemon committed that was killed then
		for step := range a.rotation {
			a.inForce(step)
		}
	case audit.Uncounted:
		if s := a.steps[idOf(e)]; s != nil {
			s.drop(e.Signers)
		}
	default:
		if m, ok := moves[string(e.Kind)]; ok && ofStep(e) {
			a.moves(m)
		}
	}
	return a.found
}

// ofStep reports whether an entry tells what became of a step. The refusal of a call has no class.
func ofStep(e audit.Entry) bool { return e.Step != "" && (e.Kind != audit.Refused || e.Class != "") }

func idOf(e audit.Entry) op.StepID {
	id, err := op.ParseStepID(e.Step)
	if err != nil {
		return op.StepID{}
	}
	return id
}

func (a *Acceptor) wrong(property, format string, args ...any) {
	a.found = append(a.found, Violation{Property: property, Seq: a.entry.Seq, Says: fmt.Sprintf(format, args...)})
}

// must is wrong if the model's property does not hold.
func (a *Acceptor) must(holds bool, property, format string, args ...any) {
	if !holds {
		a.wrong(property, format, args...)
	}
}

// moves replays an entry that moves a step.
func (a *Acceptor) moves(m move) {
	e := a.entry
	id := idOf(e)
	s := a.steps[id]
	if s == nil {
		s = &step{id: id, target: e.Target, earlier: map[string]bool{}}
		a.steps[id] = s
		a.jobs[id.Job] = append(a.jobs[id.Job], s)
	}
	a.must(m.allows(s.state), "moves", "%s says %s of a step that was %q", e.Step, e.Kind, s.state)
	was := s.state
	s.destructive = e.Class == op.Destructive
	a.about(s, was)
	s.state = m.to
	switch {
	case m.to == op.StateDispatched:
		a.running[s.target] = s
	case was == op.StateDispatched:
		delete(a.running, s.target)
	}
	if e.Kind == audit.Succeeded {
		a.inForce(e.Step)
	}
}

// about asks what each kind of entry has to fulfil, beyond the step's state.
func (a *Acceptor) about(s *step, was op.State) {
	switch a.entry.Kind {
	case audit.Requested, audit.Reissued:
		a.asks(s)
	case audit.Signed:
		a.counts(s)
	case audit.Approved:
		a.counts(s)
		a.approves(s)
	case audit.Dispatched:
		a.dispatches(s, was)
	case audit.Compensated:
		a.compensates(s)
	case audit.Retried:
		a.must(!s.destructive, "once", "%s is destructive and is to run again", a.entry.Step)
		a.must(s.undoes != 0 || !over(a.jobs[s.id.Job]), "approved_runs", "%s is to run again, and its job has ended", a.entry.Step)
	}
}

// Database replays the log of a database file, also beside a daemon. The migrations are those of the program that wrote it.
func Database(ctx context.Context, path string, migrations []store.Migration) (found []Violation, err error) {
	s, err := store.OpenReadOnly(ctx, path, store.Options{Migrations: migrations})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.View(ctx, func(tx *store.Tx) (err error) { found, err = Replay(tx); return err })
	return found, err
}
