// Package fsck checks those of the rules that must always hold which a
// database can show. It only reads, and works beside a running daemon.
//
// The audit log is the witness: it is replayed, step by step, and the journal,
// the nonces and provenance have to be as it tells. docs/formats/fsck.md says
// what that can find and what it cannot.
package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gated/internal/authz"
	"gated/internal/op"
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
	var table string
	err := c.rows("", `SELECT name FROM sqlite_schema WHERE type = 'table'`, []any{&table}, func() { c.tables[table] = true })
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

// rows reads the rows of a query into places, one after the other, and has do look
// at each. The report counts them as things, unless that is empty.
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

// stepsOf returns the steps that a map is about, in their order.
func stepsOf[T any](m map[op.StepID]T) []op.StepID {
	return slices.SortedFunc(maps.Keys(m), func(a, b op.StepID) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
	})
}

// schema compares what the database is made of with what the migrations make. A
// UNIQUE or a CHECK that is not there any more lets in what nobody looks for; a
// trigger rewrites rows behind whoever writes them.
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
	for _, o := range c.Schema { // in its order
		if _, lost := want[key{o.Kind, o.Name}]; lost {
			c.found(schemaMissing, o.Kind+" "+o.Name, "it is not there any more")
		}
	}
	c.report.Checked["schema"] = int64(len(have))
	return c.constraints(have)
}

// constraints checks what rows of a table have to be by themselves, as the
// migrations say it where they are known.
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
