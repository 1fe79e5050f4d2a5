package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// What termios(3) calls TCGETS, TCSETS and TCSETSF.
const (
	getTermios      = unix.TIOCGETA
	setTermios      = unix.TIOCSETA
	setTermiosFlush = unix.TIOCSETAF
)

// readQueue is FREAD of sys/fcntl.h, the queue of what was typed (tty(4), TIOCFLUSH).
const readQueue = 1

// forget drops what was typed into a terminal and not read yet.
func forget(tty *os.File) {
	_ = unix.IoctlSetPointerInt(int(tty.Fd()), unix.TIOCFLUSH, readQueue)
}

// renameNew gives a file a name that no other has. Where a file system cannot rename so (ENOTSUP,
// renamex_np(2)), it has hard links.
func renameNew(from, to string) error {
	err := unix.RenamexNp(from, to, unix.RENAME_EXCL)
	if errors.Is(err, unix.ENOTSUP) {
		err = os.Link(from, to)
	}
	return err
}
