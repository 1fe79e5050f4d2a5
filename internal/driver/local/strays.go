package local

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// lostGuest is a guest whose first process ended while no daemon watched. The processes that it
// left must be killed.
type lostGuest struct {
	name  string
	inc   op.Incarnation
	uid   uint32 // as in process
	group cgroup
	run   *runFile // nil if it cannot be read
}

// lostGuests are the guests whose processes New could not end, for example because they
// multiply as fast as they are killed. Such a guest does not prevent the daemon's start. The
// guest's own next start or stop tries again and reports a failure.
type lostGuests struct {
	mu    sync.Mutex
	byInc map[op.Incarnation]lostGuest
}

func (l *lostGuests) get(inc op.Incarnation) (lostGuest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, ok := l.byInc[inc]
	return g, ok
}

func (l *lostGuests) add(g lostGuest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byInc == nil {
		l.byInc = map[op.Incarnation]lostGuest{}
	}
	l.byInc[g.inc] = g
}

func (l *lostGuests) remove(inc op.Incarnation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byInc, inc)
}

// endLost kills the processes of lost guests, with one look at all processes. It remembers the
// guests for which that failed. Their run files stay, so that the next New tries them, too.
func (d *Driver) endLost(ctx context.Context, lost []lostGuest) {
	failed := d.killLost(ctx, lost)
	for _, l := range lost {
		if err := failed[l.inc]; err != nil {
			d.cfg.Logger.Error("processes of an earlier run do not end", "guest", l.name, "err", err)
			d.lost.add(l)
			continue
		}
		if err := d.dropRunFile(l); err != nil {
			d.cfg.Logger.Warn("run file kept; it is of no process", "guest", l.name, "err", err)
		}
	}
}

func (d *Driver) dropRunFile(l lostGuest) error {
	g, err := d.openGuest(l.name)
	if err != nil || g == nil {
		return err
	}
	defer g.close()
	if err := g.dir.unlink(runFileName, 0); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settle tries again to end the processes of a lost guest, before the guest is started or
// called stopped.
func (d *Driver) settle(ctx context.Context, inc op.Incarnation) error {
	l, ok := d.lost.get(inc)
	if !ok {
		return nil
	}
	if err := d.killLost(ctx, []lostGuest{l})[inc]; err != nil {
		return refusal.New(refusal.Conflict, "guest/%s: processes of an earlier run do not end: %v", l.name, err).
			WithHint("they have %s in their environment; end them on the host", markOf(inc))
	}
	d.lost.remove(inc)
	return nil
}

// killLost kills by cgroup and by mark. It returns the guests for which it failed.
func (d *Driver) killLost(ctx context.Context, lost []lostGuest) map[op.Incarnation]error {
	if len(lost) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.strayWait)
	defer cancel()
	want := sought{marks: map[string]bool{}, uids: map[uint32]bool{}, own: map[uint32]string{}}
	failed := map[op.Incarnation]error{}
	for _, l := range lost {
		want.marks[markOf(l.inc)], want.own[l.uid] = true, markOf(l.inc)
		maps.Copy(want.uids, d.uidsOf(l.run))
		failed[l.inc] = l.group.drain(ctx)
		l.group.remove()
	}
	left := d.killMarked(ctx, want)
	for _, l := range lost {
		failed[l.inc] = errors.Join(failed[l.inc], left[markOf(l.inc)])
	}
	return failed
}
