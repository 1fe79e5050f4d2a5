// Package forker is a program for tests alone that leaves its session and then forks from parent to child without pause. Each
// process lives for one fork. A look at one process after the other can miss all of them.
//
// A process that ended keeps its pid until its parent collects it, and init may be slower than a fork. So a forker that nobody
// bounds takes every pid of the machine, and no test beside it can start anything. Therefore a chain waits while the process
// that it was some forks ago still has its pid.
package forker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arg is the first argument that makes a program a forker.
const arg = "__forker"

// The files that a forker makes in its directory.
const (
	aliveFile = "forker-alive" // locked as long as one of its processes lives
	upFile    = "forker-up"    // it forks
	overFile  = "forker-over"  // its time is over
	endFile   = "forker-end"   // if there, it ends
)

// chains is how many processes of a forker live at any moment. Each of them has at most uncollected+1 dead ancestors whose pids
// are in use.
const (
	chains      = 4
	uncollected = 16
)

// Time is how long a forker forks if nobody ends it, so that a test that fails leaves nothing.
const Time = 90 * time.Second

// Command is a command line of a program with MaybeFork. With stay, the first process stays and ignores SIGTERM. Else it ends.
func Command(program string, stay bool) []string {
	return []string{program, arg, strconv.FormatBool(stay)}
}

// Program copies this program to a directory that every user may read, because a forker may be another user's.
func Program(dir string) (string, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	path := filepath.Join(dir, "forker")
	// Another program writes the file, because what is open for writing cannot be run, and a child that this one starts
	// meanwhile would keep it open.
	cmd := exec.Command("dd", "of="+path, "bs=1M", "status=none")
	cmd.Stdin = self
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy this program: %w: %s", err, out)
	}
	return path, os.Chmod(path, 0o755)
}

// Up reports whether the forker in this directory has begun to fork.
func Up(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, upFile))
	return err == nil
}

// End ends the forker in this directory.
func End(dir string) error { return os.WriteFile(filepath.Join(dir, endFile), nil, 0o644) }

// Alive reports whether a process of the forker in this directory lives. Each of its processes has inherited a lock that the
// kernel takes back only with the last of them. It is an error if the forker's own time is over, or if none began.
func Alive(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, overFile)); err == nil {
		return false, fmt.Errorf("the forker ended by itself after %s", Time)
	}
	fd, err := unix.Open(filepath.Join(dir, aliveFile), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	return false, err
}

// MaybeFork turns this process into a forker, in its current directory, if it was started as one. Then it does not return.
// TestMain calls it.
func MaybeFork() {
	if len(os.Args) != 3 || os.Args[1] != arg {
		return
	}
	fmt.Fprintln(os.Stderr, begin(os.Args[2] == "true"))
	os.Exit(1)
}

func begin(stay bool) error {
	runtime.LockOSThread()
	lock, err := unix.Open(aliveFile, unix.O_RDWR|unix.O_CREAT, 0o666)
	if err != nil {
		return err
	}
	if err := unix.Flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	if stay {
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
			ignore(sig)
		}
	}
	over, stop := must(unix.BytePtrFromString(overFile)), must(unix.BytePtrFromString(endFile))
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		return errno
	}
	end := now.Sec + int64(Time/time.Second)
	for range chains {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			chain(end, over, stop)
		}
	}
	if err := os.WriteFile(upFile, nil, 0o666); err != nil {
		return err
	}
	const look = 10 * time.Millisecond
	for left := Time; stay && left > 0 && unix.Faccessat(unix.AT_FDCWD, endFile, unix.F_OK, 0) != nil; left -= look {
		_, _ = unix.Poll(nil, int(look.Milliseconds()))
	}
	os.Exit(0)
	return nil
}

func must(p *byte, err error) *byte {
	if err != nil {
		panic(err)
	}
	return p
}

// ignore ignores a signal in the kernel. Package signal would need threads that a child does not have.
func ignore(sig unix.Signal) {
	action := [4]uintptr{1} // SIG_IGN
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// These are a chain's own. A child inherits a copy.
var (
	now       unix.Timespec
	ancestors [uncollected]uintptr // the last pids that this chain had
	pause     = unix.Timespec{Nsec: 50_000}
)

// chain leaves the session and forks. The parent ends and the child goes on, without pause, until the end in seconds. A child is
// a copy with one thread. It must not use the Go runtime, only system calls.
//
//go:norace
//go:nosplit
func chain(end int64, over, stop *byte) {
	const here = ^uintptr(99) // AT_FDCWD
	for n := uint(0); ; {
		_, _, errno := unix.RawSyscall(unix.SYS_FACCESSAT, here, uintptr(unsafe.Pointer(stop)), 0)
		if errno == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&now)), 0)
		if now.Sec >= end {
			_, _, _ = unix.RawSyscall6(unix.SYS_OPENAT, here, uintptr(unsafe.Pointer(over)), unix.O_CREAT, 0o666, 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if pid := ancestors[n%uncollected]; pid != 0 {
			if _, _, errno := unix.RawSyscall(unix.SYS_KILL, pid, 0, 0); errno == 0 { // nobody has collected it
				_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
				continue
			}
		}
		_, _, _ = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		mine, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid != 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno == 0 {
			ancestors[n%uncollected] = mine
			n++
		}
	}
}
