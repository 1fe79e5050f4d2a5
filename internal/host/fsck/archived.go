package fsck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// archived is what a check knows of segments.
type archived struct {
	all    []audit.Segment
	bound  int64                       // the newest entry that is in a segment alone
	next   int                         // the first of all whose last entry was not learned yet
	ranges []journal.Range             // of all archived jobs
	logged map[int64]audit.SegmentPart // by number, as the log tells of them
	kept   []int64                     // entries that have to be in audit_kept, as the segments tell
	ended  map[op.StepID]bool          // steps that have to be in closed_steps, as the segments tell
	blind  bool                        // a segment cannot be read, so nothing can be compared with the log
	rows   *store.Store                // a database of its own for the rows of one segment; nil until it is needed
	end    func() error
}

// openArchive reads which segments and archived jobs the database names.
func (c *check) openArchive() (err error) {
	c.archive.logged, c.archive.ended = map[int64]audit.SegmentPart{}, map[op.StepID]bool{}
	if !c.has("segments", "archived_jobs") {
		return nil
	}
	if c.archive.all, err = audit.Segments(c.tx); err != nil {
		return err
	}
	if c.archive.ranges, err = journal.ArchivedRanges(c.tx, 0); err != nil {
		return err
	}
	bound, err := audit.Bound(c.tx)
	c.archive.bound = bound.Seq
	return err
}

// closeArchive removes the database of its own.
func (c *check) closeArchive() error {
	if c.archive.end == nil {
		return nil
	}
	return c.archive.end()
}

// gone reports whether a segment has the job. segment compares the rows that may still be here.
func (c *check) gone(job op.JobID) bool { return journal.InRanges(c.archive.ranges, job) }

// older returns what reads entries of segments. Without it, a log with such entries cannot be replayed.
func (c *check) older() (audit.Older, error) {
	if len(c.archive.all) == 0 {
		return nil, nil
	}
	if c.Archive == nil {
		c.blindBy(audit.NotAtHand(c.archive.all[0]))
		return nil, nil
	}
	if c.archive.bound == 0 {
		return nil, nil
	}
	return c.Archive, nil
}

// blindBy reports the segment without which nothing can be compared with the log.
func (c *check) blindBy(why error) {
	c.archive.blind = true
	r := refusal.As(why)
	code := segmentDamaged
	if r.Code == refusal.Unavailable {
		code = segmentMissing
	}
	c.found(code, "archive", "%s; nothing else can be compared with the log", r.Detail)
}

// missed reports whether the walk ended before the entries that the table audit has. What only segments have told cannot be
// compared then.
func (c *check) missed() bool {
	var first int64
	err := c.rows("", `SELECT coalesce(min(seq), 1) FROM audit`, []any{&first}, func() {})
	c.archive.blind = err != nil || c.log.last < first-1
	return c.archive.blind
}

// archivedEntry follows an entry that tells of a segment, and checks the rows of each segment whose last entry was learned.
func (c *check) archivedEntry(e audit.Entry) error {
	if e.Kind == audit.Archived {
		if _, again := c.archive.logged[e.Segment.Number]; again {
			c.found(segmentUnknown, entry(e), "the log tells twice of segment %d", e.Segment.Number)
		}
		c.archive.logged[e.Segment.Number] = e.Segment
	}
	c.staysOf(e)
	for c.archive.next < len(c.archive.all) && c.archive.all[c.archive.next].Last <= e.Seq {
		s := c.archive.all[c.archive.next]
		c.archive.next++
		if err := c.segment(s); err != nil {
			return err
		}
	}
	return nil
}

// segment checks the jobs of a segment: its rows against the log, and what the database still has of them against its rows.
func (c *check) segment(row audit.Segment) error {
	s, err := c.Archive.Cached(row)
	if err != nil {
		return err
	}
	c.report.Checked["segments"]++
	c.report.Checked["archived jobs"] += int64(row.Jobs)
	have, err := journal.ArchivedRanges(c.tx, row.Number)
	if err != nil {
		return err
	}
	if !slices.Equal(have, s.Ranges()) {
		c.found(archivedChanged, row.File(), "the database counts other jobs as archived in it than it has")
	}
	if err := c.leftRows(row, s); err != nil {
		return err
	}
	return c.segmentRows(s)
}

// leftRows compares what the database still has of archived jobs with the segment.
func (c *check) leftRows(row audit.Segment, s *archive.Segment) error {
	if row.Kept >= 0 && row.Kept != s.Kept() || row.Stays >= 0 && row.Stays != s.Stays() {
		c.found(archivedChanged, row.File(), "the database counts other entries or rows that stay of it than it has")
	}
	jobs := s.ByJob()
	for _, r := range s.Ranges() {
		left, err := journal.DumpLike(c.tx, r, s.Rows)
		if err != nil {
			return err
		}
		for _, here := range archive.ByJob(r, left) {
			if !archive.Left(here.Rows, jobs[0].Rows, c.archive.bound < row.First) {
				c.found(archivedChanged, here.ID.String(), "it is archived in %s, and the database has other rows of it than stay", row.File())
			}
			jobs = jobs[1:]
		}
	}
	return nil
}

// staysOf remembers what has to stay in the database of an entry that is in a segment: the entry itself, or that a step of a job
// which no segment has ended in it.
func (c *check) staysOf(e audit.Entry) {
	if e.Seq <= c.archive.bound && e.Kind.Kept() {
		c.archive.kept = append(c.archive.kept, e.Seq)
	}
	if n := len(c.archive.all); n == 0 || e.Seq > c.archive.all[n-1].Last {
		return
	}
	to := op.TransitionOf(string(e.Kind)).To
	if id, err := op.ParseStepID(e.Step); err == nil && to != "" && !to.Open() && ofStep(e) && !c.gone(id.Job) {
		c.archive.ended[id] = true
	}
}

// keptEntries compares the entries that stay with those of the segments.
func (c *check) keptEntries() error {
	kept, err := audit.KeptEntries(c.tx) // each is the one of its tile, or an error
	if err != nil {
		return err
	}
	var have []int64
	for _, e := range kept {
		have = append(have, e.Seq)
	}
	if !slices.Equal(have, c.archive.kept) {
		c.found(entryBroken, "kept entries", "the database keeps %d entries of segments, and these have %d that stay", len(have), len(c.archive.kept))
	}
	return nil
}

// withoutFiles checks what the database shows of its segments if one cannot be read: that the log is whole from the bound on, with
// the tiles before it and the entries that are kept, and how many rows stay.
func (c *check) withoutFiles() error {
	_, err := audit.Verify(c.tx, nil)
	var broken *audit.BrokenError
	switch said := func(p Problem) bool { return p.Code == entryBroken }; {
	case errors.As(err, &broken) && !slices.ContainsFunc(c.report.Problems, said):
		c.found(entryBroken, fmt.Sprintf("entry %d", broken.Seq), "%s", broken.Why)
	case errors.Is(err, store.ErrUnavailable):
		return err
	case broken == nil && err != nil:
		c.found(unreadable, logPart, "it cannot be read whole: %v", err)
	}
	return c.counted()
}

// counted compares, without a segment's file, how many rows of its jobs are there with how many were to stay, and which jobs a list
// passes with those that segments have.
func (c *check) counted() error {
	if !c.has("segments", "archived_jobs") {
		return nil
	}
	for _, s := range c.archive.all {
		if s.Stays < 0 || s.First > c.archive.bound {
			continue // it is not known, or not all rows that go went yet
		}
		n, err := journal.CountArchived(c.tx, s.Number)
		if err != nil {
			return err
		}
		if n != s.Stays {
			c.found(archivedChanged, s.File(), "of its jobs the database has %d rows, and %d were to stay", n, s.Stays)
		}
	}
	if !c.has("archived_runs") {
		return nil
	}
	return c.runs()
}

// segmentRows checks rows as those of the database are checked, with the part of the history that is about their jobs. The
// history then forgets that part.
func (c *check) segmentRows(s *archive.Segment) error {
	if len(s.Jobs) == 0 {
		return nil
	}
	if err := c.load(s.Rows); err != nil {
		c.found(segmentDamaged, fmt.Sprintf("segment %d", s.Number), "its rows are none of a gate's database: %v", err)
		return nil
	}
	// The walk is not at the end of the log yet: a payload of a gate id before a restore cannot be replayed, and its nonce may be gone.
	gate := c.log.gate
	if c.has("gate_identity") {
		if err := c.rows("", `SELECT gate FROM gate_identity`, []any{&gate}, func() {}); err != nil {
			return err
		}
	}
	return c.archive.rows.View(context.Background(), func(tx *store.Tx) error {
		sub := *c
		sub.tx, sub.main, sub.log = tx, c.tx, c.log.part(s.Ranges())
		sub.log.gate = gate
		sub.archive = archived{}
		for _, run := range []func() error{sub.requests, sub.nonces, sub.steps, sub.outputs, sub.jobs, sub.requesters} {
			if err := run(); err != nil {
				return err
			}
		}
		c.report.Problems = sub.report.Problems
		return nil
	})
}

// load puts the rows of a segment into a database of their own, with the time mark of the checked one.
func (c *check) load(dumps []journal.Dump) error {
	if err := c.openRows(); err != nil {
		return err
	}
	var unix int64
	if err := c.rows("", `SELECT unix FROM time_mark`, []any{&unix}, func() {}); err != nil {
		return err
	}
	return c.archive.rows.Update(context.Background(), func(tx *store.Tx) error {
		for _, d := range slices.Backward(dumps) {
			if _, err := tx.Exec(`DELETE FROM ` + d.Table); err != nil {
				return err
			}
		}
		for _, d := range dumps {
			query := `INSERT INTO ` + d.Table + `(` + strings.Join(d.Columns, ", ") + `) VALUES(?` + strings.Repeat(", ?", len(d.Columns)-1) + `)`
			for _, row := range d.Rows {
				if _, err := tx.Exec(query, row...); err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec(`INSERT OR REPLACE INTO time_mark(id, unix) VALUES(1, ?)`, unix)
		return err
	})
}

func (c *check) openRows() error {
	if c.archive.rows != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "gated-fsck-")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "rows.db")
	b, err := blank(c.Migrations)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s, err := store.Open(context.Background(), file, store.Options{Migrations: c.Migrations})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	c.archive.rows = s
	c.archive.end = func() error { return errors.Join(s.Close(), os.RemoveAll(dir)) }
	return nil
}

// segments checks that the log tells of each segment, as the database has it, and of no other.
func (c *check) segments() error {
	for _, s := range c.archive.all {
		ranges, err := journal.ArchivedRanges(c.tx, s.Number)
		if err != nil {
			return err
		}
		switch said, known := c.archive.logged[s.Number]; {
		case !known:
			c.found(segmentUnknown, fmt.Sprintf("segment %d", s.Number), "the log does not tell of it")
		case said != s.Part(journal.DigestRanges(ranges)):
			c.found(segmentUnknown, fmt.Sprintf("segment %d", s.Number), "the log tells of another file, other entries or other jobs")
		}
		delete(c.archive.logged, s.Number)
	}
	var first, last, segment int64
	err := c.rows("", `SELECT first, last, segment FROM archived_jobs a WHERE first < 1 OR last < first
			OR NOT EXISTS(SELECT 1 FROM segments s WHERE s.number = a.segment)
			OR EXISTS(SELECT 1 FROM archived_jobs b WHERE b.first > a.first AND b.first <= a.last)`, []any{&first, &last, &segment}, func() {
		c.found(archivedChanged, fmt.Sprintf("jobs %d to %d", first, last), "the database counts them as archived in segment %d, which has them not", segment)
	})
	if err != nil {
		return err
	}
	for number := range c.archive.logged {
		c.found(segmentUnknown, fmt.Sprintf("segment %d", number), "the log tells of it, and the database does not know it")
	}
	if err := c.keptEntries(); err != nil {
		return err
	}
	return c.closedSteps()
}

// runs checks that a list of jobs passes exactly those that segments have.
func (c *check) runs() error {
	wrong, err := journal.WrongRuns(c.tx)
	for _, r := range wrong {
		c.found(archivedChanged, fmt.Sprintf("jobs %s to %s", r.First, r.Last), "a list of jobs does not pass just those that segments have")
	}
	return err
}

// closedSteps checks that exactly those steps are recorded as ended which ended in a segment and of which none has the job.
func (c *check) closedSteps() error {
	var id op.StepID
	err := c.rows("", `SELECT job, idx FROM closed_steps`, []any{&id.Job, &id.Index}, func() {
		if !c.archive.ended[id] {
			c.found(archivedChanged, id.String(), "it is recorded as ended and not archived, and the audit log says otherwise")
		}
		delete(c.archive.ended, id)
	})
	for id := range c.archive.ended {
		c.found(archivedChanged, id.String(), "it ended in an archived entry, and the database does not record that, so its job would never be archived")
	}
	return err
}

// part returns the history of some jobs, and forgets it.
func (h *history) part(jobs []journal.Range) history {
	out := *h
	of := func(id op.StepID) bool { return journal.InRanges(jobs, id.Job) }
	ofJob := func(id op.JobID) bool { return journal.InRanges(jobs, id) }
	out.steps, out.approved, out.counted = take(h.steps, of), take(h.approved, of), take(h.counted, of)
	out.reissued, out.needs, out.issued = take(h.reissued, of), take(h.needs, of), take(h.issued, of)
	out.printed, out.rejected, out.scopes = take(h.printed, of), take(h.rejected, of), take(h.scopes, of)
	for id, scope := range out.scopes {
		if out.steps[id].ran {
			h.ranOn[id] = scope // a scope names its last step for ever
		}
	}
	out.wanted, out.withdrawn = take(h.wanted, ofJob), take(h.withdrawn, ofJob)
	return out
}

// take moves what fits into a map of its own.
func take[K comparable, V any](from map[K]V, fits func(K) bool) map[K]V {
	out := map[K]V{}
	for k, v := range from {
		if fits(k) {
			out[k] = v
			delete(from, k)
		}
	}
	return out
}
