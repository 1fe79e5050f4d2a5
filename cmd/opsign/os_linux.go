package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// What termios(3) calls TCGETS, TCSETS and TCSETSF.
const (
	getTermios      = unix.TCGETS
	setTermios      = unix.TCSETS
	setTermiosFlush = unix.TCSETSF
)

// forget drops what was typed into a terminal and not read yet.
func forget(tty *os.File) { _ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) }

// renameNew gives a file a name that no other has. Where a file system cannot rename so (EINVAL,
// renameat2(2)), it has hard links.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = os.Link(from, to)
	}
	return err
}
