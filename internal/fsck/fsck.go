// Package fsck checks those of the rules that must always hold which a
// database can show. It only reads, and works beside a running daemon.
package fsck

import (
	"bytes"
	"errors"
	"fmt"

	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// Problem is one place where a rule does not hold.
type Problem struct {
	Rule   string `json:"rule"`
	Where  string `json:"where"`
	Detail string `json:"detail"`
}

// Report is what was checked and what was found.
type Report struct {
	Sound    bool             `json:"sound"`
	Problems []Problem        `json:"problems"`
	Checked  map[string]int64 `json:"checked"` // how many of each thing
}

// maxProblems bounds a report on a database that is wrong all over.
const maxProblems = 1000

type check struct {
	tx     *store.Tx
	report Report
	log    history
}

// history is what the audit log says happened, by step.
type history struct {
	approved   map[string]string // step: payload digest
	dispatched map[string]int
	ended      map[string]audit.Kind
	made       map[op.Incarnation]audit.Entry
	promoted   map[op.Incarnation]bool
}

// Run checks everything in one read snapshot. Its error means that the check
// itself could not be done.
func Run(tx *store.Tx) (Report, error) {
	c := &check{tx: tx, report: Report{Problems: []Problem{}, Checked: map[string]int64{}}}
	for _, part := range []func() error{c.database, c.auditLog, c.steps, c.requests, c.nonces, c.provenance, c.jobs} {
		if err := part(); err != nil {
			return c.report, err
		}
	}
	c.report.Sound = len(c.report.Problems) == 0
	return c.report, nil
}

func (c *check) found(rule, where, format string, args ...any) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, Problem{rule, where, fmt.Sprintf(format, args...)})
	}
}

// database asks SQLite whether its pages and references are in order.
func (c *check) database() error {
	rows, err := c.tx.Query(`SELECT quick_check FROM pragma_quick_check(20)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			c.found("database", "pages", "%s", line)
		}
	}
	return rows.Err()
}

// auditLog walks the log and keeps what the other checks compare with.
func (c *check) auditLog() error {
	c.log = history{approved: map[string]string{}, dispatched: map[string]int{}, ended: map[string]audit.Kind{},
		made: map[op.Incarnation]audit.Entry{}, promoted: map[op.Incarnation]bool{}}
	_, err := audit.Verify(c.tx, func(e audit.Entry) error {
		c.report.Checked["audit entries"]++
		switch e.Kind {
		case audit.Approved:
			c.log.approved[e.Step] = e.Payload
		case audit.Dispatched:
			c.log.dispatched[e.Step]++
			if e.Class == op.Destructive && c.log.dispatched[e.Step] > 1 {
				c.found("once", e.Step, "a destructive step was dispatched more than once")
			}
			if e.Class == op.Destructive && c.log.approved[e.Step] == "" {
				c.found("no permit, no execution", e.Step, "it was dispatched without an approval in the audit log")
			}
		case audit.Promoted:
			c.log.promoted[e.Incarnation] = true
		}
		if e.Step != "" && ends[e.Kind] {
			c.log.ended[e.Step] = e.Kind
		}
		if e.Made != nil {
			c.log.made[e.Incarnation] = e
		}
		return nil
	})
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		c.found("audit log", fmt.Sprintf("entry %d", broken.Seq), "%s", broken.Why)
		return nil
	}
	return err
}

var ends = map[audit.Kind]bool{audit.Succeeded: true, audit.Failed: true, audit.Interrupted: true, audit.Rejected: true,
	audit.Expired: true, audit.Superseded: true, audit.Cancelled: true}

// stateKind says which entry of the log a step's end has to have.
var stateKind = map[op.State]audit.Kind{op.StateSucceeded: audit.Succeeded, op.StateFailed: audit.Failed,
	op.StateInterrupted: audit.Interrupted, op.StateRejected: audit.Rejected, op.StateExpired: audit.Expired,
	op.StateSuperseded: audit.Superseded, op.StateCancelled: audit.Cancelled}

// steps checks that every step's state is one that the log tells of.
func (c *check) steps() error {
	return c.each(`SELECT job, idx, class, state, task FROM steps`, func(scan func(...any) error) error {
		var id op.StepID
		var class op.Class
		var state op.State
		var task string
		if err := scan(&id.Job, &id.Index, &class, &state, &task); err != nil {
			return err
		}
		c.report.Checked["steps"]++
		step := id.String()
		if kind, ok := stateKind[state]; ok && c.log.ended[step] != kind {
			c.found("every decision is in the audit log", step, "it is %s, but the log does not say so", state)
		}
		ran := state == op.StateDispatched || state == op.StateSucceeded || state == op.StateFailed || state == op.StateInterrupted
		if ran && c.log.dispatched[step] == 0 {
			c.found("no permit, no execution", step, "it is %s, but the log has no dispatch", state)
		}
		if class == op.Destructive && (ran || state == op.StateAuthorized) && c.log.approved[step] == "" {
			c.found("no permit, no execution", step, "it is destructive and %s, but the log has no approval", state)
		}
		if (state == op.StatePlanned || state == op.StatePending) && c.log.dispatched[step] > 0 && class == op.Destructive {
			c.found("once", step, "it was dispatched and waits again")
		}
		return nil
	})
}

// requests checks that a request's payload is for its step and that what was
// approved is what the log says.
func (c *check) requests() error {
	return c.each(`SELECT r.job, r.idx, r.payload, r.nonce, r.needed, s.op, s.kind, s.name, s.incarnation, s.fingerprint, s.params,
			s.state, (SELECT count(*) FROM signatures g WHERE g.job = r.job AND g.idx = r.idx)
		FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`, func(scan func(...any) error) error {
		var s op.Step
		var payload, params []byte
		var nonce string
		var needed, signed int
		if err := scan(&s.ID.Job, &s.ID.Index, &payload, &nonce, &needed, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation,
			&s.Fingerprint, &params, &s.State, &signed); err != nil {
			return err
		}
		c.report.Checked["requests"]++
		step := s.ID.String()
		p, err := op.DecodePayload(payload)
		if err != nil {
			c.found("exactly the signed step", step, "its payload does not decode")
			return nil
		}
		approved := c.log.approved[step]
		if p.Nonce != nonce || p.Op != s.Op || p.Target != s.Target || !bytes.Equal(p.Params.Canonical(), params) ||
			approved != "" && s.Op != "guest.undelete" && (p.State != s.Fingerprint || s.Op != "guest.create" && p.Incarnation != s.Incarnation) {
			c.found("exactly the signed step", step, "its payload is for another step")
		}
		if approved != "" && approved != op.SHA256(payload) {
			c.found("exactly the signed step", step, "the log says that another payload was approved")
		}
		if approved != "" && signed < needed {
			c.found("exactly the signed step", step, "it was approved with %d of %d signatures", signed, needed)
		}
		return nil
	})
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
		if (finished == 0) != (open > 0) {
			c.found("jobs end with their steps", id.String(), "%d steps are open, and the job's end is %d", open, finished)
		}
		return nil
	})
}

// provenance compares what the journal says of who made what with the log.
func (c *check) provenance() error {
	return journal.AllProvenance(c.tx, func(p op.Provenance) error {
		c.report.Checked["incarnations"]++
		where := p.Target.String() + " " + string(p.Incarnation)
		e, ok := c.log.made[p.Incarnation]
		if !ok {
			c.found("provenance is ours", where, "the audit log does not contain that this gate made it")
			return nil
		}
		if e.Made.Scratch != p.Scratch || !e.Made.ScratchUntil.Equal(p.ScratchUntil) || e.Made.Creator != p.Creator ||
			e.Job != p.Job.String() || e.Target != p.Target.String() {
			c.found("provenance is ours", where, "the audit log says otherwise how it was made")
		}
		if c.log.promoted[p.Incarnation] != (p.ScratchEnded != "") {
			c.found("provenance is ours", where, "the audit log says otherwise whether it still is scratch")
		}
		logged := map[op.StorageID]bool{}
		for _, id := range e.Made.Storage {
			logged[id] = true
		}
		for _, s := range p.Storage {
			if !logged[s.ID] {
				c.found("provenance is ours", where, "storage %s is not in the audit log", s.ID)
			}
		}
		return nil
	})
}

// nonces checks that what was decided has spent its nonce, and only that.
func (c *check) nonces() error {
	return c.each(`SELECT r.job, r.idx, s.state, coalesce((SELECT n.fate FROM nonces n WHERE n.nonce = r.nonce), 'pruned')
		FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`, func(scan func(...any) error) error {
		var id op.StepID
		var state op.State
		var fate string
		if err := scan(&id.Job, &id.Index, &state, &fate); err != nil {
			return err
		}
		c.report.Checked["nonces"]++
		switch {
		case state == op.StatePending && fate != "":
			c.found("once", id.String(), "it waits for a signature, but its nonce is spent (%s)", fate)
		case state != op.StatePending && fate == "":
			c.found("once", id.String(), "it is %s, but its nonce is not spent", state)
		}
		return nil
	})
}

// each calls fn for every row of a query.
func (c *check) each(query string, fn func(scan func(...any) error) error) error {
	rows, err := c.tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
