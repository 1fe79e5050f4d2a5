package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
)

// yearSize says how long the simulated year is, and how much is in a day.
type yearSize struct {
	days, perDay int
	after        time.Duration // retention.after
	keep         int64         // how many of the newest entries stay
	early, month int           // the day that the last one is compared with, and days between two sizes
	asked        int           // how often each time is measured
}

// yearBudget is how many MiB the database may have at the end.
const yearBudget = 200

// perYear is how many days a year without archiving is reckoned with.
const perYear = 365

// year measures whether a gate that archives grows with the years. Its clock is simulated. The decisions are real: each
// goes through the gate, and what it decided is run, 32 side by side.
func (b *bench) year() (err error) {
	s := b.size.year
	if b.Days > 0 {
		s.days = b.Days
	}
	if b.PerDay > 0 {
		s.perDay = b.PerDay
	}
	if b.After > 0 {
		s.after = b.After
	}
	s.early = min(s.early, s.days)
	y, err := newYear(b, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	var early yearTimes
	var whole yearSizes // before anything was archived
	for day := 1; day <= s.days; day++ {
		if err := y.day(day, y.archive); err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
		if day == int(s.after/(24*time.Hour)) {
			if whole, err = y.sizes(); err != nil {
				return err
			}
		}
		if day%s.month == 0 || day == s.days {
			if err := b.yearSizeRow(y, day); err != nil {
				return err
			}
		}
		if day == s.early {
			if early, err = b.yearTimes(y); err != nil {
				return fmt.Errorf("day %d: %w", day, err)
			}
		}
	}
	late, err := b.yearTimes(y)
	if err != nil {
		return err
	}
	// The decisions beside archiving are as many as come through, so they have a day of their own after the sizes.
	if err := y.day(s.days+1, y.archiveBeside); err != nil {
		return fmt.Errorf("day %d: %w", s.days+1, err)
	}
	b.yearRows(y, early, late)
	proof, err := y.oldProof()
	if err != nil {
		return err
	}
	b.addf("  an inclusion proof of an archived entry", proof, milliseconds, 0, "its segment file is read, decompressed and checked whole; one call at a time does that")
	b.addf("  a year without archiving", whole.mib*perYear/float64(s.after/(24*time.Hour)), mebibytes, 0, "reckoned from the days before the first segment")
	return y.complete()
}

// yearSizeRow adds the size of the database. The last one has the budget.
func (b *bench) yearSizeRow(y *year, day int) error {
	size, err := y.sizes()
	if err != nil {
		return err
	}
	budget := 0.0
	if day == y.size.days {
		budget = yearBudget
	}
	b.addf(fmt.Sprintf("database after day %d", day), size.mib, mebibytes, budget, "%.1f MiB of it are free; %d jobs and %d entries in it; %d jobs in %d segments, %.1f MiB",
		size.free, size.jobs, size.entries, y.archived().Jobs, y.archived().Segments, size.segments)
	fmt.Fprintf(b.Progress, "  day %d: %.1f MiB, %.1f of it free, segments %.1f MiB; a day took %.2f s to play, %.2f s to archive; by table: %s\n", day, size.mib, size.free,
		size.segments, y.played.Seconds()/float64(day), y.archiving.Seconds()/float64(day), size.tables)
	return nil
}

// yearTimes are milliseconds on one day.
type yearTimes struct{ start, benign, signed, list, verify float64 }

func (b *bench) yearTimes(y *year) (t yearTimes, err error) {
	if t.start, err = b.yearStart(y); err != nil {
		return t, err
	}
	var benign, signed, list []float64
	for i := range y.size.asked {
		for _, m := range []struct {
			to *[]float64
			do func() error
		}{
			{&benign, func() error { return y.turn(0, i) }},
			{&signed, func() error { return y.come(0) }},
			{&list, y.list},
		} {
			began := now()
			if err := m.do(); err != nil {
				return t, err
			}
			*m.to = append(*m.to, inMillis(now().Sub(began)))
		}
	}
	t.benign, t.signed, t.list = middle(benign), middle(signed), middle(list)
	t.verify, err = median(b.size.runs, func() (float64, error) {
		began := now()
		err := y.store.View(b.ctx, func(tx *store.Tx) error { _, err := audit.Verify(tx, nil); return err })
		return inMillis(now().Sub(began)), err
	})
	return t, err
}

// yearStart is how long the real daemon takes until it answers. The gate is bound to its file, so the daemon starts on that
// file, and what it wrote is undone in place afterwards.
func (b *bench) yearStart(y *year) (float64, error) {
	if err := y.store.Close(); err != nil {
		return 0, err
	}
	kept := filepath.Join(b.Dir, "year-kept")
	if err := b.copyTree(y.dir, kept); err != nil {
		return 0, err
	}
	took, err := median(b.size.runs, func() (float64, error) { return b.serveOnce(y.dir) })
	if err != nil {
		return 0, err
	}
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Remove(databaseIn(y.dir) + beside); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
	}
	return took, errors.Join(b.copyTree(kept, y.dir), os.RemoveAll(kept), y.open())
}

// copyTree copies what a directory has. A file that is there is written anew and stays the same file.
func (b *bench) copyTree(from, to string) error {
	if out, err := exec.CommandContext(b.ctx, "cp", "-r", "--preserve=mode", "-T", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the state: %w: %s", err, out)
	}
	return nil
}

// yearRows adds the times of the last day, each beside that of the early day.
func (b *bench) yearRows(y *year, early, late yearTimes) {
	for _, r := range []struct {
		what        string
		early, late float64
	}{
		{"start", early.start, late.start},
		{"a benign step, submitted, run and recorded, 1 caller", early.benign, late.benign},
		{"a guest made, and destroyed with a signature, 1 caller", early.signed, late.signed},
		{"first page of jobs and of requests", early.list, late.list},
		{"audit verify, without segment files", early.verify, late.verify},
	} {
		b.addf("  "+r.what, r.late, milliseconds, 0, "%.2f ms after day %d: %.2f × as long now", r.early, y.size.early, r.late/r.early)
	}
	b.addf("  a decision while one more day is archived, slowest", quantile(y.beside, 1), milliseconds, 50, "of %d; p50 %.2f ms, p99 %.2f ms; archiving without its pauses; as many alone: p50 %.2f ms, p99 %.2f ms, slowest %.2f ms",
		len(y.beside), quantile(y.beside, 0.5), quantile(y.beside, 0.99), quantile(y.alone, 0.5), quantile(y.alone, 0.99), quantile(y.alone, 1))
	b.addf("  decisions", float64(y.decided.Load()), pieces, 0, "%d signed, %d rejected, %d cancelled, %d refused, the others benign; each day took %.2f s to play and %.2f s to archive",
		y.signed.Load(), y.rejected.Load(), y.cancelled.Load(), y.refused.Load(), y.played.Seconds()/float64(y.today), y.archiving.Seconds()/float64(y.today))
}

// oldProof is how long a proof takes that needs a segment file, in milliseconds. Each reads its file anew.
func (y *year) oldProof() (float64, error) {
	asked := 0
	return median(min(y.size.asked, 20), func() (took float64, err error) {
		err = y.store.View(y.ctx, func(tx *store.Tx) error {
			bound, err := audit.Bound(tx)
			if err != nil {
				return err
			}
			asked++
			began := now()
			_, _, err = audit.Proofs{Older: archive.NewDir(filepath.Join(y.dir, life.ArchiveName))}.Inclusion(tx, 1+int64(asked*7919)%bound.Seq, bound.Seq)
			took = inMillis(now().Sub(began))
			return err
		})
		return took, err
	})
}

// list reads what a person sees first.
func (y *year) list() error {
	jobs, err := y.gate.Jobs(y.ctx, gate.JobFilter{Limit: 100})
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return errors.New("no job is listed")
	}
	_, err = y.gate.RequestPage(y.ctx, gate.RequestFilter{State: op.StatePending, Limit: 100})
	return err
}
