package retention

import (
	"context"
	"fmt"

	"gated/internal/base/crashpoint"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// record writes the segment's row, its jobs and its entry in one transaction. From then on its jobs count as archived.
func (k *Keeper) record(ctx context.Context, p *planned, row audit.Segment) error {
	ranges := journal.RangesOf(p.Jobs)
	err := k.c.Store.Update(ctx, func(tx *store.Tx) error {
		if err := p.check(tx); err != nil {
			return err
		}
		if err := audit.AddSegment(tx, row); err != nil {
			return err
		}
		if err := journal.AddArchived(tx, row.Number, ranges); err != nil {
			return err
		}
		if err := journal.CloseSteps(tx, p.left()); err != nil {
			return err
		}
		if err := journal.OpenClosed(tx, ranges); err != nil {
			return err
		}
		e := audit.Entry{Kind: audit.Archived, By: "gate", Detail: row.File()}
		e.Segment = row.Part(journal.DigestRanges(ranges))
		err := k.c.Append(tx, e)
		crashpoint.Here(crashpoint.ArchiveWritten)
		return err
	})
	if err == nil {
		crashpoint.Here(crashpoint.ArchiveKept)
		k.c.Logger.Info("records that ended are archived", "file", row.File(), "entries", row.Last-row.First+1, "jobs", row.Jobs)
	}
	return err
}

// remove deletes some rows that a segment has: first of jobs, then one tile of entries. The file is read and checked whole
// before the first of them, after each start and after each error, and it has to be in its place each time.
func (k *Keeper) remove(ctx context.Context, row audit.Segment) error {
	if err := k.c.Dir.Look(row); err != nil {
		return err
	}
	s, err := k.c.Dir.Cached(row)
	if err != nil {
		return err
	}
	if k.of != row.Number {
		k.of, k.next, k.jobs = row.Number, 0, s.ByJob()
	}
	if k.next < len(k.jobs) {
		some := k.jobs[k.next:min(k.next+jobsAtOnce, len(k.jobs))]
		if err := k.removeJobs(ctx, row, some); err != nil {
			return err
		}
		k.next += len(some)
		return nil
	}
	err = k.c.Store.Update(ctx, func(tx *store.Tx) error {
		err := audit.RemoveTile(tx, row, s.Texts)
		crashpoint.Here(crashpoint.ArchiveDeleted)
		return err
	})
	crashpoint.Here(crashpoint.ArchiveGone)
	return err
}

// removeJobs deletes the rows of some jobs, if they are, value by value, those that the segment has.
func (k *Keeper) removeJobs(ctx context.Context, row audit.Segment, some []archive.JobRows) error {
	err := k.c.Store.Update(ctx, func(tx *store.Tx) error {
		for _, j := range some {
			if err := removeJob(tx, row, j); err != nil {
				return err
			}
		}
		crashpoint.Here(crashpoint.ArchiveDeleted)
		return nil
	})
	crashpoint.Here(crashpoint.ArchiveGone)
	return err
}

func removeJob(tx *store.Tx, row audit.Segment, j archive.JobRows) error {
	in, err := journal.SegmentOf(tx, j.ID)
	if err != nil {
		return err
	}
	rows, err := journal.DumpLike(tx, journal.Range{First: j.ID, Last: j.ID}, j.Rows)
	if err != nil {
		return err
	}
	switch {
	case in != row.Number:
		return fmt.Errorf("job %s is in %s, and by the database in segment %d", j.ID, row.File(), in)
	case archive.Same(rows, j.Rows):
		return journal.RemoveJob(tx, j.ID, rows)
	case archive.Left(rows, j.Rows, false):
		return nil // an earlier run deleted them
	}
	return fmt.Errorf("the rows of job %s are not those in %s; gated fsck says more", j.ID, row.File())
}
