package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"gated/internal/crashpoint"
	"gated/internal/op"
	"gated/internal/proc"

	"golang.org/x/sys/unix"
)

// killWait is how long a process is waited for after SIGKILL. Only one that the
// kernel cannot interrupt takes longer.
const killWait = 10 * time.Second

// process is a guest's running process: the leader of its own session.
type process struct {
	*proc.FD
	target op.Target // under which name it was started or found
	inc    op.Incarnation
	run    runFile
	group  cgroup
	done   chan struct{} // closed when it and what it left behind are gone
}

// processes are the running ones, by incarnation.
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

// watch counts p as running until it ends.
func (d *Driver) watch(p *process) {
	d.procs.mu.Lock()
	d.procs.byInc[p.inc] = p
	d.procs.mu.Unlock()
	d.procs.wg.Go(func() {
		if err := p.Wait(context.Background()); err != nil {
			return // the driver was closed; the process goes on
		}
		if err := p.killStrays(); err != nil {
			d.cfg.Logger.Warn("processes left behind", "guest", p.target.Name, "err", err)
		}
		p.Reap()
		p.group.remove()
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

// killStrays ends what a leader that has ended left behind: its group, its
// cgroup, and what carries its mark.
func (p *process) killStrays() error {
	err := p.SignalGroup(unix.SIGKILL)
	if errors.Is(err, unix.EINVAL) {
		err = nil // before 6.9: the cgroup and the mark have to do
	}
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	mark := markOf(p.inc)
	return errors.Join(err, p.group.drain(), killMarked(ctx, map[string]bool{mark: true})[mark])
}

// killMarked kills every process that carries one of the marks and waits for
// it. It looks again until none is found, for they may be multiplying, or until
// ctx ends. It returns the marks that are left, each with the reason.
func killMarked(ctx context.Context, marks map[string]bool) map[string]error {
	left := map[string]error{}
	for {
		found, err := marked(marks)
		if err != nil {
			for mark := range marks {
				left[mark] = err
			}
			return left
		}
		for mark, ps := range found {
			for _, p := range ps {
				left[mark] = errors.Join(left[mark], p.Signal(unix.SIGKILL))
			}
		}
		failed := false
		for mark, ps := range found {
			for _, p := range ps {
				left[mark] = errors.Join(left[mark], p.Wait(ctx))
				p.Close()
			}
			left[mark] = errors.Join(left[mark], ctx.Err())
			failed = failed || left[mark] != nil
		}
		if failed || len(found) == 0 {
			return left
		}
	}
}

// stop ends a guest's process: SIGTERM to its group, SIGKILL after the grace.
// It returns when the process and its group are gone. Nothing running is no
// error. If ctx ends, the process has had its SIGTERM and may still run.
func (d *Driver) stop(ctx context.Context, inc op.Incarnation) error {
	p := d.procs.get(inc)
	if p == nil {
		return d.settle(inc)
	}
	if err := p.terminate(); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StopSignalled)
	grace, cancel := context.WithTimeout(ctx, d.cfg.StopGrace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-grace.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := errors.Join(p.group.kill(), p.Signal(unix.SIGKILL)); err != nil {
		return err
	}
	last, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-last.Done():
		return errors.Join(errors.New("the process did not end after SIGKILL"), last.Err())
	}
}

// terminate asks the group to end. A stopped one is continued so that it can.
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
