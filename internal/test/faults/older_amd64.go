package faults

import "golang.org/x/sys/unix"

// The calls that newer architectures do not have.
func init() {
	for nr, w := range map[int32]where{
		unix.SYS_OPEN:     onPath(Open, 0),
		unix.SYS_CREAT:    onPath(Open, 0),
		unix.SYS_RENAME:   onPath(Rename, 1),
		unix.SYS_RENAMEAT: below(Rename, 2),
		unix.SYS_UNLINK:   onPath(Unlink, 0),
		unix.SYS_RMDIR:    onPath(Unlink, 0),
		unix.SYS_MKDIR:    onPath(Make, 0),
		unix.SYS_LINK:     onPath(Make, 1),
		unix.SYS_TRUNCATE: onPath(Truncate, 0),
	} {
		calls[nr] = w
	}
}
