package fsck

import (
	"errors"
	"fmt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// Bounds are the most that a quick check reads. So its time does not grow with the
// age of a gate.
type Bounds struct {
	Entries int // of the audit log, the newest
	Steps   int // open ones of the journal, the newest
}

// QuickBounds are those of gated fsck --quick.
var QuickBounds = Bounds{Entries: 10_000, Steps: 1_000}

// small are the tables whose pages a quick check reads. The gate forgets old rows of
// them or never has many.
var small = []string{"audit_head", "audit_key", "gate_identity", "time_mark", "trust"}

// Quick checks the newest part of a database: the schema, the end of the audit log
// against the signed head, the steps that these entries tell of, and open steps with
// their requests and nonces. Report.NotChecked names the rest. An error means that the
// check itself failed.
func (o Checker) Quick(tx *store.Tx, most Bounds) (Report, error) {
	c, err := o.begin(tx)
	if err != nil {
		return c.report, err
	}
	q := &quick{check: c, most: most, newest: map[op.StepID]op.State{}}
	for _, p := range []part{
		{"pages", nil, q.pages},
		{"schema", nil, func() error { _, err := c.objects(); return err }},
		{logPart, []string{"audit", "audit_head", "audit_tree", "audit_key"}, q.end},
		{"steps", []string{"steps"}, q.moved},
		{"segments", []string{"segments", "archived_jobs"}, q.counts},
		{"open steps", []string{"steps", "requests", "nonces"}, q.open},
	} {
		if !c.has(p.needs...) {
			continue // the check of the schema reports it
		}
		if err := p.run(); err != nil {
			if len(c.report.Problems) == 0 && errors.Is(err, store.ErrUnavailable) {
				return c.report, err
			}
			c.found(unreadable, p.name, "it cannot be read: %v", err)
		}
	}
	c.report.NotChecked = append(c.report.NotChecked, "pages, indexes and constraints of all other tables", "signatures",
		"provenance, outputs, desired sets, agents and reservations")
	c.report.Sound = len(c.report.Problems) == 0
	return c.report, nil
}

// quick is a quick check.
type quick struct {
	*check
	most   Bounds
	first  int64                  // number of the first entry that was read; 0 if the end is broken
	newest map[op.StepID]op.State // where the entries that were read leave their steps
}

// pages asks SQLite whether the pages of small tables are right.
func (q *quick) pages() error {
	for _, table := range small {
		var line string
		err := q.rows("", fmt.Sprintf(`SELECT quick_check FROM pragma_quick_check('%s')`, table), []any{&line}, func() {
			if line != "ok" {
				q.found(pageDamaged, "table "+table, "%s", line)
			}
		})
		if err != nil && q.has(table) {
			return err
		}
	}
	return nil
}

// end checks the newest entries of the log, and keeps where they leave their steps.
func (q *quick) end() error {
	first, err := audit.VerifyEnd(q.tx, q.most.Entries, func(e audit.Entry) {
		q.report.Checked["audit entries"]++
		t := op.TransitionOf(string(e.Kind))
		if id, err := op.ParseStepID(e.Step); err == nil && t.To != "" && ofStep(e) {
			q.newest[id] = t.To
		}
	})
	var broken *audit.BrokenError
	switch {
	case errors.As(err, &broken):
		q.found(entryBroken, fmt.Sprintf("entry %d", broken.Seq), "%s", broken.Why)
		return nil
	case errors.Is(err, refusal.Malformed):
		q.found(headUnreadable, "signed head", "%s", refusal.As(err).Detail)
		return nil
	case err != nil:
		return err
	}
	if q.first = first; first > 1 {
		q.report.NotChecked = append(q.report.NotChecked, fmt.Sprintf("audit entries 1 to %d, and steps that only they tell of", first-1))
	}
	return nil
}

// counts checks how many rows of archived jobs are there, if all entries were read: it takes the longer the older a gate is.
func (q *quick) counts() error {
	if q.first == 0 || q.first > q.archive.bound+1 {
		return nil
	}
	return q.counted()
}

// moved checks that each step of the entries is in the state in which they leave it.
func (q *quick) moved() error {
	for _, id := range stepsOf(q.newest) {
		var state op.State
		err := q.rows("steps", fmt.Sprintf(`SELECT state FROM steps WHERE job = %d AND idx = %d`, id.Job, id.Index), []any{&state}, func() {})
		if err != nil {
			return err
		}
		switch want := q.newest[id]; {
		case state == "" && q.gone(id.Job):
		case state == "":
			q.found(stepLost, id.String(), "the audit log tells of it, and the journal does not have it")
		case state != want:
			q.found(stepState, id.String(), "it is %s, and by the audit log it is %s", state, want)
		}
	}
	return nil
}

// waits is an open step with its request and nonce.
type waits struct {
	spending
	class op.Class
	asked bool
}

// open checks the newest open steps: each is one of the log, each destructive one has a
// request, and the nonce of each request is spent exactly if it does not wait.
func (q *quick) open() error {
	var w waits
	n := 0
	err := q.rows("open steps", fmt.Sprintf(`SELECT s.job, s.idx, s.state, s.class, r.job IS NOT NULL, coalesce(r.payload, x''),
			coalesce(n.fate, ''), coalesce(n.payload, ''), n.nonce IS NULL, coalesce(n.job = s.job AND n.idx = s.idx, 1)
		FROM (SELECT * FROM steps WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched')
			ORDER BY job DESC, idx DESC LIMIT %d) s
		LEFT JOIN requests r ON r.job = s.job AND r.idx = s.idx LEFT JOIN nonces n ON n.nonce = r.nonce`, q.most.Steps+1),
		[]any{&w.id.Job, &w.id.Index, &w.state, &w.class, &w.asked, &w.payload, &w.fate, &w.digest, &w.gone, &w.own}, func() {
			if n++; n <= q.most.Steps {
				q.waiting(w)
			}
		})
	if n > q.most.Steps {
		q.report.Checked["open steps"] = int64(q.most.Steps)
		q.report.NotChecked = append(q.report.NotChecked, fmt.Sprintf("open steps beyond the newest %d", q.most.Steps))
	}
	return err
}

func (q *quick) waiting(w waits) {
	where := w.id.String()
	_, told := q.newest[w.id]
	switch {
	case q.first == 1 && !told:
		q.found(stepState, where, "it is %s, and the audit log does not tell of it", w.state)
	case w.class == op.Destructive && !w.asked:
		q.found(requestMissing, where, "it is destructive, and there is no request for it")
	case !w.asked:
	case w.gone && w.state == op.StatePending:
		q.found(nonceMissing, where, "it waits for a signature, but its nonce is not known")
	case w.gone: // a nonce that was spent is forgotten in time
	case !w.own || w.digest != op.SHA256(w.payload):
		q.found(nonceForeign, where, "its nonce was issued for something else")
	case w.state == op.StatePending && w.fate != "":
		q.found(nonceSpentEarly, where, "it waits for a signature, but its nonce is spent (%s)", w.fate)
	case w.state != op.StatePending && w.fate == "":
		q.found(nonceUnspent, where, "it is %s, but its nonce is not spent", w.state)
	}
}
