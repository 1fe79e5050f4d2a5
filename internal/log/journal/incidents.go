package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaIncidents has a row for each step that a break-glass signature approved.
const SchemaIncidents = `
CREATE TABLE incidents(
	job         INTEGER NOT NULL,
	idx         INTEGER NOT NULL,
	at          INTEGER NOT NULL,
	reviewed_by TEXT NOT NULL DEFAULT '',   -- the step of the review; empty: open
	reviewed_at INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX incidents_open ON incidents(job, idx) WHERE reviewed_by = '';
`

// Incident is a step that was approved with a break-glass signature.
type Incident struct {
	Request op.Request // with all of its signatures
	At      time.Time  // of the approval
}

// Incidents has the incidents that no operator has reviewed.
type Incidents struct {
	Ended      []Incident // their steps have ended, so a review closes them; in their order
	UnderWay   []Incident // their steps wait or run
	ReviewedBy op.StepID  // the step that made the newest review; zero if there was none
}

// OpenIncident adds an incident.
func OpenIncident(tx *store.Tx, id op.RequestID, at time.Time) error {
	_, err := tx.Exec(`INSERT INTO incidents(job, idx, at) VALUES(?, ?, ?)`, int64(id.Job), id.Index, at.UnixNano())
	if err != nil {
		return fmt.Errorf("open incident: %w", err)
	}
	return nil
}

// CountIncidents returns how many incidents are open.
func CountIncidents(tx *store.Tx) (n int, err error) {
	err = tx.QueryRow(`SELECT count(*) FROM incidents WHERE reviewed_by = ''`).Scan(&n)
	return n, err
}

// ReadIncidents returns the open incidents. There are no more than policies allowed.
func ReadIncidents(tx *store.Tx) (in Incidents, err error) {
	open, err := openIncidents(tx)
	if err != nil {
		return in, err
	}
	for _, one := range open {
		if one.Request, err = ReadRequest(tx, one.Request.ID); err != nil {
			return in, err
		}
		if one.Request.Step.State.Open() {
			in.UnderWay = append(in.UnderWay, one)
		} else {
			in.Ended = append(in.Ended, one)
		}
	}
	var by string
	err = tx.QueryRow(`SELECT reviewed_by FROM incidents WHERE reviewed_by <> '' ORDER BY reviewed_at DESC, job DESC LIMIT 1`).Scan(&by)
	if errors.Is(err, sql.ErrNoRows) {
		return in, nil
	}
	if err == nil {
		in.ReviewedBy, err = op.ParseStepID(by)
	}
	return in, err
}

// openIncidents reads the rows alone.
func openIncidents(tx *store.Tx) (out []Incident, err error) {
	rows, err := tx.Query(`SELECT job, idx, at FROM incidents WHERE reviewed_by = '' ORDER BY job, idx`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one Incident
		var at int64
		if err := rows.Scan(&one.Request.ID.Job, &one.Request.ID.Index, &at); err != nil {
			return nil, err
		}
		one.At = fromNano(at)
		out = append(out, one)
	}
	return out, rows.Err()
}

// Fingerprint covers each incident that a review closes: its step, what that did, when it was approved and how it ended.
func (in Incidents) Fingerprint() op.Fingerprint {
	var b strings.Builder
	b.WriteString("incidents\n")
	for _, one := range in.Ended {
		s := one.Request.Step
		fmt.Fprintf(&b, "%s %s %s %s %d\n", s.ID, s.Op, s.Target, s.State, one.At.UnixNano())
	}
	return op.FingerprintOf([]byte(b.String()))
}

// CloseIncidents closes the incidents whose steps have ended, and returns their ids.
func CloseIncidents(tx *store.Tx, in Incidents, by op.StepID, at time.Time) ([]string, error) {
	var closed []string
	for _, one := range in.Ended {
		id := one.Request.ID
		n, err := tx.Exec(`UPDATE incidents SET reviewed_by = ?, reviewed_at = ? WHERE job = ? AND idx = ? AND reviewed_by = ''`,
			by.String(), at.UnixNano(), int64(id.Job), id.Index)
		if err != nil || n != 1 {
			return nil, errors.Join(err, fmt.Errorf("close incident %s: %d rows", id, n))
		}
		closed = append(closed, id.String())
	}
	return closed, nil
}
