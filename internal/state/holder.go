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

// lockPatience is how long the lock of a process that ends is waited for. What
// was killed gives its locks back when the kernel has taken its memory and files
// away, which takes long where it had much of either.
const lockPatience = 2 * time.Second

// awaitLock waits for the lock, at most that long. It reports whether f has it.
// The file is closed if not: by then, or when the kernel gives the lock after all.
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
		go func() { <-got; _ = f.Close() }() // which gives back what nobody waits for
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

// ends reports whether a process is gone or cannot but go: it is a zombie, is
// leaving, or was sent SIGKILL. One that is not known to is taken as alive.
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

// leaving reads proc_pid_stat(5): the state and the flags are the first and the
// seventh field behind the name, which is in parentheses and may hold some itself.
func leaving(stat []byte) bool {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return strings.Contains("ZXx", fields[0]) || err == nil && flags&exiting != 0
}

// killed reads proc_pid_status(5): whether SIGKILL is pending. That of a whole
// process stays so until it is gone.
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
