package agent

import (
	"context"
	"os"
	"slices"
	"sync"

	"gated/internal/base/proc"
)

// fakeTable is processes that do what a test wants, also between two looks.
// Its pids are few, so that they are given again.
type fakeTable struct {
	mu    sync.Mutex
	byPID map[int]*fakeProcess
	tick  uint64
	init  *fakeProcess
	look  func() // before each look
}

// fakeProcess is one process. Its parent is the one that the kernel would say;
// nothing here remembers who made it.
type fakeProcess struct {
	proc.Process
	parent    *fakeProcess
	subreaper bool
	ended     chan struct{}
}

func newFakeTable() *fakeTable {
	t := &fakeTable{byPID: map[int]*fakeProcess{}, look: func() {}}
	t.init = t.fork(nil, 1)
	t.fork(t.init, os.Getpid()) // the daemon, which looks at itself first
	return t
}

// fork makes a process with a pid that is free.
func (t *fakeTable) fork(parent *fakeProcess, pid int) *fakeProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tick++
	p := &fakeProcess{parent: parent, ended: make(chan struct{})}
	p.Process = proc.Process{PID: pid, Session: pid, Start: t.tick / 16, UID: 1000, OneUID: true} // several share a tick
	if parent != nil {
		p.Session, p.UID, p.OneUID, p.Foreign = parent.Session, parent.UID, parent.OneUID, parent.Foreign
	}
	t.byPID[pid] = p
	return p
}

// exit ends a process, whose children go to the nearest subreaper or to pid 1.
func (t *fakeTable) exit(p *fakeProcess) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reaper := p.parent
	for reaper != t.init && !reaper.subreaper {
		reaper = reaper.parent
	}
	for _, c := range t.byPID {
		if c.parent == p {
			c.parent = reaper
		}
	}
	delete(t.byPID, p.PID)
	close(p.ended)
}

// all returns the processes but for pid 1 and the daemon, by pid.
func (t *fakeTable) all() []*fakeProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*fakeProcess
	for pid, p := range t.byPID {
		if pid != 1 && pid != os.Getpid() {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *fakeProcess) int { return a.PID - b.PID })
	return all
}

// alive reports whether p is in the table still.
func (t *fakeTable) alive(p *fakeProcess) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byPID[p.PID] == p
}

func (t *fakeTable) Read(pid int) (proc.Process, error) {
	t.look()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byPID[pid]
	if p == nil {
		return proc.Process{}, proc.ErrGone
	}
	said := p.Process
	if p.parent != nil {
		said.Parent = p.parent.PID
	}
	return said, nil
}

func (t *fakeTable) ReadStat(pid int) (proc.Process, error) {
	p, err := t.Read(pid)
	p.UID, p.OneUID, p.Foreign = 0, false, false
	return p, err
}

func (t *fakeTable) Open(pid int, start uint64) (Handle, error) {
	t.look()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byPID[pid]
	if p == nil || p.Start != start {
		return nil, nil
	}
	return newFakeHandle(p), nil
}

// peer is a connection that p has opened.
func (p *fakeProcess) peer() *Peer { return &Peer{UID: p.UID, PID: p.PID, handle: newFakeHandle(p)} }

type fakeHandle struct {
	p      *fakeProcess
	closed chan struct{}
	once   sync.Once
}

func newFakeHandle(p *fakeProcess) *fakeHandle { return &fakeHandle{p: p, closed: make(chan struct{})} }

func (h *fakeHandle) Close() { h.once.Do(func() { close(h.closed) }) }

func (h *fakeHandle) Ended() bool {
	select {
	case <-h.closed:
		return false
	case <-h.p.ended:
		return true
	default:
		return false
	}
}

func (h *fakeHandle) Wait(ctx context.Context) error {
	select {
	case <-h.p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.closed:
		return os.ErrClosed
	}
}
