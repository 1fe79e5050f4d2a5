package faults

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is what a system call does.
type Kind int

// The kinds of calls that can be made to fail. Each stands for every call of the
// kernel that does it: an fsync is an fdatasync, too.
const (
	Write Kind = iota + 1
	Sync
	Rename
	Open
	Truncate
	Unlink
	Make // a directory, or a further name of a file
	Map  // of a file: what SQLite shares its index of the WAL by
)

// String names the kind as reports have it.
func (k Kind) String() string {
	names := [...]string{"none", "write", "fsync", "rename", "open", "truncate", "unlink", "make", "mmap"}
	return names[k]
}

// Call is one system call on a file below the directory that is watched.
type Call struct {
	Kind Kind
	Path string // of the second name, where there are two
}

// Fault is which calls fail from Arm to Disarm.
type Fault struct {
	Nth     int           // counted from 1, among the calls of every kind
	Errno   syscall.Errno // what the call answers
	Lasting bool          // every call from the Nth on fails, not it alone

	// Only limits the fault, and the count, to one kind; 0 is none.
	Only Kind
}

// where says which argument of a call says what file it is about.
type where struct {
	kind Kind
	fd   int // index of a descriptor, or -1
	dir  int // index of the directory that path is relative to, or -1 for the working directory
	path int // index of a path, or -1
}

func onFile(k Kind, fd int) where   { return where{kind: k, fd: fd, dir: -1, path: -1} }
func onPath(k Kind, path int) where { return where{kind: k, fd: -1, dir: -1, path: path} }
func below(k Kind, dir int) where   { return where{kind: k, fd: -1, dir: dir, path: dir + 1} }

// calls are the system calls that are watched.
var calls = map[int32]where{
	unix.SYS_WRITE:     onFile(Write, 0),
	unix.SYS_WRITEV:    onFile(Write, 0),
	unix.SYS_PWRITE64:  onFile(Write, 0),
	unix.SYS_PWRITEV:   onFile(Write, 0),
	unix.SYS_PWRITEV2:  onFile(Write, 0),
	unix.SYS_FALLOCATE: onFile(Write, 0),
	unix.SYS_FSYNC:     onFile(Sync, 0),
	unix.SYS_FDATASYNC: onFile(Sync, 0),
	unix.SYS_FTRUNCATE: onFile(Truncate, 0),
	unix.SYS_OPENAT:    below(Open, 0),
	unix.SYS_OPENAT2:   below(Open, 0),
	unix.SYS_RENAMEAT2: below(Rename, 2),
	unix.SYS_UNLINKAT:  below(Unlink, 0),
	unix.SYS_MKDIRAT:   below(Make, 0),
	unix.SYS_LINKAT:    below(Make, 2),
	unix.SYS_MMAP:      onFile(Map, 4),

	unix.SYS_COPY_FILE_RANGE: onFile(Write, 2),
	unix.SYS_SENDFILE:        onFile(Write, 0),
}
