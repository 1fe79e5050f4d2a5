package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
)

// lostGuest is a guest whose first process ended. The processes that it left must be killed, and
// somebody has to prove that none is left.
type lostGuest struct {
	name  string
	inc   op.Incarnation
	uid   uint32 // as in process
	group cgroup
	tie   *tie
	run   *runFile // nil if it cannot be read
	verdict
}

// verdict is what the driver knows of the processes that a run left. The zero value means that
// the kernel proved that none is left.
type verdict struct {
	err   error  // some may be left, because they do not end or a look failed
	doubt string // none was found, and this is why nothing proves that there is none
}

// lostGuests are the guests of which no proof says that all their processes are gone. Such a
// guest does not prevent the daemon's start. The guest's own next start or stop tries again and
// reports a failure.
type lostGuests struct {
	mu     sync.Mutex
	byInc  map[op.Incarnation]lostGuest
	proved map[op.Incarnation]runFile // ended runs whose run files are elsewhere: a person has moved the guests
}

// ended remembers that the kernel proved the end of a run.
func (l *lostGuests) ended(inc op.Incarnation, run runFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proved == nil {
		l.proved = map[op.Incarnation]runFile{}
	}
	l.proved[inc] = run
}

// hasEnded reports whether the kernel proved the end of this very run.
func (l *lostGuests) hasEnded(inc op.Incarnation, run runFile) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.proved[inc]
	return run.PID == was.PID && run.Ticks == was.Ticks && run.BootID == was.BootID
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

// close lets go of the guests' ties. No other method may run.
func (l *lostGuests) close() {
	for _, g := range l.byInc {
		g.tie.close()
	}
}

// endLost kills what ended runs left, with one look at all processes. It remembers the guests of
// which nothing proves that no process is left. Their run files stay, so that the next New tries
// them, too.
func (d *Driver) endLost(ctx context.Context, lost []lostGuest) {
	found := d.killLost(ctx, lost)
	for i, l := range lost {
		if l.verdict = found[i]; l.verdict != (verdict{}) {
			if l.err != nil {
				d.cfg.Logger.Error("processes of an earlier run do not end", "guest", l.name, "err", l.err)
			}
			d.lost.add(l)
			continue
		}
		d.lost.remove(l.inc)
		l.tie.close()
		l.group.remove() // not before, because a group that is gone proves nothing
		if err := d.dropRunFile(l); err != nil {
			d.cfg.Logger.Warn("run file kept; it is of no process", "guest", l.name, "err", err)
		}
	}
}

func (d *Driver) dropRunFile(l lostGuest) error {
	g, err := d.openGuest(l.name)
	if g != nil {
		defer g.close()
	}
	if g == nil || g.incarnation() != l.inc {
		d.lost.ended(l.inc, *l.run) // there is no proof without a run file
		return err
	}
	if err := g.dir.unlink(runFileName, 0); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settle ends what an earlier run of the guest left, before the guest is started, called stopped
// or loses something. A guest's own uid and cgroup are asked for each time, because the kernel
// answers at once.
func (d *Driver) settle(ctx context.Context, g *guest) error {
	if d.procs.get(g.incarnation()) != nil {
		return nil // what runs now is no rest of an earlier run, and its stop is to come
	}
	l, ok := d.lost.get(g.incarnation())
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, d.cfg.strayWait)
		defer cancel()
		uid, group := d.uids.of(g.UUID), d.cgroups.of(g.UUID)
		err := group.kill()
		if uid != 0 {
			err = errors.Join(err, d.endUID(ctx, g.incarnation(), uid))
		}
		_, e := group.drain(ctx)
		return d.notEnded(g.name, g.incarnation(), uid, errors.Join(err, e))
	}
	if d.trusted(g, l) {
		return nil
	}
	l.name = g.name // it may have another name since
	d.endLost(ctx, []lostGuest{l})
	if l, ok = d.lost.get(l.inc); ok {
		return d.notEnded(l.name, l.inc, l.uid, l.err)
	}
	return nil
}

// trusted forgets the doubt about a run if a person has removed its run file. Landlock keeps a guest's program from that file.
func (d *Driver) trusted(g *guest, l lostGuest) bool {
	if _, err := g.dir.stat(runFileName); l.err != nil || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	d.lost.remove(l.inc)
	l.tie.close()
	return true
}

// takeUp does for one guest what the daemon's start does for all: it looks what became of the run in its run file. The daemon has
// not seen that run if a person put the guest in its place meanwhile, or mended it, or if it comes back from the trash. It
// reports if there was such a run.
func (d *Driver) takeUp(ctx context.Context, g *guest) (bool, error) {
	// In this order, because a run that ends is remembered as lost before it is no process any more. Its tie would be lost.
	if d.procs.get(g.incarnation()) != nil {
		return false, nil
	}
	if _, lost := d.lost.get(g.incarnation()); lost {
		return false, nil
	}
	if _, err := g.dir.stat(runFileName); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var found []lostGuest
	err := d.recoverRun(g, &found)
	d.endLost(ctx, found)
	return true, err
}

// notEnded refuses a step because processes of the guest may be left. It returns nil for nil.
func (d *Driver) notEnded(name string, inc op.Incarnation, uid uint32, err error) error {
	if err == nil {
		return nil
	}
	hint := markOf(inc) + " in their environment"
	if uid != 0 {
		hint = fmt.Sprintf("the uid %d", uid)
	}
	return refusal.New(refusal.Conflict, "guest/%s: processes of an earlier run do not end: %v", name, err).
		WithHint("they have %s; end them on the host", hint)
}

// maxEnding bounds the runs that are ended side by side. Each may have a killer, which is a process.
const maxEnding = 32

// sideBySide calls fn for 0 to n-1, at most maxEnding of them at once, and waits for all.
func sideBySide(n int, fn func(i int)) {
	var wg sync.WaitGroup
	places := make(chan struct{}, maxEnding)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() { defer func() { <-places }(); fn(i) })
	}
	wg.Wait()
}

// killLost kills by cgroup, by mark and by uid, and says of each run what it knows then. A run that does not end takes the
// time of no other one.
func (d *Driver) killLost(ctx context.Context, lost []lostGuest) []verdict {
	found := make([]verdict, len(lost))
	if len(lost) == 0 {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.strayWait)
	defer cancel()
	want := sought{marks: map[string]bool{}, uids: map[uint32]bool{}}
	for _, l := range lost {
		want.marks[markOf(l.inc)] = true
		maps.Copy(want.uids, d.uidsOf(l.run))
	}
	failed, killed := make([]error, len(lost)), make([]error, len(lost))
	// Every kill is sent before any wait, so that one guest that does not end keeps no other one alive.
	sideBySide(len(lost), func(i int) {
		failed[i] = lost[i].group.kill()
		if uid := lost[i].uid; uid != 0 {
			killed[i] = d.killUID(ctx, lost[i].inc, uid)
		}
	})
	for _, l := range lost {
		if l.uid != 0 {
			delete(want.uids, l.uid) // killUID reaches these, whatever their environment says
		}
	}
	left, unread := d.killMarked(ctx, want)
	if unread != nil {
		d.cfg.Logger.Warn("a look for processes left some out", "err", unread)
	}
	sideBySide(len(lost), func(i int) {
		l := lost[i]
		empty, err := l.group.drain(ctx)
		err = errors.Join(failed[i], left[markOf(l.inc)], err)
		if l.uid != 0 {
			err = errors.Join(err, d.awaitUID(ctx, l.inc, l.uid, killed[i]))
		}
		if found[i] = (verdict{err: err}); err == nil {
			found[i] = d.judge(ctx, l, empty)
		}
	})
	return found
}

// proved reports if the guest's own uid, and if its cgroup, proves the end of a run. Processes can leave neither. The daemon's
// own user could take them out of the cgroup, so for that user only Landlock keeps them in.
func (r *runFile) proved(guestUID uint32) (byUID, byGroup bool) {
	return guestUID != 0 && *r.UID == guestUID, r.grouped() && (*r.UID != uint32(os.Geteuid()) || r.Confined)
}

// The doubts about a run that stay until a person has looked, or the host starts again.
const (
	ownUserDoubt     = "it ran as the daemon's own user, without a cgroup"
	unknownUserDoubt = "nothing says as which user it ran"
)

// judge says what proves that no process of an ended run is left, and none of a run before it.
func (d *Driver) judge(ctx context.Context, l lostGuest, empty bool) verdict {
	v := d.judgeRun(ctx, l, empty)
	if v == (verdict{}) { // what proved the end of this run proves nothing about an earlier one
		v.doubt = l.run.Unproved
	}
	return v
}

func (d *Driver) judgeRun(ctx context.Context, l lostGuest, empty bool) verdict {
	if l.run == nil || l.run.UID == nil {
		return verdict{doubt: unknownUserDoubt}
	}
	uid, own := *l.run.UID, uint32(os.Geteuid())
	byUID, byGroup := l.run.proved(l.uid)
	switch {
	case empty && byGroup, byUID: // awaitUID proved it
		return verdict{}
	case uid != own:
		if none, err := proc.NoneOf(uid); none || err != nil {
			return verdict{err: err}
		}
	}
	if l.tie != nil {
		return verdict{err: d.hunt(ctx, l)}
	}
	if uid == own {
		return verdict{doubt: ownUserDoubt}
	}
	for _, a := range d.accounts {
		if a.Switch && a.UID == uid {
			return verdict{doubt: fmt.Sprintf("it ran without a cgroup as uid %d, which others may have, too", uid)}
		}
	}
	return verdict{err: fmt.Errorf("processes have the uid %d, as which it ran", uid)}
}

// huntPause is how long a hunt waits between two looks, so that what it killed can end.
const huntPause = 10 * time.Millisecond

// hunt kills the marked processes of a run until its tie is cut, or ctx ends. It may never catch
// a process that forks without pause. Then it fails, and the tie still tells the truth.
func (d *Driver) hunt(ctx context.Context, l lostGuest) error {
	mark := markOf(l.inc)
	want := sought{marks: map[string]bool{mark: true}, uids: d.uidsOf(l.run)}
	for {
		if cut, err := l.tie.cut(huntPause); cut || err != nil {
			return err
		}
		if left, _ := d.killMarked(ctx, want); left[mark] != nil {
			return fmt.Errorf("the kernel says that some are left, which no look finds: %w", left[mark])
		}
	}
}
