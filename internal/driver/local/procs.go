package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// killWait is how long the driver waits for a process after SIGKILL. Only a process that the
// kernel cannot interrupt takes longer.
const killWait = 10 * time.Second

// process is a guest's running process: the leader of its own session.
type process struct {
	*proc.FD
	target op.Target // the name under which it was started or found
	inc    op.Incarnation
	uid    uint32 // the uid that only this guest has, 0 if it has none
	run    runFile
	group  cgroup
	tie    *tie          // nil if the kernel gave none, or another daemon has it
	done   chan struct{} // closed when the process and its descendants are gone
}

// processes are the running guests' processes, by incarnation.
type processes struct {
	mu    sync.Mutex
	byInc map[op.Incarnation]*process
	wg    sync.WaitGroup
}

func (ps *processes) get(inc op.Incarnation) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byInc[inc]
}

// watch records p as running until it ends.
func (d *Driver) watch(p *process) {
	d.procs.mu.Lock()
	d.procs.byInc[p.inc] = p
	d.procs.mu.Unlock()
	d.procs.wg.Go(func() {
		if err := p.Wait(context.Background()); err != nil {
			return // the driver was closed; the process goes on
		}
		p.Reap()
		d.endRest(p)
		d.procs.mu.Lock()
		delete(d.procs.byInc, p.inc)
		d.procs.mu.Unlock()
		p.Close()
		close(p.done)
		d.cfg.Logger.Info("process ended", "guest", p.target.Name, "pid", p.run.PID)
		if d.cfg.Exited != nil {
			d.cfg.Exited(p.target)
		}
	})
}

// endRest ends what is left after a guest's first process ended. The group, the cgroup, the uid
// and the mark find it.
func (d *Driver) endRest(p *process) {
	err := p.SignalGroup(unix.SIGKILL)
	if err != nil && !errors.Is(err, unix.EINVAL) { // before Linux 6.9 the others must be enough
		d.cfg.Logger.Warn("process group left behind", "guest", p.target.Name, "err", err)
	}
	d.endLost(context.Background(), []lostGuest{{name: p.target.Name, inc: p.inc, uid: p.uid, group: p.group, tie: p.tie, run: &p.run}})
}

// killRound is how long one round of killMarked waits for what it killed. The next round finds what is left, and a process that
// does not end takes the time of no other one.
const killRound = time.Second

// killMarked kills every process that carries one of the marks. It waits for their end. It looks
// again until it finds none, because the processes may multiply, or until ctx ends. It returns
// the marks that are left, each with the reason, and why a look left processes out.
//
// That it finds none proves nothing. Between the look at one process and at the next, a process
// can fork and end. And a process can empty its environment.
func (d *Driver) killMarked(ctx context.Context, want sought) (left map[string]error, unread error) {
	left = map[string]error{}
	last := want.marks // that the last whole look found
	for {
		found, err := d.seek.marked(ctx, want)
		if err == nil {
			last = map[string]bool{}
		}
		for mark, ps := range found {
			last[mark] = true
			for _, p := range ps {
				left[mark] = errors.Join(left[mark], p.Signal(unix.SIGKILL))
			}
		}
		failed := err != nil
		round, cancel := context.WithTimeout(ctx, killRound)
		for mark, ps := range found {
			for _, p := range ps {
				if e := p.Wait(round); round.Err() == nil {
					left[mark] = errors.Join(left[mark], e)
				}
				p.Close()
			}
			failed = failed || left[mark] != nil
		}
		cancel()
		if ctx.Err() != nil {
			for mark := range last {
				left[mark] = errors.Join(left[mark], ctx.Err())
			}
			return left, nil
		}
		if failed || len(found) == 0 {
			return left, err
		}
	}
}

// uidsOf returns the uids that a guest's processes can have. These are the uid in its run file
// and the daemon's own uid, which a child has until it gets its orders. no_new_privs and the
// lack of capabilities prevent any other uid. If the run file has no uid, uidsOf returns the
// uids of all commands.
func (d *Driver) uidsOf(run *runFile) map[uint32]bool {
	uids := map[uint32]bool{uint32(os.Geteuid()): true}
	if run != nil && run.UID != nil {
		uids[*run.UID] = true
		return uids
	}
	for _, a := range d.accounts {
		if a.Switch {
			uids[a.UID] = true
		}
	}
	return uids
}

// stop ends a guest's process: SIGTERM to its group, then SIGKILL after the grace. It returns
// when all processes of the guest are gone. The detail says if stop killed them, because data
// that such a process had not written is lost. If nothing runs, that is no error. If ctx ends,
// the process got SIGTERM and may still run.
func (d *Driver) stop(ctx context.Context, g *guest) (detail string, err error) {
	p := d.procs.get(g.incarnation())
	if p == nil {
		return d.doubtful(ctx, g, "")
	}
	if err := p.terminate(); err != nil {
		return "", err
	}
	crashpoint.Here(crashpoint.StopSignalled)
	grace, cancel := context.WithTimeout(ctx, d.cfg.StopGrace)
	defer cancel()
	select {
	case <-p.done:
		return d.doubtful(ctx, g, "")
	case <-grace.Done():
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := errors.Join(p.group.kill(), p.Signal(unix.SIGKILL)); err != nil {
		return "", err
	}
	// This bound covers the process itself, and then the processes that it left.
	last, cancel := context.WithTimeout(ctx, 2*killWait)
	defer cancel()
	select {
	case <-p.done:
		return d.doubtful(ctx, g, fmt.Sprintf("killed: it did not end within %s", d.cfg.StopGrace))
	case <-last.Done():
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", errors.New("the process did not end after SIGKILL")
}

// doubtful is the end of a stop. It fails if processes of the guest may be left. If none was
// found and nothing proves that there is none, the detail says so.
func (d *Driver) doubtful(ctx context.Context, g *guest, detail string) (string, error) {
	if err := d.settle(ctx, g); err != nil {
		return "", err
	}
	if l, ok := d.lost.get(g.incarnation()); ok {
		if detail != "" {
			detail += "; "
		}
		detail += notProved(l.doubt)
	}
	return detail, nil
}

// notProved is the sentence for people about a guest of which no process was found.
func notProved(why string) string {
	return "no process was found, but nothing proves that none is left: " + why
}

// stopFirst is stop for a step that takes something afterwards. If it fails, the step took
// nothing yet, and the error says so. The error leaves no doubt about the step, also if ctx
// ended.
func (d *Driver) stopFirst(ctx context.Context, g *guest, doing string) (detail string, err error) {
	detail, err = d.stop(ctx, g)
	if err == nil {
		return detail, nil
	}
	err = refusal.New(refusal.Unavailable, "guest/%s did not stop, so %s took nothing: %v", g.name, doing, err)
	return "", driver.Transient(err)
}

// settleFirst is settle before a permit is used. So no approval is spent on a step that would
// wait for processes of an earlier run.
func (d *Driver) settleFirst(ctx context.Context, g *guest) error {
	if err := d.settle(ctx, g); err != nil {
		return driver.Transient(err)
	}
	return nil
}

// terminate asks the group to end. It continues a stopped group, so that the group can end.
func (p *process) terminate() error {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		err := p.SignalGroup(sig)
		if errors.Is(err, unix.EINVAL) {
			err = p.Signal(sig)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// markVar is the only environment variable that the driver adds. It finds processes that left
// their session.
const markVar = "GATED_GUEST"

func markOf(inc op.Incarnation) string { return markVar + "=" + string(inc) }
