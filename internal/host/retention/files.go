package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
)

// The pace at which segment files are looked at.
const (
	lookEvery = 24 * time.Hour // between two looks whether each file is there
	turnTime  = 72 * time.Hour // in about which each file is read once
	oneFile   = time.Minute    // between two files at most, and between two looks at those with a problem
)

// FilesConfig is what Files needs.
type FilesConfig struct {
	Store *store.Store
	Dir   *archive.Dir
	// Elapsed is a clock that nobody sets.
	Elapsed func() time.Duration
	// Rest waits, or until ctx ends.
	Rest   func(context.Context, time.Duration)
	Logger *slog.Logger
}

// FilesState says what became of the segment files since the start, for people.
type FilesState struct {
	Segments int  // that the database names
	Looked   bool // whether each file is there
	Read     int  // so many of them, from the first on, were read whole and compared
	Bad      int  // files with a problem
	Why      string
}

// Files looks whether the segment files that the database names are there and are what the gate wrote. It changes nothing. One
// goroutine at a time calls Run or Step.
type Files struct {
	c     FilesConfig
	state atomic.Pointer[FilesState]

	looked bool          // the first look has ended
	at     time.Duration // when the last look at all files began
	turn   time.Duration // when the reading of all files began
	cursor int64         // the segment that was read last in this turn
	again  int64         // the damaged segment that was read again last
	count  int
	read   int
	absent map[int64]string // what a look found, by segment
	spoilt map[int64]string // what reading found
}

// NewFiles returns what looks at the files.
func NewFiles(c FilesConfig) *Files {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	f := &Files{c: c, absent: map[int64]string{}, spoilt: map[int64]string{}}
	f.state.Store(&FilesState{})
	return f
}

// State returns what was found last.
func (f *Files) State() FilesState { return *f.state.Load() }

// Run looks at the files until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		before := f.State().Why
		if err := f.Step(ctx); err != nil && ctx.Err() == nil {
			s := f.State()
			s.Bad, s.Why = max(1, s.Bad), "the segment files could not be looked at: "+err.Error()
			f.state.Store(&s)
		}
		switch now := f.State().Why; {
		case now == before:
		case now == "":
			f.c.Logger.Info("the segment files are as they were written again, as far as they were looked at")
		default:
			f.c.Logger.Error("segment files are not as they were written", "why", now)
		}
		f.c.Rest(ctx, min(oneFile, turnTime/time.Duration(max(1, f.count))))
	}
	return nil
}

// Step does one piece of work. Once a day it looks at all files, else at those with a problem. Then it reads at most two: one
// that was damaged, and the next one in turn.
func (f *Files) Step(ctx context.Context) error {
	now := f.c.Elapsed()
	if err := f.look(ctx, now); err != nil {
		return err
	}
	if err := f.readAgain(ctx); err != nil {
		return err
	}
	if err := f.readNext(ctx, now); err != nil {
		return err
	}
	s := FilesState{Segments: f.count, Looked: true, Read: f.read}
	s.Bad, s.Why = f.problems()
	f.state.Store(&s)
	return nil
}

// look looks whether files are there with their length. A file that is back and was not damaged has no problem any more.
func (f *Files) look(ctx context.Context, now time.Duration) error {
	all := !f.looked || now-f.at >= lookEvery
	if !all && len(f.absent) == 0 {
		return nil
	}
	segments, err := f.segments(ctx)
	if err != nil {
		return err
	}
	f.count = len(segments)
	for _, s := range segments {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, bad := f.absent[s.Number]; bad || all {
			f.note(f.absent, s.Number, f.c.Dir.Look(s))
		}
	}
	if all {
		f.looked, f.at = true, now
	}
	return nil
}

// readAgain reads a damaged file, each in turn.
func (f *Files) readAgain(ctx context.Context) error {
	if len(f.spoilt) == 0 {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(f.spoilt))
	i, _ := slices.BinarySearch(numbers, f.again+1)
	f.again = numbers[i%len(numbers)]
	s, err := f.after(ctx, f.again-1)
	if err == nil {
		f.compare(s)
	}
	return err
}

// readNext reads the next file. After the last one it waits until the next turn, but for a file that is new.
func (f *Files) readNext(ctx context.Context, now time.Duration) error {
	s, err := f.after(ctx, f.cursor)
	if err != nil {
		return err
	}
	if s.Number == 0 {
		if now-f.turn >= turnTime {
			f.cursor, f.turn = 0, now
		}
		return nil
	}
	f.compare(s)
	f.cursor = s.Number
	f.count, f.read = max(f.count, int(s.Number)), max(f.read, int(s.Number))
	return nil
}

// compare reads a file whole.
func (f *Files) compare(s audit.Segment) {
	err := f.c.Dir.Look(s)
	f.note(f.absent, s.Number, err)
	if err == nil {
		f.note(f.spoilt, s.Number, f.c.Dir.Compare(s))
	}
}

func (f *Files) note(to map[int64]string, number int64, err error) {
	delete(to, number)
	if err != nil {
		to[number] = refusal.As(err).Detail
	}
}

// problems counts the files with a problem, and says it of the first.
func (f *Files) problems() (bad int, why string) {
	all := maps.Clone(f.spoilt)
	maps.Copy(all, f.absent)
	if len(all) == 0 {
		return 0, ""
	}
	why = all[slices.Min(slices.Collect(maps.Keys(all)))]
	if len(all) > 1 {
		why += fmt.Sprintf("; %d other segment files have a problem too, and gated archive status and verify name them", len(all)-1)
	}
	return len(all), why
}

func (f *Files) segments(ctx context.Context) (all []audit.Segment, err error) {
	return all, f.c.Store.View(ctx, func(tx *store.Tx) error {
		all, err = audit.Segments(tx)
		return err
	})
}

// after returns the first segment above a number, the zero one if there is none.
func (f *Files) after(ctx context.Context, number int64) (s audit.Segment, err error) {
	err = f.c.Store.View(ctx, func(tx *store.Tx) error {
		s, err = audit.ReadSegment(tx, number+1)
		return err
	})
	if errors.Is(err, refusal.UnknownTarget) {
		return audit.Segment{}, nil
	}
	return s, err
}
