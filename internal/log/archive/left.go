package archive

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// Left reports whether rows of a job are what journal.RemoveJob leaves of those in its segment. Before the first entry of the
// segment went, which is after all its jobs, all of its rows may still be there.
func Left(here, segment []journal.Dump, whole bool) bool {
	return whole && Same(here, segment) || Same(here, journal.Stay(segment))
}

// JobRows are the rows of one job, with all tables.
type JobRows struct {
	ID   op.JobID
	Rows []journal.Dump
}

// ByJob returns the jobs of the segment in order.
func (s *Segment) ByJob() []JobRows { return byJob(s.Numbers(), s.Rows) }

// ByJob returns the rows of each job of a range, in order.
func ByJob(r journal.Range, dumps []journal.Dump) []JobRows {
	return byJob(Manifest{Jobs: []Span{{int64(r.First), int64(r.Last)}}}.Numbers(), dumps)
}

// byJob shares rows out among jobs.
func byJob(ids []op.JobID, dumps []journal.Dump) (out []JobRows) {
	_, column := journal.JobTables()
	at := map[op.JobID]int{}
	for i, id := range ids {
		at[id] = i
		j := JobRows{ID: id}
		for _, d := range dumps {
			j.Rows = append(j.Rows, journal.Dump{Table: d.Table, Columns: d.Columns})
		}
		out = append(out, j)
	}
	for i, d := range dumps {
		of := slices.Index(d.Columns, column[d.Table])
		for _, row := range d.Rows {
			id, _ := row[of].(int64)
			if n, ok := at[op.JobID(id)]; ok {
				out[n].Rows[i].Rows = append(out[n].Rows[i].Rows, row)
			}
		}
	}
	return out
}

// Stays counts the rows of the segment's jobs that stay in the database.
func (s *Segment) Stays() (n int) {
	for _, j := range s.ByJob() {
		for _, d := range journal.Stay(j.Rows) {
			n += len(d.Rows)
		}
	}
	return n
}

// Kept counts the entries of the segment that stay in the database.
func (s *Segment) Kept() (n int) {
	return len(s.Texts) - len(slices.DeleteFunc(slices.Clone(s.Texts), audit.Keeps))
}
