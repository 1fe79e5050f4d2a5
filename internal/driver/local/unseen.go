package local

import (
	"context"
	"errors"
	"fmt"

	"gated/internal/base/proc"
)

// errNotEnded marks what a look knows of processes that no step has tried to end yet.
var errNotEnded = errors.New("no step has tried to end them yet")

// lives says what is known of a guest's processes, and ends none. It returns the run that goes on, or what is known of the
// processes that ended runs left.
func (d *Driver) lives(ctx context.Context, g *guest) (*runFile, verdict) {
	// In this order, as in takeUp.
	if p := d.procs.get(g.incarnation()); p != nil {
		return &p.run, verdict{}
	}
	if l, lost := d.lost.get(g.incarnation()); lost {
		return nil, l.verdict
	}
	if !g.ran {
		return nil, verdict{}
	}
	return d.unseen(ctx, g)
}

// unseen is lives for a run that no daemon has looked at since a person put the guest in its place. The guest's next step takes
// that run up, and ends what is left of it.
func (d *Driver) unseen(ctx context.Context, g *guest) (*runFile, verdict) {
	run, unreadable := readRunFile(g.dir)
	switch {
	case unreadable != nil:
		run = nil // takeUp says this in the log
	case run == nil || run.BootID != d.cfg.BootID || d.lost.hasEnded(g.incarnation(), *run):
		return nil, verdict{} // it ended just now, or with the host, or while the guest was elsewhere
	default:
		goesOn, err := run.goesOn()
		if err != nil {
			return nil, verdict{err: errors.Join(errNotEnded, err)}
		}
		if goesOn {
			return run, verdict{}
		}
	}
	return nil, d.rest(ctx, lostGuest{name: g.name, inc: g.incarnation(), uid: d.uids.of(g.UUID), group: d.cgroups.of(g.UUID), run: run})
}

// goesOn reports whether the process in the run file still runs. If it has ended, goesOn does not collect it: it may be the child
// of a start that is under way and uses its pid.
func (r *runFile) goesOn() (bool, error) {
	p, err := proc.Open(r.PID, r.Ticks)
	if err != nil || p == nil {
		return false, err
	}
	defer p.Close()
	return !p.Ended(), nil
}

// rest is killLost without a kill, for one run without a tie.
func (d *Driver) rest(ctx context.Context, l lostGuest) verdict {
	once, cancel := context.WithCancel(ctx)
	cancel()
	empty, err := l.group.drain(once)
	uids := d.uidsOf(l.run)
	if l.uid != 0 {
		none, e := proc.NoneOf(l.uid)
		if !none && e == nil {
			e = fmt.Errorf("processes have the uid %d", l.uid)
		}
		err = errors.Join(err, e)
		delete(uids, l.uid)
	}
	mark := markOf(l.inc)
	found, _ := d.seek.marked(ctx, sought{marks: map[string]bool{mark: true}, uids: uids})
	for _, p := range found[mark] {
		err = errors.Join(err, errors.New("a process has the guest's mark"))
		p.Close()
	}
	if err == nil && ctx.Err() == nil {
		return d.judge(ctx, l, empty)
	}
	return verdict{err: errors.Join(errNotEnded, err, ctx.Err())}
}
