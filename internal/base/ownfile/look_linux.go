package ownfile

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// How a file is opened that is looked at and not read: no permission is needed for it, and a link
// is opened itself (open(2)).
const (
	lookOnly   = unix.O_PATH
	linkItself = unix.O_NOFOLLOW
)

// readLink returns the target of the link that was opened.
func readLink(_ int, f *found) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(f.fd, "", b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: f.path, Err: err}
	}
	return string(b[:n]), nil
}
