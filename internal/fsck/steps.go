package fsck

import (
	"cmp"
	"slices"

	"gated/internal/op"
)

// row is a row of steps.
type row struct {
	step   op.Step // without its parameters
	params []byte
	undo   string // what would take it back
	takes  string // that of the step which it takes back
	asked  bool   // there is a request for it
}

// steps checks that every step is as the log tells of it, and that every step
// of which the log tells is there.
func (c *check) steps() error {
	err := c.each(`SELECT s.job, s.idx, s.op, s.kind, s.name, s.incarnation, s.params, s.class, s.rule, s.why, s.state, s.undoes, s.undo,
			coalesce((SELECT u.undo FROM steps u WHERE u.job = s.job AND u.idx = s.undoes), ''),
			EXISTS(SELECT 1 FROM requests r WHERE r.job = s.job AND r.idx = s.idx)
		FROM steps s`, func(scan func(...any) error) error {
		var r row
		s := &r.step
		err := scan(&s.ID.Job, &s.ID.Index, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation, &r.params, &s.Verdict.Class, &s.Verdict.Rule, &s.Verdict.Why,
			&s.State, &s.Undoes, &r.undo, &r.takes, &r.asked)
		if err != nil {
			return err
		}
		c.report.Checked["steps"]++
		c.step(s.ID, s.Verdict.Class, s.State, r.asked)
		if l := c.log.steps[s.ID]; l.state != "" {
			c.same(r, l)
		}
		c.undo(r)
		delete(c.log.steps, s.ID)
		return nil
	})
	if err != nil {
		return err
	}
	var lost []op.StepID
	for id := range c.log.steps {
		lost = append(lost, id)
	}
	slices.SortFunc(lost, func(a, b op.StepID) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index)) })
	for _, id := range lost {
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

// jobs checks that a job is finished when, and only when, its steps are.
func (c *check) jobs() error {
	return c.each(`SELECT j.id, j.finished_at, (SELECT count(*) FROM steps s WHERE s.job = j.id AND s.state IN
			('planned', 'pending_signature', 'authorized', 'dispatched')) FROM jobs j`, func(scan func(...any) error) error {
		var id op.JobID
		var finished, open int64
		if err := scan(&id, &finished, &open); err != nil {
			return err
		}
		c.report.Checked["jobs"]++
		if finished == 0 && open == 0 {
			c.found(jobOpen, id.String(), "all its steps ended, and it did not")
		}
		if finished != 0 && open > 0 {
			c.found(jobEndedEarly, id.String(), "it ended, and %d of its steps did not", open)
		}
		return nil
	})
}
