package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
)

// lineage is a registered process and the way up to it.
type lineage struct {
	to    *entry         // nil if there is none
	chain []proc.Process // from the peer up to the registered process
}

// Who returns the registration of the nearest registered process that the peer is or descends from. ok is false if the
// peer has ended, cannot be seen, or has no such process. It is also false if the lineage changed during the walk, or
// passes through another uid, another PID namespace or a process that took a child in. Such a caller is only its uid.
//
// reaper, if not 0, is what the caller measured with Reaper. It can only take a name away: if orphans go to the
// registered process, or to one between it and the peer, the peer may be such an orphan.
func (r *Registry) Who(p *Peer, reaper int) (reg Registration, ok bool) {
	if r.blind != "" || p.handle == nil || p.PID <= 1 {
		return Registration{}, false
	}
	// The lock keeps registrations as they are during this walk, so that the answer is for one moment.
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.byPID) == 0 {
		return Registration{}, false
	}
	l, known := p.recall(r.epoch)
	if !known {
		if l, ok = r.lineage(p); !ok {
			return Registration{}, false
		}
		p.remember(l, r.epoch)
	}
	if l.to == nil {
		return Registration{}, false
	}
	if reaper != 0 && len(l.chain) > 1 && index(l.chain, reaper) >= 0 {
		return Registration{}, false
	}
	// This check is last: while both processes live, the pids that were read were theirs.
	if p.handle.Ended() || l.to.handle.Ended() {
		return Registration{}, false
	}
	return l.to.Registration, true
}

// lineage walks from the peer to the nearest registered process. ok is false if the walk failed.
func (r *Registry) lineage(p *Peer) (lineage, bool) {
	var to *entry
	chain, err := climb(r.cfg.Table, p.PID, func(q proc.Process) bool {
		to = r.registered(q)
		return to != nil
	})
	if err != nil {
		return lineage{}, false
	}
	if unbroken(chain, p.UID) < len(chain) {
		to = nil
	}
	return lineage{to: to, chain: chain}, true
}

// registered returns the committed entry of a process, or nil.
func (r *Registry) registered(p proc.Process) *entry {
	e := r.byPID[p.PID]
	if e == nil || !e.committed || e.Process.Start != p.Start {
		return nil
	}
	return e
}

// recall returns the lineage that was found earlier for the peer. A living process keeps its ancestry; only
// registrations may change, and then the registry walks again. It also keeps "no name", because a lineage only gets
// shorter.
func (p *Peer) recall(epoch uint64) (lineage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.known && p.epoch == epoch
}

func (p *Peer) remember(l lineage, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.known, p.epoch = l, true, epoch
}

// Peer is the process at the other end of a connection: the one that called connect(2), even if it handed the
// connection on.
type Peer struct {
	UID uint32 // its effective uid when it connected
	GID uint32 // its effective gid then
	PID int    // 0 if it cannot be seen from here

	socket syscall.RawConn
	handle Handle // nil if the process is not known
	mu     sync.Mutex
	known  bool    // last and epoch are set
	last   lineage // the lineage that was found last
	epoch  uint64  // of the registry, at that time
}

// Connected asks the kernel which process connected: SO_PEERCRED and, from Linux 6.5 on, SO_PEERPIDFD (unix(7)). An
// older kernel gives only the pid, which another process may get between connect and this call. So the caller calls
// Connected right after accept. A peer that has ended is not an error; it has no name.
func Connected(conn syscall.Conn) (*Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *Peer
	var inner error
	if err := raw.Control(func(fd uintptr) { p, inner = peerOf(int(fd)) }); err != nil {
		return nil, err
	}
	if p != nil {
		p.socket = raw
	}
	return p, inner
}

func peerOf(socket int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("SO_PEERCRED: %w", err)
	}
	p := &Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}
	if p.PID <= 0 {
		return p, nil // in a PID namespace that is not below ours
	}
	handle, err := peerHandle(socket, p.PID)
	if handle == nil || err != nil {
		return p, err
	}
	p.handle = handle
	return p, nil
}

// peerHandle returns nil if the peer has ended.
func peerHandle(socket, pid int) (*proc.FD, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		return proc.NewFD(fd)
	case errors.Is(err, unix.ENOPROTOOPT):
		return proc.OpenPID(pid)
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENODATA):
		return nil, nil // kernels answer this for a reaped process
	}
	return nil, fmt.Errorf("SO_PEERPIDFD: %w", err)
}

// Alive reports whether the peer's process is known and has not ended.
func (p *Peer) Alive() bool { return p.handle != nil && !p.handle.Ended() }

// Close releases the process. The peer then has no name.
func (p *Peer) Close() {
	if p.handle != nil {
		p.handle.Close()
	}
}

// maxDepth bounds a walk. Lineages that people make have a dozen steps.
const maxDepth = 256

// errMoved says that processes changed during a walk over them.
var errMoved = errors.New("the processes changed while they were looked at")

// climb reads the processes from pid upwards, until last says stop or no more can be seen; it never includes pid 1.
// Then it reads each of them again. A process is only ever handed to a process that was its ancestor before. So if its
// start and parent are the same in both readings, they held in between. The whole chain held at the moment after the
// first readings and before the second ones.
func climb(t Table, pid int, last func(proc.Process) bool) ([]proc.Process, error) {
	var chain []proc.Process
	for next := pid; next > 1; {
		if len(chain) == maxDepth {
			return nil, errors.New("the processes are nested too deep")
		}
		p, err := t.Read(next)
		if hidden := errors.Is(err, proc.ErrGone) || errors.Is(err, fs.ErrPermission); hidden && len(chain) > 0 {
			break // it has ended; the second reading sees that its child was handed on
		}
		if err != nil {
			return nil, err
		}
		if n := len(chain); p.PID != next || n > 0 && p.Start > chain[n-1].Start {
			return nil, errMoved // a parent is never younger than its child
		}
		chain = append(chain, p)
		if last(p) {
			break
		}
		next = p.Parent
	}
	for _, was := range chain {
		now, err := t.ReadStat(was.PID)
		if err != nil || now.Start != was.Start || now.Parent != was.Parent || now.Session != was.Session {
			return nil, errMoved
		}
	}
	return chain, nil
}

// passes reports whether a name passes from parent to child. It does not pass if the child has another uid or PID
// namespace. It also does not pass if the child's session is neither its parent's nor its own: then the parent took the
// child in, or left the session since.
func passes(parent, child proc.Process) bool {
	return passable(parent) && passable(child) && parent.UID == child.UID &&
		(child.Session == parent.Session || child.Session == child.PID)
}

func passable(p proc.Process) bool { return p.OneUID && !p.Foreign }

// unbroken returns through how many processes of a chain, from the lowest, a name passes for a caller with this uid.
func unbroken(chain []proc.Process, uid uint32) int {
	for i, p := range chain {
		if i == 0 && !(passable(p) && p.UID == uid) || i > 0 && !passes(p, chain[i-1]) {
			return i
		}
	}
	return len(chain)
}

// index returns the place of a pid in a chain, or -1.
func index(chain []proc.Process, pid int) int {
	for i, p := range chain {
		if p.PID == pid {
			return i
		}
	}
	return -1
}

// someGroups is how many supplementary groups fit at the first try.
const someGroups = 32

// Groups returns the peer's groups at the time when it connected, its effective group first (SO_PEERCRED and
// SO_PEERGROUPS, unix(7)). The kernel keeps them with the connection, so the time of the call does not matter. After
// the connection is closed it is an error. A kernel before 4.13 tells the effective group alone.
func (p *Peer) Groups() ([]uint32, error) {
	groups := []uint32{p.GID}
	if p.socket == nil {
		return groups, nil
	}
	var more []uint32
	var inner error
	if err := p.socket.Control(func(fd uintptr) { more, inner = peerGroups(fd) }); err != nil {
		return nil, err
	}
	return append(groups, more...), inner
}

func peerGroups(socket uintptr) ([]uint32, error) {
	more, err := askGroups(socket, someGroups)
	if errors.Is(err, unix.ERANGE) {
		more, err = askGroups(socket, len(more))
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("SO_PEERGROUPS: %w", err)
	}
	return more, nil
}

// askGroups has room for n groups. If there are more, it fails with ERANGE and returns their number, without the
// groups.
func askGroups(socket uintptr, n int) ([]uint32, error) {
	groups := make([]uint32, n)
	size := uint32(n) * uint32(unsafe.Sizeof(groups[0]))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, socket, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
	n = int(size / uint32(unsafe.Sizeof(groups[0])))
	switch errno {
	case 0:
		return groups[:n], nil
	case unix.ERANGE:
		return make([]uint32, n), errno
	}
	return nil, errno
}

// WhyNot says, in a sentence for people, why Who has no registration for a peer; "" if it has one. It looks again.
func (r *Registry) WhyNot(p *Peer) string {
	switch {
	case r.blind != "":
		return "processes cannot be recognised: " + r.blind + "; a token would do"
	case p.PID <= 1 || p.handle == nil:
		return "the calling process cannot be seen from here: it has ended, or is in another PID namespace; a token would do"
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var to *entry
	chain, err := climb(r.cfg.Table, p.PID, func(q proc.Process) bool {
		to = r.registered(q)
		return to != nil
	})
	switch n := unbroken(chain, p.UID); {
	case !p.Alive():
		return "the calling process has ended"
	case err != nil:
		return fmt.Sprintf("its lineage cannot be told: %v", err)
	case n < len(chain):
		return broken(chain, n, p.UID)
	case to == nil:
		return unregistered(chain)
	case !to.alive():
		return fmt.Sprintf("%q, from which it descends, has ended", to.Name)
	}
	return ""
}

// broken says why a name does not pass the n-th process of a chain.
func broken(chain []proc.Process, n int, uid uint32) string {
	p := chain[n]
	switch {
	case p.Foreign && n == 0:
		return "the calling process is in another PID namespace; a token would do"
	case !p.OneUID || p.UID != uid:
		return fmt.Sprintf("process %d, in its lineage, has other uids than %d alone; a name does not pass through sudo", p.PID, uid)
	case p.Foreign:
		return fmt.Sprintf("process %d, in its lineage, is in another PID namespace", p.PID)
	default:
		return fmt.Sprintf("process %d took process %d in and did not start it: its session is another one", p.PID, chain[n-1].PID)
	}
}

// unregistered says that no process in a whole chain is registered. The chain of an orphan is short.
func unregistered(chain []proc.Process) string {
	top := chain[len(chain)-1]
	if len(chain) == 1 {
		return fmt.Sprintf("process %d is not registered, and its parent is process %d: it is an orphan, or a service", top.PID, top.Parent)
	}
	return fmt.Sprintf("neither process %d nor one of the %d above it, up to process %d, is registered", chain[0].PID, len(chain)-1, top.PID)
}
