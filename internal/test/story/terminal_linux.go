package story

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewTerminal returns both sides of a new terminal, as pts(4) says. They are open if err is nil; if not, a side that is
// not nil is open too.
func NewTerminal() (person, program *os.File, err error) {
	if person, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return person, nil, err
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		return person, nil, err
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return person, program, err
}
