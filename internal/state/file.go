package state

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// File is what identifies a file beyond its name.
type File struct {
	Inode uint64
	Birth int64 // when it was made, in ns since 1970; 0 where the file system does not record it
}

// statFile reads File by path with statx(2). It opens nothing: closing a
// descriptor of a database would drop the locks that SQLite has on it.
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
