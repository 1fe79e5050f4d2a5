package local

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"

	"gated/internal/op"
)

// lostGuest is one whose leader ended while no daemon watched, so that what the
// leader left behind has to be killed.
type lostGuest struct {
	name  string
	inc   op.Incarnation
	uid   uint32 // as in process
	group cgroup
	run   *runFile // nil where it cannot be read
}

// lostGuests are those whose processes New could not end, say because they
// multiply as fast as they are killed. One such guest does not keep the daemon
// from starting; its own next start or stop tries again and reports it.
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

// endLost kills what lost guests left behind, with one look at all processes
// for all of them. It keeps in mind those where that failed. Their run files
// stay, so that the next New does not forget them either.
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

// settle tries again to end what is left of a lost guest, before it is started
// or called stopped.
func (d *Driver) settle(ctx context.Context, inc op.Incarnation) error {
	l, ok := d.lost.get(inc)
	if !ok {
		return nil
	}
	if err := d.killLost(ctx, []lostGuest{l})[inc]; err != nil {
		return op.Refuse(op.Conflict, "guest/%s: processes of an earlier run do not end: %v", l.name, err).
			WithHint("they have %s in their environment; end them on the host", markOf(inc))
	}
	d.lost.remove(inc)
	return nil
}

// killLost kills by cgroup and by mark. It returns the guests where it failed.
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
