package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process has the properties of one process at one moment.
type Process struct {
	PID      int
	Parent   int    // 0 if the parent is outside the reader's PID namespace
	Session  int    // the pid of its session's leader, which may have ended
	Terminal int    // the device of its controlling terminal, 0 if it has none
	Start    uint64 // clock ticks since boot
	UID      uint32 // the effective uid
	OneUID   bool   // the real, saved and file-system uids equal the effective uid
	Foreign  bool   // it lives in a PID namespace below the reader's
}

// Read returns the properties of the process that has this pid now. All of them are of one
// process, even if the pid changes hands meanwhile. If there is no process, the error is
// ErrGone.
func Read(pid int) (Process, error) {
	// A descriptor of /proc/PID belongs to the process, not to its number.
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, gone(err)
	}
	defer unix.Close(dir)
	status, err := readAt(dir, "status")
	if err != nil {
		return Process{}, err
	}
	stat, err := readAt(dir, "stat")
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(stat)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	if err := p.parseStatus(status); err != nil {
		return Process{}, fmt.Errorf("/proc/%d/status: %w", pid, err)
	}
	return p, nil
}

// ReadStat is Read without UID, OneUID and Foreign, in half the time.
func ReadStat(pid int) (Process, error) {
	b, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/stat")
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(b)
	if err != nil {
		return Process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return p, nil
}

// gone reports whether an error says that the process has ended.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// readAt reads a whole small file.
func readAt(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone(err)
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 2048)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, gone(err)
		}
		if n == 0 {
			return b, nil
		}
		b = b[:len(b)+n]
	}
}

// parseStat reads proc_pid_stat(5). The second field is the program's name in parentheses. The
// name may have spaces, parentheses and line feeds.
func parseStat(b []byte) (Process, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Process{}, errors.New("it has no name")
	}
	fields := strings.Fields(string(b[end+1:]))
	const last = 22
	if len(fields) < last-2 {
		return Process{}, fmt.Errorf("it has %d fields", len(fields)+2)
	}
	var p Process
	var err error
	number := func(field int) int { // counted from 1, as the manual page does
		n, e := strconv.Atoi(fields[field-3])
		err = errors.Join(err, e)
		return n
	}
	p.Parent, p.Session, p.Terminal = number(4), number(6), number(7)
	var e error
	p.Start, e = strconv.ParseUint(fields[last-3], 10, 64)
	err = errors.Join(err, e)
	p.PID, e = strconv.Atoi(strings.TrimSpace(string(b[:open])))
	return p, errors.Join(err, e)
}

// parseStatus adds the uids and the PID namespaces from proc_pid_status(5).
func (p *Process) parseStatus(b []byte) error {
	var uids, pids []string
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "Uid":
			uids = strings.Fields(string(value))
		case "NSpid":
			pids = strings.Fields(string(value))
		}
	}
	if len(uids) != 4 || len(pids) == 0 {
		return errors.New("the lines Uid and NSpid are not as they should be")
	}
	euid, err := strconv.ParseUint(uids[1], 10, 32)
	if err != nil {
		return err
	}
	p.UID = uint32(euid)
	p.OneUID = uids[0] == uids[1] && uids[2] == uids[1] && uids[3] == uids[1]
	p.Foreign = len(pids) > 1
	return nil
}

// UID returns the effective uid of the process that has this pid now, or ErrGone. It reads no
// memory of the process, so that the process cannot delay it.
func UID(pid int) (uint32, error) {
	b, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/status")
	if err != nil {
		return 0, err
	}
	var p Process
	if err := p.parseStatus(b); err != nil {
		return 0, fmt.Errorf("/proc/%d/status: %w", pid, err)
	}
	return p.UID, nil
}

// MidExec reports whether the process that has this pid now is between two programs. It then
// has the memory of the new one, but no environment yet. A process that emptied or unmapped its
// environment does not count. MidExec is false for a kernel thread, a zombie, and a process
// that may not be traced (PTRACE_MODE_READ_FSCREDS in ptrace(2)).
func MidExec(pid int) (bool, error) {
	name := "/proc/" + strconv.Itoa(pid)
	b, err := readAt(unix.AT_FDCWD, name+"/stat")
	if err != nil {
		return false, err
	}
	end, err := parseEnvEnd(b)
	if err != nil {
		return false, fmt.Errorf("%s/stat: %w", name, err)
	}
	if end != 0 {
		return false, nil
	}
	var link [1]byte
	_, err = unix.Readlink(name+"/exe", link[:])
	return err == nil, nil
}

// parseEnvEnd reads field 51 of proc_pid_stat(5), the end of the environment. The kernel sets
// it when it loads a program, and prctl(2) does not accept 0 for it.
func parseEnvEnd(b []byte) (uint64, error) {
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const field = 51 // counted from 1; the third is the first after the name
	if len(fields) < field-2 {
		return 0, errors.New("it does not say where the environment ends")
	}
	return strconv.ParseUint(fields[field-3], 10, 64)
}

// ErrGone says that no process has the pid any more.
var ErrGone = errors.New("there is no such process")

// ID identifies one process. No later process has the same ID.
type ID struct {
	PID   int    // in the reader's PID namespace
	Start uint64 // clock ticks since boot, field 22 of proc_pid_stat(5)
	Boot  string // the kernel's boot id
}

// BootID returns the kernel's random id of this boot, random(4).
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// OpenPID returns a pidfd of the process that has the pid now, or nil. Use it only to wait: to
// signal a process, a pid is not safe enough.
func OpenPID(pid int) (*FD, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // EINVAL: the number is now a thread's
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	return NewFD(fd)
}

// Open returns a pidfd of the process with this pid and this start tick, or nil if it is gone.
func Open(pid int, start uint64) (*FD, error) {
	p, err := OpenPID(pid)
	if p == nil || err != nil {
		return nil, err
	}
	// It reads the start time after it opened the pidfd. If the times agree now, the pid
	// belonged to that process then, too.
	now, err := ReadStat(pid)
	if err == nil && now.Start == start {
		return p, nil
	}
	p.Close()
	if err == nil || errors.Is(err, ErrGone) {
		return nil, nil
	}
	return nil, err
}
