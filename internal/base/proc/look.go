package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
