package state

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// File identifies a file apart from its name.
type File struct {
	Inode uint64
	Birth int64 // birth time, in ns since 1970; 0 if the file system does not record it
}

// statFile reads File by path with statx(2). It opens nothing, because closing a descriptor of a database would drop
// SQLite's locks on it.
func statFile(path string) (File, error) {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &s)
	if err != nil {
		return File{}, fmt.Errorf("statx %s: %w", path, err)
	}
	f := File{Inode: s.Ino}
	if s.Mask&unix.STATX_BTIME != 0 {
		f.Birth = s.Btime.Sec*1_000_000_000 + int64(s.Btime.Nsec)
	}
	return f, nil
}
