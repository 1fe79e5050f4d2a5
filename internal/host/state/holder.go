package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience is how long Open waits for the lock of a process that is ending. The kernel releases a killed process's
// locks after it has freed its memory and files, which can take long.
const lockPatience = 2 * time.Second

// awaitLock waits for the lock, at most for patience. It reports whether f has the lock. If not, f is closed, now or
// when the kernel grants the lock after all.
func awaitLock(f *os.File, patience time.Duration) (bool, error) {
	got := make(chan error, 1)
	go func() { got <- blockingLock(f) }()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-got:
		if err != nil {
			return false, errors.Join(err, f.Close())
		}
		return true, nil
	case <-late.C:
		go func() { <-got; _ = f.Close() }() // which releases a lock that came too late
		return false, nil
	}
}

func blockingLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ends reports whether a process is gone or must end: it is a zombie, is leaving, or was sent SIGKILL. If that cannot
// be told, the process counts as alive.
func ends(pid int) bool {
	if err := unix.Kill(pid, 0); err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	return leaving(stat) || killed(status)
}

// exiting is PF_EXITING of the kernel's flags of a process.
const exiting = 0x4

// leaving reads proc_pid_stat(5): state and flags are the first and the seventh field after the name. The name is in
// parentheses and may have some itself.
func leaving(stat []byte) bool {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return strings.Contains("ZXx", fields[0]) || err == nil && flags&exiting != 0
}

// killed reads proc_pid_status(5): whether SIGKILL is pending. For a whole process it stays pending until the process
// is gone.
func killed(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}
