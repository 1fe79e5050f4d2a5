// Package faults makes single system calls of a process fail, for tests alone:
// the n-th write, fsync, rename, open or whatever else a program asks of the
// files below one directory answers EIO or ENOSPC instead of being done.
//
// The program runs behind a seccomp filter that hands such calls to a
// supervisor in the test (seccomp_unotify(2)), which lets them go on or answers
// in the kernel's place. Nothing in the program has to know: any program will
// do, also one that was built for release. No privileges are needed.
//
//	faults.go     what can fail, and how it is asked for
//	launch.go     the filter: how a program is started behind it
//	supervise.go  the supervisor: which call it is, and what it gets
//	inside.go     a process behind the filter that asks for its own faults
package faults
