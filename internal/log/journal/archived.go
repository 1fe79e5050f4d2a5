package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// SchemaArchived adds which jobs are in segment files, as ranges of their numbers, and which steps ended in an entry that
// is in a segment although their job is in none yet.
const SchemaArchived = `
CREATE TABLE archived_jobs(
	first   INTEGER PRIMARY KEY,
	last    INTEGER NOT NULL,
	segment INTEGER NOT NULL
) STRICT;
CREATE TABLE closed_steps(
	job INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	PRIMARY KEY(job, idx)
) STRICT, WITHOUT ROWID;
`

// SchemaArchiving adds what archiving remembers over a start.
const SchemaArchiving = `
CREATE TABLE archiving(
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	away  INTEGER NOT NULL,
	ran   INTEGER NOT NULL,
	place TEXT NOT NULL
) STRICT;
`

// Archiving is what archiving remembers over a start.
type Archiving struct {
	// Away is how far the wall clock went on while no daemon ran, and Ran how long one ran since, by the time since boot. Both
	// begin anew when Ran is long enough.
	Away, Ran time.Duration
	Place     string // what the directory of the segment files is known by; "" until there is one
}

// ReadArchiving returns what WriteArchiving wrote last, the zero value if it never did.
func ReadArchiving(tx *store.Tx) (a Archiving, err error) {
	err = tx.QueryRow(`SELECT away, ran, place FROM archiving`).Scan(&a.Away, &a.Ran, &a.Place)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return a, err
}

// WriteArchiving replaces what archiving remembers.
func WriteArchiving(tx *store.Tx, a Archiving) error {
	_, err := tx.Exec(`INSERT INTO archiving(id, away, ran, place) VALUES(1, ?, ?, ?)
		ON CONFLICT(id) DO UPDATE SET away = excluded.away, ran = excluded.ran, place = excluded.place`, int64(a.Away), int64(a.Ran), a.Place)
	return err
}

// Range is a run of jobs, both ends included.
type Range struct {
	First op.JobID `json:"first"`
	Last  op.JobID `json:"last"`
}

// RangesOf returns the fewest ranges that have exactly these jobs, which are in order and each once.
func RangesOf(jobs []op.JobID) (out []Range) {
	for _, id := range jobs {
		if n := len(out); n > 0 && out[n-1].Last+1 == id {
			out[n-1].Last = id
			continue
		}
		out = append(out, Range{id, id})
	}
	return out
}

// DigestRanges is the hex SHA-256 that the audit log has of a segment's jobs.
func DigestRanges(all []Range) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%d-%d\n", r.First, r.Last)
	}
	return op.SHA256([]byte(b.String()))
}

// AddArchived records that a segment has the jobs of these ranges. A job is in one segment alone.
func AddArchived(tx *store.Tx, segment int64, all []Range) error {
	for _, r := range all {
		_, err := tx.Exec(`INSERT INTO archived_jobs(first, last, segment) VALUES(?, ?, ?)`, int64(r.First), int64(r.Last), segment)
		if err != nil {
			return fmt.Errorf("record archived jobs: %w", err)
		}
		if err := addRun(tx, r); err != nil {
			return fmt.Errorf("pass archived jobs: %w", err)
		}
	}
	return nil
}

// SegmentOf returns the number of the segment that has a job, 0 if none has it.
func SegmentOf(tx *store.Tx, job op.JobID) (segment int64, err error) {
	var last int64
	err = tx.QueryRow(`SELECT last, segment FROM archived_jobs WHERE first <= ? ORDER BY first DESC LIMIT 1`, int64(job)).Scan(&last, &segment)
	if errors.Is(err, sql.ErrNoRows) || err == nil && last < int64(job) {
		return 0, nil
	}
	return segment, err
}

// ArchivedRanges returns the ranges of a segment, and for 0 those of all, in order.
func ArchivedRanges(tx *store.Tx, segment int64) (out []Range, err error) {
	rows, err := tx.Query(`SELECT first, last FROM archived_jobs WHERE ? IN (0, segment) ORDER BY first`, segment)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r Range
		if err := rows.Scan(&r.First, &r.Last); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// InRanges reports whether ordered ranges have a job.
func InRanges(all []Range, job op.JobID) bool {
	_, found := slices.BinarySearchFunc(all, job, func(r Range, id op.JobID) int {
		switch {
		case r.Last < id:
			return -1
		case r.First > id:
			return 1
		}
		return 0
	})
	return found
}

// archivedOr is the refusal of a job that a segment has, and otherwise if none has it.
func archivedOr(tx *store.Tx, job op.JobID, otherwise error) error {
	segment, err := SegmentOf(tx, job)
	if err != nil {
		return err
	}
	if segment == 0 {
		return otherwise
	}
	return refusal.New(refusal.UnknownTarget, "job %s is archived in segment %d", job, segment).WithHint("gated archive show %s prints it", job)
}

// CloseSteps records steps whose last entry is in a segment, and whose job is not.
func CloseSteps(tx *store.Tx, all []op.StepID) error {
	for _, id := range all {
		if _, err := tx.Exec(`INSERT INTO closed_steps(job, idx) VALUES(?, ?) ON CONFLICT DO NOTHING`, int64(id.Job), id.Index); err != nil {
			return err
		}
	}
	return nil
}

// OpenClosed forgets the closed steps of jobs that a segment has now.
func OpenClosed(tx *store.Tx, all []Range) error {
	for _, r := range all {
		if _, err := tx.Exec(`DELETE FROM closed_steps WHERE job BETWEEN ? AND ?`, int64(r.First), int64(r.Last)); err != nil {
			return err
		}
	}
	return nil
}

// ClosedSteps returns what CloseSteps recorded, in order.
func ClosedSteps(tx *store.Tx) ([]op.StepID, error) {
	return readStepIDs(tx, `SELECT job, idx FROM closed_steps ORDER BY job, idx LIMIT ?`, -1)
}

// Referred are the jobs that other rows refer to, by the kind of row: a nonce that may still be presented or is
// remembered, a key of a submission that may be sent again, a rejection that later asks are compared with, a showing that the
// gate still deletes, an incident of break-glass, and the drills that are shown. Jobs outside the range are left out.
func Referred(tx *store.Tx, in Range) (map[op.JobID]string, error) {
	out := map[op.JobID]string{}
	for _, q := range []struct{ why, query string }{
		{"its nonce is not forgotten yet", `SELECT DISTINCT job FROM nonces WHERE job <> 0 AND job BETWEEN ? AND ?`},
		{"a submission with its idempotency key would be answered with it", `SELECT DISTINCT job FROM idempotency WHERE job <> 0 AND job BETWEEN ? AND ?`},
		{"its rejection is compared with later requests", `SELECT DISTINCT job FROM rejections WHERE job BETWEEN ? AND ?`},
		{"an operator was shown it, and the next round forgets that first", `SELECT DISTINCT job FROM showings WHERE job BETWEEN ? AND ?`},
		{"break-glass approved it", `SELECT DISTINCT job FROM incidents WHERE job BETWEEN ? AND ?`},
		{"it is the newest drill of its kind", `SELECT max(job) FROM steps WHERE kind = 'drill' GROUP BY state HAVING max(job) BETWEEN ? AND ?`},
	} {
		ids, err := readIDs(tx, q.query, int64(in.First), int64(in.Last))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			out[id] = q.why
		}
	}
	return out, nil
}

// Needed returns why a job has to stay, "" if it may go to a segment. closed reports whether a step's last entry is in a
// segment. referred is Referred.
func Needed(tx *store.Tx, job op.JobID, before time.Time, closed func(op.StepID) bool, referred map[op.JobID]string) (why string, err error) {
	var finished int64
	err = tx.QueryRow(`SELECT finished_at FROM jobs WHERE id = ?`, int64(job)).Scan(&finished)
	if err != nil {
		return "", fmt.Errorf("read job %s: %w", job, err)
	}
	if why := neededJob(job, finished, before, referred); why != "" {
		return why, nil
	}
	rows, err := tx.Query(`SELECT idx, state, wish <> '' FROM steps WHERE job = ?`, int64(job))
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		id := op.StepID{Job: job}
		var state op.State
		var wish bool
		if err := rows.Scan(&id.Index, &state, &wish); err != nil {
			return "", err
		}
		if why := neededStep(id, state, wish, closed); why != "" {
			return why, nil
		}
	}
	return "", rows.Err()
}

// neededJob is why a job has to stay by its own row, or by rows that refer to it.
func neededJob(job op.JobID, finished int64, before time.Time, referred map[op.JobID]string) string {
	switch {
	case finished == 0:
		return "it is open"
	case finished > before.UnixNano():
		return fmt.Sprintf("it says that it ended at %s", fromNano(finished).Format(time.RFC3339))
	}
	return referred[job]
}

// neededStep is why a job has to stay by one of its steps.
func neededStep(id op.StepID, state op.State, wish bool, closed func(op.StepID) bool) string {
	switch {
	case state.Open():
		return "it is open"
	case state == op.StateRejected && wish:
		return "its rejection stands"
	case !closed(id):
		return "its last entry is not archived yet"
	}
	return ""
}

// Dump is all rows of a table that belong to some jobs, as SQLite has them: int64, string, []byte or nil.
type Dump struct {
	Table   string
	Columns []string
	Rows    [][]any
}

// jobTable is a table with rows of jobs.
type jobTable struct{ name, job, order string }

// jobTables are in the order in which rows can be inserted.
var jobTables = []jobTable{
	{"jobs", "id", "id"},
	{"requesters", "job", "job, who"},
	{"steps", "job", "job, idx"},
	{"requests", "job", "job, idx"},
	{"signatures", "job", "job, idx, principal"},
	{"proofs", "job", "job, idx, role, key"},
	{"showings", "job", "job, idx"},
	{"outputs", "job", "job, idx"},
}

// JobTables returns the names of the tables that a Dump has, in its order, and of each the column with the job.
func JobTables() (names []string, job map[string]string) {
	job = map[string]string{}
	for _, t := range jobTables {
		names, job[t.name] = append(names, t.name), t.job
	}
	return names, job
}

// DumpJob returns all rows of a job.
func DumpJob(tx *store.Tx, job op.JobID) ([]Dump, error) { return DumpRange(tx, Range{job, job}) }

// DumpRange returns all rows of a range of jobs. Of an empty range it has the tables and columns alone.
func DumpRange(tx *store.Tx, r Range) ([]Dump, error) {
	var out []Dump
	for _, t := range jobTables {
		columns, err := columnsOf(tx, t.name)
		if err != nil {
			return nil, err
		}
		d := Dump{Table: t.name, Columns: columns}
		query := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + t.name + ` WHERE ` + t.job + ` >= ? AND ` + t.job + ` <= ? ORDER BY ` + t.order
		if d.Rows, err = dump(tx, d.Rows, len(columns), query, int64(r.First), int64(r.Last)); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// DumpLike is DumpRange with the columns that like has, which is of a segment. The database may have columns that came later. Of a
// segment's rows they have their default. A row in which one has another value gets that value, and so is like none of the segment.
func DumpLike(tx *store.Tx, r Range, like []Dump) (out []Dump, err error) {
	for _, l := range like {
		at := slices.IndexFunc(jobTables, func(t jobTable) bool { return t.name == l.Table })
		if at < 0 {
			return nil, fmt.Errorf("a segment has rows of %s, which is no table of jobs", l.Table)
		}
		t := jobTables[at]
		later, err := laterColumns(tx, l)
		if err != nil {
			return nil, err
		}
		d := Dump{Table: l.Table, Columns: l.Columns}
		query := `SELECT ` + strings.Join(append(slices.Clone(l.Columns), later...), ", ") + ` FROM ` + t.name +
			` WHERE ` + t.job + ` >= ? AND ` + t.job + ` <= ? ORDER BY ` + t.order
		if d.Rows, err = dump(tx, nil, len(l.Columns)+len(later), query, int64(r.First), int64(r.Last)); err != nil {
			return nil, err
		}
		for i, row := range d.Rows {
			if !slices.Contains(row[len(l.Columns):], any(int64(1))) {
				d.Rows[i] = row[:len(l.Columns)]
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// laterColumns returns, for each column that the table has and the dump has not, an expression that is 1 if it has not its default.
func laterColumns(tx *store.Tx, d Dump) (out []string, err error) {
	rows, err := tx.Query(`SELECT name, coalesce(dflt_value, 'NULL') FROM pragma_table_info(?) ORDER BY cid`, d.Table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		var name, usual string
		if err := rows.Scan(&name, &usual); err != nil {
			return nil, err
		}
		if slices.Contains(d.Columns, name) {
			found++
			continue
		}
		out = append(out, `(`+name+` IS NOT (`+usual+`))`)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if found != len(d.Columns) {
		return nil, fmt.Errorf("a segment has %d columns of %s, and the database has %d of them", len(d.Columns), d.Table, found)
	}
	return out, nil
}

func columnsOf(tx *store.Tx, table string) (out []string, err error) {
	rows, err := tx.Query(`SELECT name FROM pragma_table_info(?) ORDER BY cid`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

func dump(tx *store.Tx, out [][]any, columns int, query string, args ...any) ([][]any, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row := make([]any, columns)
		into := make([]any, columns)
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// CountArchived counts the rows that the database has of the jobs of a segment.
func CountArchived(tx *store.Tx, segment int64) (n int, err error) {
	for _, t := range jobTables {
		var some int
		err := tx.QueryRow(`SELECT count(*) FROM archived_jobs a JOIN `+t.name+` t ON t.`+t.job+` BETWEEN a.first AND a.last
			WHERE a.segment = ?`, segment).Scan(&some)
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// Keeps are the tables of which a job's rows may stay after it was archived, because provenance, the trash and copies of
// guests are judged by them: who asked for the job, when, and which steps it had.
var Keeps = []string{"jobs", "requesters", "steps"}

// keeping are the operations of which a job's rows of Keeps stay. fsck compares what is left of each segment with this list, so
// it may only become longer together with a rule for the segments from before.
var keeping = []string{"guest.create", "guest.clone", "guest.undelete", "guest.destroy", "guest.snapshot", "guest.backup"}

// Stay returns what RemoveJob leaves of a job with these rows: the rows of Keeps if a step of it made, destroyed or copied a guest,
// and nothing otherwise. All tables are there.
func Stay(rows []Dump) (out []Dump) {
	stays := slices.ContainsFunc(rows, func(d Dump) bool {
		return d.Table == "steps" && slices.ContainsFunc(d.Rows, func(row []any) bool {
			name, _ := row[slices.Index(d.Columns, "op")].(string)
			birth, _ := row[slices.Index(d.Columns, "birth")].(string)
			return birth != "" || slices.Contains(keeping, name)
		})
	})
	for _, d := range rows {
		if !stays || !slices.Contains(Keeps, d.Table) {
			d.Rows = nil
		}
		out = append(out, d)
	}
	return out
}

// RemoveJob deletes the rows of an archived job, which rows has all, but for those that Stay leaves.
func RemoveJob(tx *store.Tx, job op.JobID, rows []Dump) error {
	left := map[string]bool{}
	for _, d := range Stay(rows) {
		left[d.Table] = len(d.Rows) > 0
	}
	for _, t := range slices.Backward(jobTables) {
		if left[t.name] {
			continue
		}
		if _, err := tx.Exec(`DELETE FROM `+t.name+` WHERE `+t.job+` = ?`, int64(job)); err != nil {
			return fmt.Errorf("delete archived rows of %s: %w", t.name, err)
		}
	}
	return nil
}
