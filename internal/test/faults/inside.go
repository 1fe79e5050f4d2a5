package faults

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// controls is a directory that does not exist. To open a name in it is to ask
// the supervisor for something; what it answers is in the place of a descriptor.
const controls = "/gated-faults/"

// Arm is Supervisor.Arm, asked for by a process behind the filter.
func Arm(f Fault) error {
	_, err := control(fmt.Sprintf("arm/%d/%d/%t/%d", f.Nth, f.Errno, f.Lasting, f.Only))
	return err
}

// Disarm is Supervisor.Disarm, asked for by a process behind the filter. It
// returns what kind of call failed first, 0 if none did.
func Disarm() (Kind, error) {
	kind, err := control("disarm")
	return Kind(kind), err
}

func control(what string) (int, error) {
	answer, err := unix.Open(controls+what, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("ask the supervisor: %w", err)
	}
	return answer, nil
}

// asked does what a process asks for by opening a name among the controls.
func (s *Supervisor) asked(path string) (val int64, mine bool) {
	what, mine := strings.CutPrefix(path, controls)
	if !mine {
		return 0, false
	}
	if what == "disarm" {
		if _, hit := s.Disarm(); len(hit) > 0 {
			return int64(hit[0].Kind), true
		}
		return 0, true
	}
	var n [4]int64
	for i, text := range strings.SplitN(strings.TrimPrefix(what, "arm/"), "/", len(n)) {
		if b, err := strconv.ParseBool(text); err == nil && i == 2 {
			if b {
				n[i] = 1
			}
			continue
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, false
		}
		n[i] = v
	}
	s.Arm(Fault{Nth: int(n[0]), Errno: syscall.Errno(n[1]), Lasting: n[2] == 1, Only: Kind(n[3])})
	return 0, true
}
