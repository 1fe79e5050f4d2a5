package life

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/nonce"
)

// TimeState is how a gate's time stands to its machine's clock.
type TimeState struct {
	StateDir string
	Gate     op.GateID
	Host     string
	Mark     time.Time // the latest time that a believed clock showed, as it is stored; zero if there is none
	Clock    time.Time // this machine's
	Now      time.Time // the gate's own, for one that starts now: not believed, by the mark and the time since boot
	Believed bool      // by a daemon that starts now
	Why      string    // if not believed, a sentence
}

// Ahead is by how much the machine's clock is ahead of the mark; negative if it
// is behind.
func (s TimeState) Ahead() time.Duration { return s.Clock.Sub(s.Mark) }

// Time looks at the times of a state directory, also beside a running daemon.
func Time(ctx context.Context, stateDir string) (TimeState, error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return TimeState{}, err
	}
	s, err := timeState(ctx, o.Store, nonce.System())
	s.StateDir = o.Dir.Path()
	return s, errors.Join(err, o.Close())
}

// timeState is what a daemon that starts at a reading makes of it.
func timeState(ctx context.Context, s *store.Store, at nonce.Reading) (TimeState, error) {
	var out TimeState
	return out, s.View(ctx, func(tx *store.Tx) error {
		mark, _, err := nonce.ReadMark(tx)
		if err != nil {
			return err
		}
		c, err := nonce.LoadClock(tx, func() nonce.Reading { return at })
		if err != nil {
			return err
		}
		m := c.Now()
		out.Mark, out.Clock, out.Now, out.Believed, out.Why = mark.Wall, at.Wall, m.Now, m.Trusted, m.Why
		return tx.QueryRow(`SELECT gate, host FROM gate_identity`).Scan(&out.Gate, &out.Host)
	})
}

// AcceptOptions say whose time is accepted.
type AcceptOptions struct {
	StateDir string
	Agree    func(TimeState) error // is asked; its error is returned, and nothing has changed then
	Read     func() nonce.Reading  // the machine's clocks; nil: nonce.System
}

// Accepted is what became of an acceptance. The zero New says that nothing had to
// be accepted and nothing was changed.
type Accepted struct {
	TimeState
	New op.GateID
}

// AcceptTime takes over this machine's clock as the gate's time, where the gate
// does not believe it, under a new gate id: nothing that was signed before
// counts. The daemon must not run. Refusals: those of state.Open, what Agree
// returns, and Conflict if the clock was set again meanwhile. It is one
// transaction: cut off at any moment, it happened or it did not.
func AcceptTime(ctx context.Context, o AcceptOptions) (Accepted, error) {
	if o.Read == nil {
		o.Read = nonce.System
	}
	dir, err := state.Open(o.StateDir, state.Options{})
	if err != nil {
		return Accepted{}, err
	}
	a, err := acceptTime(ctx, dir, o)
	return a, errors.Join(err, dir.Close())
}

func acceptTime(ctx context.Context, dir *state.Dir, o AcceptOptions) (Accepted, error) {
	a := Accepted{TimeState: TimeState{StateDir: dir.Path()}}
	if _, err := identity(ctx, dir); err != nil {
		return a, err
	}
	seen := o.Read()
	looked, err := look(ctx, dir.Path())
	if err != nil {
		return a, err
	}
	a.TimeState, err = timeState(ctx, looked.Store, seen)
	a.StateDir = dir.Path()
	if err = errors.Join(err, looked.Close()); err != nil || a.Believed {
		return a, err
	}
	if seen.Blind {
		return a, refusal.New(refusal.Unavailable, "%s", a.Why).WithHint("gated needs a Linux kernel with CLOCK_BOOTTIME")
	}
	if err := o.Agree(a.TimeState); err != nil {
		return a, err
	}
	at := o.Read() // people take their time
	if moved := at.Jump(seen); moved.Abs() > nonce.MaxBehind {
		return a, refusal.New(refusal.Conflict, "the clock was set by %s meanwhile", moved.Round(time.Second)).
			WithHint("nothing was changed; look at the times again")
	}
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: Migrations()})
	if err != nil {
		return a, cannotOpen(ctx, dir.Database(), err)
	}
	next := state.Identity{Gate: state.NewGateID(), Host: a.Host}
	if err := beginAt(ctx, s, dir, next, at, a.TimeState); err != nil {
		return a, errors.Join(err, s.Close())
	}
	a.Clock, a.New = at.Wall, next.Gate
	return a, s.Close()
}

// beginAt begins a new life at a time, in one transaction with its identity.
func beginAt(ctx context.Context, s *store.Store, dir *state.Dir, id state.Identity, at nonce.Reading, was TimeState) error {
	s.OnGroup(audit.Seal)
	return s.Update(ctx, func(tx *store.Tx) error {
		e := audit.Entry{Kind: audit.TimeAccepted, Gate: id.Gate, Detail: fmt.Sprintf("%s; the mark was %s: %s",
			at.Wall.UTC().Format(time.RFC3339), was.Mark.UTC().Format(time.RFC3339), was.Why)}
		if err := newLife(tx, at, e, "the clock was wrong, so nobody knows how old it is"); err != nil {
			return err
		}
		return dir.BindIn(tx, id)
	})
}

// RestoredClock is a backup's time that contradicts this machine's, which is in
// force after the restore all the same: a new gate id begins with it.
type RestoredClock struct {
	Mark time.Time // the latest time that the backup's gate believed, in whole seconds
	Now  time.Time // this machine's, at the restore
}

// Behind reports whether this machine's clock is behind the backup's, which a
// clock that goes right is not.
func (c RestoredClock) Behind() bool { return c.Now.Before(c.Mark) }

// restoredClock compares a backup's mark with the wall clock as a start does,
// before the mark is replaced.
func restoredClock(tx *store.Tx, now time.Time) (*RestoredClock, error) {
	mark, ok, err := nonce.ReadMark(tx)
	if err != nil || !ok {
		return nil, err
	}
	if !now.Before(mark.Wall.Add(-nonce.MaxBehind)) && !now.After(mark.Wall.Add(nonce.MaxAway)) {
		return nil, nil
	}
	return &RestoredClock{Mark: mark.Wall, Now: now.UTC().Truncate(time.Second)}, nil
}
