package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// planned is the next segment.
type planned struct {
	archive.Plan
	bytes  int64
	before time.Time          // older than this may go
	closed map[op.StepID]bool // steps whose last entry is in this segment or an earlier one
	ended  []op.StepID        // those of this segment
	large  string             // a job that no segment takes
}

// plan chooses the next segment, nil if nothing may go now. The state gets the reason.
func (k *Keeper) plan(ctx context.Context, last audit.Segment, s *State) (p *planned, err error) {
	return p, k.c.Store.View(ctx, func(tx *store.Tx) error {
		p = &planned{before: k.c.Moment().Mark.Add(-k.c.After), closed: map[op.StepID]bool{}}
		p.Gate, p.Schema, p.Number, p.First, p.Prev = k.c.Gate, k.c.Schema, last.Number+1, last.Last+1, last.Hash
		if err := k.entries(tx, p, s); err != nil || len(p.Texts) == 0 {
			p = nil
			return err
		}
		if p.Edge, err = audit.EdgeAt(tx, last.Last); err != nil {
			return err
		}
		return p.jobs(tx, s)
	})
}

// entries takes whole tiles of entries that are old enough. It ends at the first one that is not, because a segment has no
// gaps.
func (k *Keeper) entries(tx *store.Tx, p *planned, s *State) error {
	head, err := audit.ReadHead(tx)
	if err != nil {
		return err
	}
	signed, err := audit.SignedHead(tx)
	if err != nil {
		return err
	}
	for range mostTiles {
		after := p.First - 1 + int64(len(p.Texts))
		switch {
		case after+audit.TileWidth > head.Seq-k.c.Keep:
			say(&s.Waits, "the newest %d entries stay, and the others are less than a tile of %d", k.c.Keep, audit.TileWidth)
			return nil
		case after+audit.TileWidth > signed.Size:
			say(&s.Held, "the head that the gate signed last has %d entries, and only what it covers may go", signed.Size)
			return nil
		}
		texts, err := audit.Bodies(tx, after, audit.TileWidth)
		if err != nil {
			return err
		}
		if ok, err := k.old(p, texts, s); err != nil || !ok {
			return err
		}
		p.Texts = append(p.Texts, texts...)
		if p.bytes > mostEntries {
			return nil
		}
	}
	return nil
}

// old reports whether all entries of a tile may go, and follows which steps end in them.
func (k *Keeper) old(p *planned, texts [][]byte, s *State) (bool, error) {
	if len(texts) != audit.TileWidth {
		return false, errors.New("the audit log has a gap; gated audit verify says where")
	}
	var ended []op.StepID
	bytes := int64(0)
	for i, text := range texts {
		e, err := audit.Decode(text)
		switch {
		case err != nil:
			say(&s.Held, "entry %d does not decode (%v), and a segment has no gaps, so nothing from it on is archived; gated fsck says more",
				p.First+int64(len(p.Texts)+i), err)
			return false, nil
		case e.Time.After(k.c.Moment().Now):
			say(&s.Held, "entry %d says that it is of %s, which is not yet: the clock was wrong; nothing after it is archived before then", e.Seq, e.Time.Format(time.RFC3339))
			return false, nil
		case e.Time.After(p.before):
			say(&s.Waits, "entry %d is of %s, which is not old enough", e.Seq, e.Time.Format(time.RFC3339))
			return false, nil
		case len(text) > audit.MaxEntry:
			say(&s.Held, "entry %d has more bytes than a bundle of entries can have (%d); nothing from it on is archived, and the database keeps it", e.Seq, audit.MaxEntry)
			return false, nil
		}
		if id, ok := ends(e); ok {
			ended = append(ended, id)
		}
		bytes += int64(len(text)) + 64
	}
	p.bytes += bytes
	p.ended = append(p.ended, ended...)
	return true, nil
}

// ends returns the step whose last entry this is. No transition leaves a closed state.
func ends(e audit.Entry) (op.StepID, bool) {
	t := op.TransitionOf(string(e.Kind))
	if t.To == "" || t.To.Open() || e.Kind == audit.Refused && e.Class == "" {
		return op.StepID{}, false
	}
	id, err := op.ParseStepID(e.Step)
	return id, err == nil
}

// jobs chooses the jobs that may go: all of their steps end in this segment or an earlier one, and nothing needs them.
func (p *planned) jobs(tx *store.Tx, s *State) error {
	known, err := journal.ClosedSteps(tx)
	if err != nil {
		return err
	}
	candidates := map[op.JobID]bool{}
	for _, id := range append(known, p.ended...) {
		p.closed[id], candidates[id.Job] = true, true
	}
	referred, err := journal.Referred(tx, journal.AllJobs)
	if err != nil {
		return err
	}
	s.Left, s.Why, s.Odd = 0, "", ""
	for _, id := range slices.Sorted(maps.Keys(candidates)) {
		why, odd, err := p.take(tx, id, referred)
		if err != nil {
			return err
		}
		if odd != "" {
			say(&s.Odd, "job %s cannot be archived and stays: %s", id, odd)
			why = odd
		}
		if why != "" {
			s.Left++
			say(&s.Why, "%s: %s", id, why)
		}
	}
	s.Large = p.large
	return p.fill(tx)
}

func (p *planned) isClosed(id op.StepID) bool { return p.closed[id] }

// take takes a job with its rows, or returns why it stays. odd is a reason that is no order: an operator has to look. Other jobs go
// on. An error is of the database, which can be read later or not at all.
func (p *planned) take(tx *store.Tx, id op.JobID, referred map[op.JobID]string) (why, odd string, err error) {
	why, err = journal.Needed(tx, id, p.before, p.isClosed, referred)
	if errors.Is(err, store.ErrUnavailable) {
		return "", "", err
	}
	if err != nil {
		return "", fmt.Sprintf("its rows cannot be read (%v); gated fsck says more", err), nil
	}
	if why == "" && (len(p.Jobs) == mostJobs || p.bytes > mostEntries+mostRows) {
		why = "the next segment will have it"
	}
	if why != "" {
		return why, "", nil
	}
	rows, err := journal.DumpJob(tx, id)
	if err != nil {
		return "", "", err
	}
	size, err := archive.Size(rows)
	switch {
	case err != nil:
		return "", fmt.Sprintf("its rows cannot be written (%v); its entries are archived, and nothing is lost", err), nil
	case size > mostJob:
		why = fmt.Sprintf("its rows have %d MiB, and a segment takes %d of one job", size>>20, mostJob>>20)
		say(&p.large, "%s: %s", id, why)
		return why, "", nil
	}
	p.add(id, rows, size)
	return "", "", nil
}

// add takes a job with its rows of so many bytes.
func (p *planned) add(id op.JobID, rows []journal.Dump, size int64) {
	for i, d := range rows {
		if i == len(p.Rows) {
			p.Rows = append(p.Rows, journal.Dump{Table: d.Table, Columns: d.Columns})
		}
		p.Rows[i].Rows = append(p.Rows[i].Rows, d.Rows...)
	}
	p.bytes += size
	p.Jobs = append(p.Jobs, id)
}

// fill adds the tables of a segment without jobs.
func (p *planned) fill(tx *store.Tx) (err error) {
	if p.Rows == nil {
		p.Rows, err = journal.DumpRange(tx, journal.Range{First: 1})
	}
	return err
}

// check finds what has changed since the plan was made. Everything is read again, in the transaction that records the segment.
func (p *planned) check(tx *store.Tx) error {
	job, why, err := journal.FirstNeeded(tx, journal.RangesOf(p.Jobs), p.before, p.isClosed)
	if err == nil && why != "" {
		err = fmt.Errorf("job %s was to be archived, and now has to stay: %s", job, why)
	}
	return err
}

// left are the closed steps of this segment whose job is not in it.
func (p *planned) left() (out []op.StepID) {
	ranges := journal.RangesOf(p.Jobs)
	for _, id := range p.ended {
		if !journal.InRanges(ranges, id.Job) {
			out = append(out, id)
		}
	}
	return out
}
