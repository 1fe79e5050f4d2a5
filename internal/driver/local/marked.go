package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
)

const (
	// maxReads bounds the environments that are read at once, with the reads that do not come
	// back. Each read holds a thread.
	maxReads = 64
	// seekWait bounds one look at all processes.
	seekWait = 5 * time.Second
	// execTries bounds the further looks at a process that is between two programs. They come
	// after 1, 2, 4 ms and so on, 255 ms in all.
	execTries = 8
	// overflowUID is the owner of a process if its uid has no number in this user namespace.
	overflowUID = 65534
)

// seeker finds the processes that carry a guest's mark. The kernel reads an environment from
// the process' own memory, and the process can delay that. So seeker only reads processes whose
// uid a guest can have, at the same time and for a bounded time. Of other processes it only
// reads the uid.
type seeker struct {
	environ func(pid int) ([]byte, error) // of a process
	wait    time.Duration                 // for one look at all processes
	reads   chan struct{}                 // one place for each read under way

	mu   sync.Mutex
	slow map[int]*reading // reads that seeker gave up and that have not come back, by process
}

func newSeeker() *seeker {
	return &seeker{environ: environ, wait: seekWait, reads: make(chan struct{}, maxReads), slow: map[int]*reading{}}
}

func environ(pid int) ([]byte, error) { return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") }

// sought is the target of one look at all processes.
type sought struct {
	marks map[string]bool
	uids  map[uint32]bool // the uids that a process with such a mark can have
}

// marked returns pidfds, by mark, of all processes whose environment at their last exec had one
// of the marks. It skips processes that it may not read. If it could not look at some, it
// returns an error with the reason, and the processes that it found. The caller closes them.
func (s *seeker) marked(ctx context.Context, want sought) (map[string][]*proc.FD, error) {
	bounded, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	found := map[string][]*proc.FD{}
	pids, err := candidates(bounded, want)
	for try := 0; err == nil && len(pids) > 0; try++ {
		if pids, err = s.look(bounded, pids, want.marks, found); err != nil || try == execTries {
			break
		}
		if len(pids) > 0 { // the end of an exec sends no event to wait on
			select {
			case <-time.After(time.Millisecond << try):
			case <-bounded.Done():
			}
		}
	}
	if ctx.Err() != nil {
		return found, ctx.Err()
	}
	return found, err
}

// look reads the environments of processes and adds to found each process with a mark. It
// returns the processes that are between two programs.
func (s *seeker) look(ctx context.Context, pids []int, marks map[string]bool, found map[string][]*proc.FD) (between []int, err error) {
	envs, err := s.read(ctx, pids)
	for pid, env := range envs {
		if len(env) == 0 {
			if mid, _ := proc.MidExec(pid); mid {
				between = append(between, pid)
			}
		}
		mark := markIn(env)
		if !marks[mark] {
			continue
		}
		p, e := proc.OpenPID(pid)
		if p == nil {
			err = errors.Join(err, e) // nil if the process ended
			continue
		}
		again, e := s.read(ctx, []int{pid})
		if markIn(again[pid]) != mark || p.Ended() {
			p.Close()
			err = errors.Join(err, e)
			continue
		}
		found[mark] = append(found[mark], p) // still the process of the pidfd
	}
	return between, err
}

// reading is one read of a process' environment.
type reading struct {
	pid  int
	env  []byte
	done bool // guarded by seeker.mu
}

// read reads the environments of processes at the same time. The error names the processes
// whose read did not come back before ctx ended. A process that may not be read causes no
// error.
func (s *seeker) read(ctx context.Context, pids []int) (map[int][]byte, error) {
	out := make(chan *reading, len(pids))
	envs := make(map[int][]byte, len(pids))
	var begun []*reading
	for _, pid := range pids {
		if s.isSlow(pid) {
			continue
		}
		select {
		case s.reads <- struct{}{}:
			r := &reading{pid: pid}
			begun = append(begun, r)
			go func() {
				r.env, _ = s.environ(pid)
				s.ended(r)
				out <- r
			}()
		case <-ctx.Done():
		}
	}
	for n := 0; n < len(begun) && ctx.Err() == nil; n++ {
		select {
		case r := <-out:
			envs[r.pid] = r.env
		case <-ctx.Done():
		}
	}
	s.giveUp(begun)
	if n := len(pids) - len(envs); n > 0 {
		return envs, fmt.Errorf("%d processes do not let their environment be read, process %d for one", n, missing(pids, envs))
	}
	return envs, nil
}

func missing(pids []int, envs map[int][]byte) int {
	for _, pid := range pids {
		if _, ok := envs[pid]; !ok {
			return pid
		}
	}
	return 0
}

// isSlow reports whether a read of the process was given up and has not come back. Another read
// would hold another thread.
func (s *seeker) isSlow(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow[pid] != nil
}

// ended records that a read came back.
func (s *seeker) ended(r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	<-s.reads
	r.done = true
	if s.slow[r.pid] == r {
		delete(s.slow, r.pid)
	}
}

// giveUp records which reads did not come back.
func (s *seeker) giveUp(all []*reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if !r.done {
			s.slow[r.pid] = r
		}
	}
}

// markIn returns the mark in an environment, or "".
func markIn(env []byte) string {
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(kv, []byte(markVar+"=")) {
			return string(kv)
		}
	}
	return ""
}

// candidates returns the processes with one of the uids, except this process.
func candidates(ctx context.Context, want sought) ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, errors.New("there are too many processes to look at them all in time")
		}
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if want.uids[uidOf(pid)] {
			out = append(out, pid)
		}
	}
	return out, nil
}

// openOf opens the process with this pid if it has the uid and has not ended.
func openOf(pid int, uid uint32) (*proc.FD, error) {
	p, err := proc.OpenPID(pid)
	if p == nil {
		return nil, err // nil if the process ended
	}
	if uidOf(pid) != uid || p.Ended() {
		p.Close()
		return nil, nil
	}
	return p, nil
}

// uidOf returns the uid of a process, or overflowUID if it cannot be read.
func uidOf(pid int) uint32 {
	var at unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &at) != nil {
		return overflowUID
	}
	if at.Uid != 0 && at.Uid != overflowUID {
		return at.Uid
	}
	// If a process may not be dumped, its entry there belongs to root (proc(5)).
	uid, err := proc.UID(pid)
	if err != nil {
		return overflowUID
	}
	return uid
}

// uuidIndex remembers the uuid in each guest.json. So to find a copy among thousands of guests
// costs one stat each, and no reading.
type uuidIndex struct {
	mu   sync.Mutex
	seen map[string]fileStamp
}

type fileStamp struct {
	ino           uint64
	changed, size int64
	uuid          string // "" if it could not be read
}

// checkAlone refuses with StaleTarget if another guest has g's uuid.
func (x *uuidIndex) checkAlone(d *Driver, g *guest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(d); err != nil {
		return err
	}
	for name, stamp := range x.seen {
		if stamp.uuid == g.UUID && name != g.name {
			return twins(g.name, name)
		}
	}
	return nil
}

// owners returns the names by the uuid in their guest.json.
func (x *uuidIndex) owners(d *Driver) (map[string][]string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(d); err != nil {
		return nil, err
	}
	owners := make(map[string][]string, len(x.seen))
	for name, stamp := range x.seen {
		owners[stamp.uuid] = append(owners[stamp.uuid], name)
	}
	return owners, nil
}

// refresh reads every guest.json that changed since the last read.
func (x *uuidIndex) refresh(d *Driver) error {
	fresh := make(map[string]fileStamp, len(x.seen))
	err := d.root.each(func(name string) error {
		e, err := d.statGuestFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		stamp, known := x.seen[name]
		if err != nil || !known || stamp.ino != e.ino || stamp.changed != e.changed || stamp.size != e.size {
			stamp = fileStamp{e.ino, e.changed, e.size, d.uuidOf(name)}
		}
		fresh[name] = stamp
		return nil
	})
	x.seen = fresh
	return err
}

// uuidOf reads the uuid in a guest.json, without checking it. A file that cannot be read has
// none, because Observe of that guest reports the problem.
func (d *Driver) uuidOf(name string) string {
	sub, err := d.root.sub(name)
	if err != nil {
		return ""
	}
	defer sub.close()
	b, err := sub.read(guestFile)
	if err != nil {
		return ""
	}
	s, err := parseSpec(b)
	if err != nil {
		return ""
	}
	return s.UUID
}
