package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// NoneOf reports whether the kernel has no process whose real uid is this one. A process that
// has ended counts until its parent has collected it.
//
// getpriority(2) walks the kernel's own list of processes, and a new process is put at the end of
// that list before its parent can end. So NoneOf also sees a process that forks from parent to
// child without pause. A walk through /proc can miss such a process. NoneOf needs no right over
// the processes, and no mount option of /proc hides one. It refuses uid 0, because 0 means the
// caller to that call.
func NoneOf(uid uint32) (bool, error) {
	if uid == 0 {
		return false, errors.New("getpriority: uid 0 means the caller")
	}
	_, err := unix.Getpriority(unix.PRIO_USER, int(uid))
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("getpriority of uid %d: %w", uid, err)
	}
	return false, nil
}
