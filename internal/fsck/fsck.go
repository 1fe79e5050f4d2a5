// Package fsck checks those of the rules that must always hold which a
// database can show. It only reads, and works beside a running daemon.
//
// The audit log is the witness: it is replayed, step by step, and the journal,
// the nonces and provenance have to be as it tells. docs/formats/fsck.md says
// what that can find and what it cannot.
package fsck

import (
	"errors"
	"fmt"

	"gated/internal/authz"
	"gated/internal/store"
)

// Problem is one place where a rule does not hold.
type Problem struct {
	Rule   Rule   `json:"rule"`
	Code   Code   `json:"code"`
	Where  string `json:"where"`
	Detail string `json:"detail"` // a sentence for people
}

// Report is what was checked and what was found.
type Report struct {
	Sound    bool             `json:"sound"`
	Problems []Problem        `json:"problems"`
	Checked  map[string]int64 `json:"checked"` // how many of each thing
}

// Add adds a problem that was found by whoever knows more than the database.
func (r *Report) Add(code Code, where, format string, args ...any) {
	r.Sound = false
	r.Problems = append(r.Problems, Problem{ruleOf[code], code, where, fmt.Sprintf(format, args...)})
}

// maxProblems bounds a report on a database that is wrong all over.
const maxProblems = 1000

// Checker says what a database is compared with beside itself.
type Checker struct {
	// Schema is what the database has to have: store.Schema of its migrations.
	// With nil, what is there is taken for the schema, and what needs a table that
	// is not there is not checked. Triggers and views are found in any case.
	Schema []store.Object

	// Progress, if not nil, is told what is being looked at, and of the audit log
	// how many entries were read of how many; of other parts both are 0.
	Progress func(part string, done, of int64)
}

type check struct {
	Checker
	tx      *store.Tx
	tables  map[string]bool
	host    string // whose state it is said to be
	entries int64  // of the audit log
	report  Report
	log     history
	lists   map[int64]*authz.Trust // by epoch
}

// part is one look at the database.
type part struct {
	name  string
	needs []string // tables
	run   func() error
}

const logPart = "audit log"

// tellEvery is after how many entries of the log Progress is told.
const tellEvery = 10_000

func (c *check) parts() []part {
	logged := func(tables ...string) []string {
		return append(tables, "audit", "audit_head", "audit_tree", "audit_key")
	}
	return []part{
		{"pages", nil, c.database},
		{"schema", nil, c.schema},
		{logPart, logged(), c.auditLog},
		{"keys", logged(), c.keys},
		{"gate id", logged("gate_identity"), c.identity},
		{"trust", logged("trust"), c.trust},
		{"agents", logged("agents"), c.agents},
		{"reservations", logged("agents", "reservations", "scopes", "reservation_patterns"), c.reservations},
		{"overlaps", []string{"reservations", "scopes", "reservation_patterns"}, c.overlaps},
		{"requests", logged("requests", "steps", "requesters", "signatures", "proofs", "trust"), c.requests},
		{"nonces", logged("requests", "steps", "nonces", "time_mark"), c.nonces},
		{"steps", logged("steps", "jobs", "requests"), c.steps},
		{"outputs", logged("outputs", "steps"), c.outputs},
		{"provenance", logged("incarnations", "storage"), c.provenance},
		{"jobs", logged("jobs", "steps"), c.jobs},
		{"requesters", logged("requesters", "jobs"), c.requesters},
		{"answers", []string{"idempotency", "jobs"}, c.answers},
		{"desired sets", logged("desired_sets"), c.sets},
	}
}

// Run checks everything in one read snapshot. Its error means that the check
// itself could not be done.
func (o Checker) Run(tx *store.Tx) (Report, error) {
	c := &check{Checker: o, tx: tx, tables: map[string]bool{}, lists: map[int64]*authz.Trust{},
		report: Report{Problems: []Problem{}, Checked: map[string]int64{}}, log: newHistory()}
	if c.Progress == nil {
		c.Progress = func(string, int64, int64) {}
	}
	err := c.each(`SELECT name FROM sqlite_schema WHERE type = 'table'`, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		c.tables[name] = true
		return err
	})
	if err != nil {
		return c.report, err
	}
	for _, p := range c.parts() {
		if !c.has(p.needs...) {
			continue // schema says so
		}
		c.Progress(p.name, 0, 0)
		if err := p.run(); err != nil {
			// A machine that cannot read says nothing about rows. Where something is
			// damaged, what was found of that is worth more than the error.
			if len(c.report.Problems) == 0 && errors.Is(err, store.ErrUnavailable) {
				return c.report, err
			}
			c.found(unreadable, p.name, "it cannot be read whole: %v", err)
			if p.name == logPart {
				break // all that follows compares with it
			}
		}
	}
	c.report.Sound = len(c.report.Problems) == 0
	return c.report, nil
}

// Run is that of the zero Checker.
func Run(tx *store.Tx) (Report, error) { return Checker{}.Run(tx) }

func (c *check) found(code Code, where, format string, args ...any) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, Problem{ruleOf[code], code, where, fmt.Sprintf(format, args...)})
	}
}

// has reports whether there are tables of those names.
func (c *check) has(tables ...string) bool {
	for _, name := range tables {
		if !c.tables[name] {
			return false
		}
	}
	return true
}

// database asks SQLite whether its pages, indexes and references are in order.
func (c *check) database() error {
	err := c.each(`SELECT integrity_check FROM pragma_integrity_check`, func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		if err == nil && line != "ok" {
			c.found(pageDamaged, "pages and indexes", "%s", line)
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
			c.found(referenceBroken, table, "a row refers to one of %s that is not there", parent)
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
