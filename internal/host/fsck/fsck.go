// Package fsck checks the rules that must always hold, as far as a database shows
// them. It only reads, and it works beside a running daemon.
//
// The audit log is the witness. fsck replays it, step by step, and compares the
// journal, the nonces and the provenance with it. docs/formats/fsck.md says what
// that can find and what it cannot.
package fsck

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
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

	// NotChecked names what a quick check did not look at. A whole check has none.
	NotChecked []string `json:"not_checked,omitempty"`
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
		{"rejections", logged("rejections", "requesters", "steps", "time_mark"), c.rejections},
		{"answers", []string{"idempotency", "jobs"}, c.answers},
		{"desired sets", logged("desired_sets"), c.sets},
	}
}

// Run checks everything in one read snapshot. An error means that the check itself
// failed.
func (o Checker) Run(tx *store.Tx) (Report, error) {
	c, err := o.begin(tx)
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

// begin is a check of a database of which only the names of its tables are known.
func (o Checker) begin(tx *store.Tx) (*check, error) {
	c := &check{Checker: o, tx: tx, tables: map[string]bool{}, lists: map[int64]*authz.Trust{},
		report: Report{Problems: []Problem{}, Checked: map[string]int64{}}, log: newHistory()}
	if c.Progress == nil {
		c.Progress = func(string, int64, int64) {}
	}
	var table string
	err := c.rows("", `SELECT name FROM sqlite_schema WHERE type = 'table'`, []any{&table}, func() { c.tables[table] = true })
	return c, cmp.Or(err, c.answered())
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

// schema checks the schema, and the rows against it.
func (c *check) schema() error {
	have, err := c.objects()
	if err != nil {
		return err
	}
	return c.constraints(have)
}

// objects compares the schema with that of the migrations. Without a UNIQUE or a
// CHECK, rows can be wrong that no other check reads. A trigger can change rows
// after the gate wrote them. It returns what is there.
func (c *check) objects() ([]store.Object, error) {
	have, err := c.tx.Schema()
	if err != nil {
		return nil, err
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
	return have, nil
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

// batchSize is how many values one goroutine prepares. With so many, starting it
// costs almost nothing.
const batchSize = 64

// inOrder prepares values on every processor and passes them on in their first
// order, so that a report does not depend on timing.
type inOrder[T any] struct {
	prepare func(*T) // several run at once
	take    func(T)  // one after the other
	batch   []T
	under   []chan []T // the batches in work, oldest first
}

func (o *inOrder[T]) put(v T) {
	if o.batch = append(o.batch, v); len(o.batch) == batchSize {
		o.start()
	}
}

// start prepares the batch. If every processor has one, it first takes the oldest.
func (o *inOrder[T]) start() {
	if len(o.under) >= runtime.GOMAXPROCS(0) {
		o.takeOldest()
	}
	batch, ready := o.batch, make(chan []T, 1) // so that a batch also ends if it is never taken
	o.batch, o.under = nil, append(o.under, ready)
	go func() {
		for i := range batch {
			o.prepare(&batch[i])
		}
		ready <- batch
	}()
}

func (o *inOrder[T]) takeOldest() {
	for _, v := range <-o.under[0] {
		o.take(v)
	}
	o.under = o.under[1:]
}

// finish takes all values that are not taken yet.
func (o *inOrder[T]) finish() {
	o.start()
	for len(o.under) > 0 {
		o.takeOldest()
	}
}

// print follows the output of steps that have ended.
func (c *check) print(id op.StepID, e audit.Entry) {
	switch e.Kind {
	case audit.Succeeded, audit.Failed, audit.Interrupted:
		if e.OutputSHA256 != "" {
			c.log.printed[id] = digestOf(e.OutputSHA256)
		}
	}
}

// outputs checks that the output of each step has the digest in the log, and that
// none is missing.
func (c *check) outputs() error {
	var id op.StepID
	var text []byte
	err := c.rows("outputs", `SELECT job, idx, text FROM outputs`, []any{&id.Job, &id.Index, &text}, func() {
		switch digest, known := c.log.printed[id]; {
		case !known:
			c.found(outputUnknown, id.String(), "by the audit log it printed nothing")
		case digest != sha256.Sum256(text):
			c.found(outputChanged, id.String(), "what it printed is not what the log has the digest of")
		}
		delete(c.log.printed, id)
	})
	for _, id := range stepsOf(c.log.printed) {
		c.found(outputLost, id.String(), "the log has the digest of what it printed, and that is not there")
	}
	return err
}

// provenance compares the journal's records of makers with the log.
func (c *check) provenance() error {
	err := journal.AllProvenance(c.tx, func(p op.Provenance) error {
		c.report.Checked["incarnations"]++
		where := p.Target.String() + " " + string(p.Incarnation)
		if made, ok := c.log.made[p.Incarnation]; ok {
			c.origin(where, p, made)
		} else {
			c.found(madeUnknown, where, "the audit log does not contain that this gate made it")
		}
		delete(c.log.made, p.Incarnation)
		return nil
	})
	for _, inc := range slices.Sorted(maps.Keys(c.log.made)) {
		c.found(madeLost, c.log.made[inc].target+" "+string(inc), "the audit log says that this gate made it, the journal does not")
	}
	return err
}

func (c *check) origin(where string, p op.Provenance, made making) {
	if made.Scratch != p.Scratch || !made.ScratchUntil.Equal(p.ScratchUntil) || !made.CreatedAt.Equal(p.CreatedAt) ||
		made.Creator != p.Creator || made.Agent != p.Agent || made.job != p.Job.String() || made.target != p.Target.String() || made.Content != p.Content {
		c.found(madeChanged, where, "the audit log says otherwise how it was made")
	}
	if c.log.promoted[p.Incarnation] != (p.ScratchEnded != "") {
		c.found(scratchEnd, where, "the audit log says otherwise whether it still is scratch")
	}
	if c.log.used[p.Incarnation] != (p.Used != "") {
		c.found(usedChanged, where, "the audit log says otherwise whether its own job may take it back")
	}
	for _, s := range p.Storage {
		if !slices.Contains(made.Storage, s.ID) || s.Job != p.Job {
			c.found(storageUnknown, where, "the audit log does not contain that storage %s was made for it", s.ID)
		}
	}
	if len(p.Storage) < len(made.Storage) {
		c.found(storageLost, where, "storage is missing that the audit log says was made for it")
	}
}
