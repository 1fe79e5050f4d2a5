// Package fsck checks the rules that must always hold, as far as a database shows
// them. It only reads, and it works beside a running daemon.
//
// The audit log is the witness. fsck replays it, step by step, and compares the
// journal, the nonces and the provenance with it. docs/formats/fsck.md says what
// that can find and what it cannot.
package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
)

// Problem is one place at which a rule does not hold.
type Problem struct {
	Rule   Rule   `json:"rule"`
	Code   Code   `json:"code"`
	Where  string `json:"where"`
	Detail string `json:"detail"` // a sentence for people
}

// Report has what was checked and the problems.
type Report struct {
	Sound    bool             `json:"sound"`
	Problems []Problem        `json:"problems"`
	Checked  map[string]int64 `json:"checked"` // how many of each thing were checked
}

// Add adds a problem that a caller found outside the database.
func (r *Report) Add(code Code, where, format string, args ...any) {
	r.Sound = false
	r.Problems = append(r.Problems, Problem{ruleOf[code], code, where, fmt.Sprintf(format, args...)})
}

// maxProblems bounds the report on a badly damaged database.
const maxProblems = 1000

// Checker has what the database is compared with, beside itself.
type Checker struct {
	// Schema is what the database must have: store.Schema of its migrations. If it
	// is nil, the present schema counts as right, and a check without its tables is
	// left out. Triggers and views are problems in any case.
	Schema []store.Object

	// Progress, if not nil, is called with the part that is checked. For the audit
	// log it also gets the number of read entries and of all entries. For other
	// parts both are 0.
	Progress func(part string, done, of int64)
}

type check struct {
	Checker
	tx      *store.Tx
	tables  map[string]bool
	host    string // the host that the state should be of
	entries int64  // how many the audit log has
	report  Report
	log     history
	lists   map[int64]*authz.Trust // by epoch
}

// part is one check of the database.
type part struct {
	name  string
	needs []string // the tables that it reads
	run   func() error
}

const logPart = "audit log"

// tellEvery is how many entries of the log are read between two calls of Progress.
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

// Run checks everything in one read snapshot. An error means that the check itself
// failed.
func (o Checker) Run(tx *store.Tx) (Report, error) {
	c := &check{Checker: o, tx: tx, tables: map[string]bool{}, lists: map[int64]*authz.Trust{},
		report: Report{Problems: []Problem{}, Checked: map[string]int64{}}, log: newHistory()}
	if c.Progress == nil {
		c.Progress = func(string, int64, int64) {}
	}
	var table string
	err := c.rows("", `SELECT name FROM sqlite_schema WHERE type = 'table'`, []any{&table}, func() { c.tables[table] = true })
	if err != nil {
		return c.report, err
	}
	for _, p := range c.parts() {
		if !c.has(p.needs...) {
			continue // the check of the schema reports it
		}
		c.Progress(p.name, 0, 0)
		if err := p.run(); err != nil {
			// An unreadable machine is no problem of the rows. But if there are problems
			// already, these say more than the error.
			if len(c.report.Problems) == 0 && errors.Is(err, store.ErrUnavailable) {
				return c.report, err
			}
			c.found(unreadable, p.name, "it cannot be read whole: %v", err)
			if p.name == logPart {
				break // all later checks compare with the log
			}
		}
	}
	c.report.Sound = len(c.report.Problems) == 0
	return c.report, nil
}

// Run is Run of the zero Checker.
func Run(tx *store.Tx) (Report, error) { return Checker{}.Run(tx) }

func (c *check) found(code Code, where, format string, args ...any) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, Problem{ruleOf[code], code, where, fmt.Sprintf(format, args...)})
	}
}

// has reports whether all these tables exist.
func (c *check) has(tables ...string) bool {
	for _, name := range tables {
		if !c.tables[name] {
			return false
		}
	}
	return true
}

// database asks SQLite whether its pages, indexes and references are right.
func (c *check) database() error {
	var line, table, parent string
	err := c.rows("", `SELECT integrity_check FROM pragma_integrity_check`, []any{&line}, func() {
		if line != "ok" {
			c.found(pageDamaged, "pages and indexes", "%s", line)
		}
	})
	if err != nil {
		return err
	}
	return c.rows("", `SELECT "table", parent FROM pragma_foreign_key_check`, []any{&table, &parent}, func() {
		c.found(referenceBroken, table, "a row refers to one of %s that is not there", parent)
	})
}

// rows reads each row of a query into places and calls do. The report counts the
// rows as things, unless that is empty.
func (c *check) rows(things, query string, places []any, do func()) error {
	rows, err := c.tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if things != "" {
			c.report.Checked[things]++
		}
		do()
	}
	return rows.Err()
}

// stepsOf returns the steps of a map in their order.
func stepsOf[T any](m map[op.StepID]T) []op.StepID {
	return slices.SortedFunc(maps.Keys(m), func(a, b op.StepID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
	})
}

// schema compares the schema with that of the migrations. Without a UNIQUE or a
// CHECK, rows can be wrong that no other check reads. A trigger can change rows
// after the gate wrote them.
func (c *check) schema() error {
	have, err := c.tx.Schema()
	if err != nil {
		return err
	}
	type key struct{ kind, name string }
	want := map[key]string{}
	for _, o := range c.Schema {
		want[key{o.Kind, o.Name}] = o.SQL
	}
	for _, o := range have {
		k := key{o.Kind, o.Name}
		where := o.Kind + " " + o.Name
		sql, known := want[k]
		switch {
		case !known && (c.Schema != nil || o.Kind == "trigger" || o.Kind == "view"):
			c.found(schemaUnknown, where, "no migration makes it")
		case known && sql != o.SQL:
			c.found(schemaChanged, where, "it is not as the migrations make it")
		}
		delete(want, k)
	}
	for _, o := range c.Schema { // in the checker's order
		if _, lost := want[key{o.Kind, o.Name}]; lost {
			c.found(schemaMissing, o.Kind+" "+o.Name, "it is not there any more")
		}
	}
	c.report.Checked["schema"] = int64(len(have))
	return c.constraints(have)
}

// constraints checks what rows of a table must be by themselves, by the schema of
// the migrations if it is known.
func (c *check) constraints(have []store.Object) error {
	if c.Schema != nil {
		have = c.Schema
	}
	for _, o := range have {
		if !c.tables[o.Name] {
			continue
		}
		broken, err := c.tx.Violated(o)
		if err != nil {
			return err
		}
		for _, expr := range broken {
			c.found(rowInvalid, o.Name, "a row does not meet %s", expr)
		}
	}
	return nil
}
