package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"gated/internal/op"

	"golang.org/x/sys/unix"
)

// markVar is the one environment variable that the driver adds: processes that
// left their session are found by it.
const markVar = "GATED_GUEST"

func markOf(inc op.Incarnation) string { return markVar + "=" + string(inc) }

func kernelBootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// startTicks returns when a process started, in clock ticks since boot: field
// 22 of proc_pid_stat(5). With the pid and the boot id it names one process for
// good.
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses and may itself hold
	// spaces and parentheses.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	fields := strings.Fields(string(b[end+1:]))
	const startTime = 22 - 3 // counted from the field after the name
	if len(fields) <= startTime {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}

// openProcess returns a pidfd of the process that has this pid and started at
// this tick, or nil if there is no such process any more.
func openProcess(pid int, ticks uint64) (*pidfd, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil // EINVAL: no longer a process but a thread's number
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	p, err := newPidfd(fd)
	if err != nil {
		return nil, err
	}
	// Read after the pidfd was opened: if the times agree now, the pid belonged to
	// that process then, too.
	now, err := startTicks(pid)
	if err == nil && now == ticks {
		return p, nil
	}
	p.close()
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return nil, err
}

// waitPID waits for whatever process has the pid now. It is for waiting alone: a
// pid is not enough to signal by.
func waitPID(ctx context.Context, pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return nil // it ended
	}
	p, err := newPidfd(fd)
	if err != nil {
		return err
	}
	defer p.close()
	return p.wait(ctx)
}

// marked returns pidfds of all processes whose environment at their last exec
// had one of the marks, by mark. Processes that may not be looked into are
// skipped: they are another user's.
func marked(marks map[string]bool) (map[string][]*pidfd, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[string][]*pidfd{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if mark := readMark(pid); !marks[mark] {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it ended
		}
		p, err := newPidfd(fd)
		if err != nil {
			return found, err
		}
		if mark := readMark(pid); marks[mark] && !p.ended() {
			found[mark] = append(found[mark], p) // still the one that the pidfd is of
		} else {
			p.close()
		}
	}
	return found, nil
}

// readMark returns a process's mark, or "".
func readMark(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	for range execTries {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return ""
		}
		for _, kv := range bytes.Split(env, []byte{0}) {
			if bytes.HasPrefix(kv, []byte(markVar+"=")) {
				return string(kv)
			}
		}
		if len(env) > 0 || !midExec(dir) {
			return ""
		}
		<-time.After(time.Millisecond) // there is nothing to wait on for the end of an exec
	}
	return ""
}

// execTries bounds the looks at a process that seems to be executing a program.
const execTries = 100

// midExec reports whether a process without an environment is only between two
// programs: then it has no arguments either, yet it has a program, which a
// kernel thread and a zombie have not.
func midExec(dir string) bool {
	args, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(args) > 0 {
		return false
	}
	_, err = os.Readlink(dir + "/exe")
	return err == nil
}
