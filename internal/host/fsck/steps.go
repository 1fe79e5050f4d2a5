package fsck

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/log/audit"
)

// row is a row of steps.
type row struct {
	step   op.Step // without its parameters
	params []byte
	undo   string // what would take the step back
	takes  string // what would take back the step that this one takes back
	asked  bool   // it has a request
}

// steps checks that every step is as the log says, and that no step of the log is
// missing.
func (c *check) steps() error {
	var r row
	s := &r.step
	err := c.rows("steps", `SELECT s.job, s.idx, s.op, s.kind, s.name, s.incarnation, s.params, s.class, s.rule, s.why,
			s.state, s.undoes, s.undo, coalesce((SELECT u.undo FROM steps u WHERE u.job = s.job AND u.idx = s.undoes), ''),
			EXISTS(SELECT 1 FROM requests r WHERE r.job = s.job AND r.idx = s.idx)
		FROM steps s`, []any{&s.ID.Job, &s.ID.Index, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation, &r.params,
		&s.Verdict.Class, &s.Verdict.Rule, &s.Verdict.Why, &s.State, &s.Undoes, &r.undo, &r.takes, &r.asked}, func() {
		if c.gone(s.ID.Job) {
			return
		}
		c.step(s.ID, s.Verdict.Class, s.State, r.asked)
		if l := c.log.steps[s.ID]; l.state != "" {
			c.same(r, l)
		}
		c.undo(r)
		delete(c.log.steps, s.ID)
	})
	if err != nil {
		return err
	}
	for _, id := range stepsOf(c.log.steps) {
		c.found(stepLost, id.String(), "the audit log tells of it, and the journal does not have it")
	}
	return nil
}

func (c *check) step(id op.StepID, class op.Class, state op.State, asked bool) {
	l := c.log.steps[id]
	ran := state == op.StateDispatched || state == op.StateSucceeded || state == op.StateFailed || state == op.StateInterrupted
	_, approved := c.log.approved[id]
	switch {
	case state == l.state:
	case l.ran && state.Open() && state != op.StateDispatched:
		c.found(wouldRunAgain, id.String(), "it was dispatched, is %s by the audit log, and would run again as %s", l.state, state)
	case class == op.Destructive && (ran || state == op.StateAuthorized) && !approved:
		c.found(ranUnapproved, id.String(), "it is destructive and %s, but the log has no approval", state)
	default:
		c.found(stepState, id.String(), "it is %s, and by the audit log it is %s", state, shown(l.state))
	}
	if class == op.Destructive && !asked {
		c.found(requestMissing, id.String(), "it is destructive, and there is no request for it")
	}
	if class != op.Destructive && (l.ran || state == op.StatePending || state == op.StateAuthorized) {
		c.found(classLowered, id.String(), "it is %s, and its class is %q", state, string(class))
	}
}

// jobs checks that a job is finished exactly if its steps are.
func (c *check) jobs() error {
	var id op.JobID
	var finished, open int64
	return c.rows("jobs", `SELECT j.id, j.finished_at, (SELECT count(*) FROM steps s WHERE s.job = j.id AND s.state IN
			('planned', 'pending_signature', 'authorized', 'dispatched')) FROM jobs j`,
		[]any{&id, &finished, &open}, func() {
			if c.gone(id) {
				return
			}
			if finished == 0 && open == 0 {
				c.found(jobOpen, id.String(), "all its steps ended, and it did not")
			}
			if finished != 0 && open > 0 {
				c.found(jobEndedEarly, id.String(), "it ended, and %d of its steps did not", open)
			}
		})
}

// digestAsk digests what a step does, with its target.
func digestAsk(name, target string, params []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", name, target, params))
}

// digestReason digests the reason for a step's class. Half of a hash is enough,
// because an attacker cannot choose both texts.
func digestReason(rule, why string) (sum [16]byte) {
	whole := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", rule, why))
	return [16]byte(whole[:16])
}

// asked stores what an entry says the step does. A compensation's entry has no
// parameters, because they are those of the stored undo.
func (l life) asked(e audit.Entry) life {
	switch e.Kind {
	case audit.Planned, audit.Requested:
		l.class, l.whole, l.asks = e.Class, true, digestAsk(e.Op, e.Target, e.Params.Canonical())
		l.words = digestReason(e.Rule, e.Why)
	case audit.Reissued:
		if l.words = digestReason(e.Rule, e.Why); e.Why == "" {
			l.words = [16]byte{} // from before entries had it
		}
	case audit.Compensated:
		l.class, l.asks = e.Class, digestAsk(e.Op, e.Target, nil)
		id, _ := op.ParseStepID(e.Undoes) // it is 0 if there is none, and no compensation has 0
		l.takes = id.Index
	}
	if (e.Kind == audit.Compensated || e.Kind == audit.Dispatched) && e.Why != "" {
		l.words = digestReason(e.Rule, e.Why)
	}
	return l
}

// same checks that a step would do what the log says was planned or asked for.
func (c *check) same(r row, l life) {
	params := r.params
	if !l.whole {
		params = nil
	}
	if digestAsk(r.step.Op, r.step.Target.String(), params) != l.asks {
		c.found(stepChanged, r.step.ID.String(), "the audit log has another operation, target or parameters for it")
	}
	if r.step.Verdict.Class != l.class {
		c.found(stepClass, r.step.ID.String(), "its class is %q, and by the audit log %q", string(r.step.Verdict.Class), string(l.class))
	}
	if l.words != ([16]byte{}) && digestReason(r.step.Verdict.Rule, r.step.Verdict.Why) != l.words {
		c.found(stepWords, r.step.ID.String(), "the audit log has another rule or reason for its class")
	}
	if r.step.Undoes != l.takes {
		c.found(stepUndoes, r.step.ID.String(), "it takes back step %d, and by the audit log %d (0: none)", r.step.Undoes, l.takes)
	}
}

// undoing has the operation that takes each operation back. The journal may have no
// other, because a compensation runs without asking an operator.
var undoing = map[string]string{
	"guest.create":     "guest.destroy",
	"guest.clone":      "guest.destroy",
	"guest.destroy":    "guest.undelete",
	"guest.start":      "guest.stop",
	"guest.stop":       "guest.start",
	"guest.set-config": "guest.set-config",
}

// undo checks what would take a step back. If the step itself takes one back, it
// must do what was fixed at the other's dispatch.
func (c *check) undo(r row) {
	if r.undo != "" {
		if name, params, ok := parseUndo(r.undo); !ok || r.step.Undoes != 0 || name != undoing[r.step.Op] || !r.fits(params) {
			c.found(undoUnfit, r.step.ID.String(), "what would take it back is not what takes a %s back", op.Shown(r.step.Op))
		}
	}
	if r.step.Undoes != 0 {
		name, params, ok := parseUndo(r.takes)
		if !ok || name != r.step.Op || !bytes.Equal(params.Canonical(), r.params) {
			c.found(undoIgnored, r.step.ID.String(), "it is not what was to take step %d back", r.step.Undoes)
		}
	}
}

// parseUndo reads an undo. It has an operation and parameters, and cannot have a
// target of its own.
func parseUndo(text string) (name string, params op.Params, ok bool) {
	var u struct {
		Op     string    `json:"op"`
		Params op.Params `json:"params"`
	}
	err := json.Unmarshal([]byte(text), &u, json.RejectUnknownMembers(true))
	return u.Op, u.Params, err == nil
}

// fits checks the parameters of an undo: the incarnation that the step destroyed, or
// fields that it set, without protection and labels.
func (r row) fits(undo op.Params) bool {
	switch r.step.Op {
	case "guest.destroy":
		return undo.Equal(op.Params{"incarnation": string(r.step.Incarnation)})
	case "guest.set-config":
		set, err := op.ParseParams(r.params)
		for name := range undo {
			if !set.Has(name) || !slices.Contains([]string{"memory", "cpus", "command"}, name) {
				return false
			}
		}
		return err == nil && len(undo) > 0
	default:
		return len(undo) == 0
	}
}
