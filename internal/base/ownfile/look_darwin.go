package ownfile

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// How a file is opened that is looked at: macOS has no O_PATH, so the file has to be readable. A
// link is opened itself (open(2), O_SYMLINK).
const (
	lookOnly   = unix.O_RDONLY | unix.O_NONBLOCK
	linkItself = unix.O_SYMLINK
)

// readLink returns the target of a link in the open directory above it.
func readLink(above int, f *found) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(above, f.name, b)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: f.path, Err: err}
	}
	return string(b[:n]), nil
}
