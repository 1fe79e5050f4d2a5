// Package retention moves records that ended long ago from the database into segment files. It deletes nothing that it has
// not read back from a file that was checked whole and is on the disk. docs/design/retention.md says what may go.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// Least is the shortest time after which records may be archived.
const Least = 24 * time.Hour

// Bounds of one segment and of one transaction. Each transaction reads and deletes so few rows that decisions do not wait
// for it.
const (
	mostTiles   = 16
	mostEntries = 8 << 20  // bytes
	mostRows    = 16 << 20 // bytes
	mostJob     = 32 << 20 // bytes of one job; with as many of others and their entries as above, and a tile more, a segment takes it
	mostJobs    = 2048
	jobsAtOnce  = 16
)

// The pace of Run.
const (
	pause = 20 * time.Millisecond // between two transactions
	idle  = 5 * time.Minute       // after a look that found nothing to do
	again = time.Minute           // after an error
)

// Config is what a Keeper needs.
type Config struct {
	Store  *store.Store
	Dir    *archive.Dir
	Named  bool          // an operator chose the directory, so that it may be on another disk
	After  time.Duration // at least Least
	Keep   int64         // how many of the newest entries stay
	Gate   op.GateID
	Schema int
	// Append writes entries in the transaction, with the gate's time and id.
	Append func(*store.Tx, ...audit.Entry) error
	Moment func() nonce.Moment
	// Up is the time since the start of this program, of a clock that nobody sets. Came recorded the time before.
	Up func() time.Duration
	// Admit refuses so many bytes if the disk has too little room.
	Admit func(bytes int64) error
	// Rest waits, or until ctx ends.
	Rest   func(context.Context, time.Duration)
	Logger *slog.Logger
}

// State says how far archiving is, for people.
type State struct {
	Segments int64
	Entries  int64 // up to this one, all are in segments
	Jobs     int64
	At       time.Time // of the newest segment
	// Held is why archiving does not go on although it should, "" if it does. Waits is what it waits for in order.
	Held, Waits string
	// Left counts jobs that ended in archived entries and have to stay, and Why says it of one of them.
	Left int
	Why  string
	// Odd is why a job stays that should go, "" if there is none. Archiving goes on without it.
	Odd string
	// Large is a job that stays for ever because no segment takes it, with the reason, "" if there is none. That is in order.
	Large string
}

// Keeper archives what is old enough. One goroutine at a time calls Run or Step.
type Keeper struct {
	c     Config
	state atomic.Pointer[State]

	// What away knows: whether it read what archiving waits for, that, and up to which Up it counted.
	known bool
	waits journal.Archiving
	up    time.Duration

	// What Step deletes now: the newest segment, its jobs with their rows, and the first job that may have rows left.
	of   int64
	jobs []archive.JobRows
	next int
}

// New returns a keeper.
func New(c Config) (*Keeper, error) {
	if c.After < Least {
		return nil, fmt.Errorf("retention after %s is shorter than %s", c.After, Least)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{c: c}
	k.state.Store(&State{Waits: "it has not looked yet"})
	return k, nil
}

// State returns how far archiving is.
func (k *Keeper) State() State { return *k.state.Load() }

// Run archives at a quiet pace until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	held := ""
	for ctx.Err() == nil {
		did, err := k.Step(ctx)
		wait := idle
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait = again
		case did:
			wait = pause
		}
		if now := k.State().Held; now != held {
			if held = now; held != "" {
				k.c.Logger.Warn("archiving is held", "why", held)
			}
		}
		if !did {
			k.c.Dir.Drop()
		}
		k.c.Rest(ctx, wait)
	}
	return nil
}

// Step does one piece of work: it writes and records a segment, or deletes some rows that the newest segment has. It
// reports whether there was any. What holds archiving is no error, and State says it.
func (k *Keeper) Step(ctx context.Context) (did bool, err error) {
	s := k.State()
	s.Held, s.Waits = "", ""
	did, err = k.step(ctx, &s)
	if err != nil && ctx.Err() == nil {
		s.Held = said(err)
	}
	if e := k.counts(ctx, &s); err == nil {
		err = e
	}
	k.state.Store(&s)
	return did, err
}

func (k *Keeper) step(ctx context.Context, s *State) (bool, error) {
	var err error
	if s.Held, err = k.doubt(ctx); s.Held != "" || err != nil {
		return false, err
	}
	last, bound, err := k.newest(ctx)
	if err != nil {
		return false, err
	}
	if bound < last.Last {
		err := k.place(ctx, last)
		if err == nil {
			err = k.remove(ctx, last)
		}
		if err != nil {
			k.of = 0 // the next try reads and checks the file again
			k.c.Dir.Drop()
		}
		return true, err
	}
	p, err := k.plan(ctx, last, s)
	if err != nil || p == nil {
		return false, err
	}
	if err := k.place(ctx, last); err != nil {
		return false, err
	}
	return true, k.write(ctx, p)
}

// doubt returns why the gate's time is not good enough to tell what is old.
func (k *Keeper) doubt(ctx context.Context) (string, error) {
	m := k.c.Moment()
	if !m.Trusted {
		k.up = k.c.Up() // a day with such a clock is none
		return "the gate does not trust its clock: " + m.Why, nil
	}
	return k.away(ctx)
}

func (k *Keeper) newest(ctx context.Context) (last audit.Segment, bound int64, err error) {
	return last, bound, k.c.Store.View(ctx, func(tx *store.Tx) error {
		var head audit.Head
		last, err = audit.LastSegment(tx)
		if err == nil {
			head, err = audit.Bound(tx)
			bound = head.Seq
		}
		return err
	})
}

// counts reads what is archived.
func (k *Keeper) counts(ctx context.Context, s *State) error {
	return k.c.Store.View(ctx, func(tx *store.Tx) error {
		last, err := audit.LastSegment(tx)
		if err != nil {
			return err
		}
		s.Segments, s.Entries, s.At = last.Number, last.Last, last.At
		return tx.QueryRow(`SELECT coalesce(sum(jobs), 0) FROM segments`).Scan(&s.Jobs)
	})
}

// write makes the file of a planned segment and records it.
func (k *Keeper) write(ctx context.Context, p *planned) error {
	if err := k.c.Admit(p.bytes); err != nil {
		return err
	}
	s, err := archive.Make(p.Plan)
	if err != nil {
		return err
	}
	row, _, err := k.c.Dir.Write(s)
	if err != nil {
		return err
	}
	row.At = k.c.Moment().Now
	return k.record(ctx, p, row)
}

// said is what an error says to people, with what they can do.
func said(err error) string {
	if r := (*refusal.Refusal)(nil); errors.As(err, &r) {
		return r.Sentence()
	}
	return err.Error()
}

// say keeps the first reason.
func say(to *string, format string, args ...any) { *to = cmp.Or(*to, fmt.Sprintf(format, args...)) }
