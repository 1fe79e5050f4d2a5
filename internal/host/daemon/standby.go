package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/host/systemd"
	"gated/internal/ledger"
	"gated/internal/ledger/lease"
	"gated/internal/nonce"
)

// follows is how often a standby asks the ledger for what is new.
const follows = 500 * time.Millisecond

// errTakeOver ends a standby that becomes the active member.
var errTakeOver = errors.New("this member takes over")

// standBy serves reads until no other member decides; then it returns nil. A member whose own era is the newest does not
// serve at all before it goes on.
func (m *member) standBy(ctx context.Context, opened *life.Opened, o ServeOptions, hup <-chan os.Signal) (served bool, err error) {
	w := &standbyWatch{member: m, opened: opened}
	if due, err := w.step(ctx); err != nil || due {
		return false, err
	}
	d, err := prepare(ctx, opened, m, o)
	if err != nil {
		return false, err
	}
	defer d.stopped()
	passed, err := duplicates(o.passed)
	if err != nil {
		return false, err
	}
	socket, err := d.listen(o.Socket, passed)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	if _, err := d.agents.Adopt(ctx); err != nil {
		return false, err
	}
	w.d = d
	err = together(ctx, stopDeadline, []part{
		{"the server", func(ctx context.Context) error { return d.server().Serve(ctx, socket) }},
		{"reload", func(ctx context.Context) error { d.reloadsLater(ctx, hup); return nil }},
		{"the watchdog", d.watchdog},
		{"the agents", func(ctx context.Context) error {
			d.every(ctx, tickInterval, nil, "agents of this host", w.agents)
			return nil
		}},
		{"what was decided", d.decided.Run},
		{"the ledger", w.run},
	}, func() {
		d.tell(systemd.Ready)
		d.log.Info("standing by", "member", m.Member, "host", d.gate.Host(), "gate", string(d.gate.ID()), "socket", socket.Path())
	}, func() {
		if ctx.Err() != nil {
			d.tell(systemd.Stopping)
		}
	})
	if onlyTakeOver(err) {
		err = nil
	}
	return true, err
}

// onlyTakeOver reports whether the standby ended for nothing but that it takes over. A part that failed or did not end
// keeps it from that: the daemon ends, and is started anew.
func onlyTakeOver(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !onlyTakeOver(e) })
	}
	return errors.Is(err, errTakeOver)
}

// standbyWatch follows the ledger, and finds out when no member decides.
type standbyWatch struct {
	*member
	opened *life.Opened
	d      *daemon // nil before it serves
	watch  lease.Watch
	looked bool // there was a look before
}

// run follows until ctx ends or this member takes over.
func (w *standbyWatch) run(ctx context.Context) error {
	tick := time.NewTicker(follows)
	defer tick.Stop()
	for {
		var asked chan<- error
		select {
		case <-ctx.Done():
			return nil
		case asked = <-w.asked:
		case <-w.sooner:
		case <-tick.C:
		}
		due, err := w.step(ctx)
		if asked != nil {
			why := cmp.Or(err, w.mayDecide())
			asked <- why
			w.forced = !due && why == nil
			due = due || w.forced
		}
		if err != nil {
			return err
		}
		if due {
			return errTakeOver
		}
	}
}

// agents brings the agents of this host in line with the database, unless that is behind the ledger: what it lacks may be new.
func (w *standbyWatch) agents(ctx context.Context) error {
	w.mu.Lock()
	behind := w.fault != nil
	w.mu.Unlock()
	if behind {
		return nil
	}
	return w.d.agents.Follow(ctx)
}

// mayDecide returns why this member cannot take over, as of its last look at the ledger.
func (w *standbyWatch) mayDecide() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := new(refusal.Refusal); w.fault == nil || errors.As(w.fault, &r) {
		return w.fault
	}
	return refusal.New(refusal.Unavailable, "this member cannot take over: %v", w.fault).WithHint("see gated member ledger status on both hosts")
}

// step brings the database up to date, and reports whether this member takes over. An error is of a ledger that must not
// be followed: an operator has to look. A ledger that does not answer is asked again.
func (w *standbyWatch) step(ctx context.Context) (due bool, err error) {
	asked := nonce.SinceBoot()
	at, err := w.engine.Position(ctx)
	if err != nil {
		w.say(err)
		return false, nil
	}
	if err := w.whole(at); err != nil {
		return false, life.CannotFollow(ctx, w.opened, err)
	}
	quiet := w.watch.Look(at, asked, nonce.SinceBoot())
	here, err := w.opened.Store.Follow(ctx)
	if errors.Is(err, refusal.Unavailable) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
		w.say(err)
		return false, nil
	}
	if err != nil {
		return false, life.CannotFollow(ctx, w.opened, err)
	}
	jobs, err := w.look(ctx, w.opened.Store)
	if err != nil {
		return false, err
	}
	if w.d != nil {
		w.d.gate.Heard(jobs)
		if err := w.d.trustAsWritten(ctx); err != nil {
			return false, err
		}
	}
	w.mu.Lock()
	w.at, w.group, w.silent = at, here.Number, quiet
	w.tellFollowers()
	w.mu.Unlock()
	w.mine = life.Began(w.dir, at.Era)
	if err := w.namesake(at, quiet); err != nil {
		return false, err
	}
	err = w.sameTime(ctx)
	w.say(err)
	return err == nil && (w.mine || quiet >= w.longest()), nil
}

// namesake refuses to go on beside a daemon of the same name that lives. Both would be the same one in the log, and for
// people.
func (w *standbyWatch) namesake(at ledger.Position, quiet time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.active.Name == w.Member && w.active.Era == int64(at.Era) && !w.mine
	if w.looked && same && quiet == 0 {
		return refusal.New(refusal.Conflict, "another daemon that decides has the name %s, too", w.Member).
			WithHint("give this member another name in gated.yaml, under store: member")
	}
	w.looked = true
	return nil
}

// whole returns an error if the ledger is not one that this database can go on from.
func (w *standbyWatch) whole(at ledger.Position) error {
	switch {
	case at.Era == ledger.Ended:
		return ledger.ErrEnded
	case at.Last < w.group:
		return fmt.Errorf("%w: it has %d groups, and %d are here", ledger.ErrLost, at.Last, w.group)
	case at.Era < w.at.Era:
		return fmt.Errorf("%w: era %d, and it was %d", ledger.ErrRolledBack, at.Era, w.at.Era)
	}
	return nil
}

// say keeps why the standby does not do its part, for status. It logs each change.
func (w *standbyWatch) say(err error) {
	w.mu.Lock()
	was := w.fault
	w.fault = err
	w.mu.Unlock()
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		w.log.Warn("the standby does not follow", "error", err)
	case err == nil && was != nil:
		w.log.Info("the standby follows again")
	}
}

// reloadsLater answers what asks for a reload: this member reads its settings when it takes over.
func (d *daemon) reloadsLater(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			d.log.Info("a standby reads gated.yaml when it starts and when it takes over")
		}
	}
}

// duplicates returns copies of the descriptors that a service manager passed, because the active member needs them later.
func duplicates(passed []*os.File) ([]*os.File, error) {
	var out []*os.File
	for _, f := range passed {
		one, err := systemd.Duplicate(f)
		if err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}
