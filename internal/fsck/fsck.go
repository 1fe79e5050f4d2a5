// Package fsck checks those of the rules that must always hold which a
// database can show. It only reads, and works beside a running daemon.
//
// The audit log is the witness: it is replayed, step by step, and the journal,
// the nonces and provenance have to be as it tells. docs/design/daemon.md says
// what that can find and what it cannot.
package fsck

import (
	"fmt"

	"gated/internal/store"
)

// The rules that a Problem names.
const (
	ruleDatabase   = "database"
	ruleLog        = "audit log"
	ruleDecided    = "every decision is in the audit log"
	rulePermit     = "no permit, no execution"
	ruleSigned     = "exactly the signed step"
	ruleOnce       = "once"
	ruleProvenance = "provenance is ours"
	ruleJobs       = "jobs end with their steps"
	ruleAgents     = "agents are who the log says"
	ruleHeld       = "reservations are as the log says"
	ruleApart      = "no two holders have what overlaps"
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

// Run checks everything in one read snapshot. Its error means that the check
// itself could not be done.
func Run(tx *store.Tx) (Report, error) {
	c := &check{tx: tx, report: Report{Problems: []Problem{}, Checked: map[string]int64{}}, log: newHistory()}
	for _, part := range []func() error{c.database, c.auditLog, c.trust, c.agents, c.reservations, c.requests, c.nonces, c.steps, c.provenance,
		c.jobs, c.requesters} {
		if err := part(); err != nil {
			if len(c.report.Problems) == 0 {
				return c.report, err
			}
			// It is damaged, and what was found of that is worth more than the error.
			c.found(ruleDatabase, "the rest", "cannot be checked: %v", err)
			break
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

// database asks SQLite whether its pages, indexes and references are in order.
func (c *check) database() error {
	err := c.each(`SELECT integrity_check FROM pragma_integrity_check`, func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		if err == nil && line != "ok" {
			c.found(ruleDatabase, "pages and indexes", "%s", line)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.each(`SELECT "table", parent FROM pragma_foreign_key_check`, func(scan func(...any) error) error {
		var table, parent string
		err := scan(&table, &parent)
		if err == nil {
			c.found(ruleDatabase, table, "a row refers to one of %s that is not there", parent)
		}
		return err
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
