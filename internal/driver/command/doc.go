// Package command is the driver of the operator's catalogue of commands. The target
// command/drop-db is a program with words, an environment and a user. A signature covers all of
// these, and the output of its probe.
//
// The driver never runs the file itself. It runs a copy in memory that no program can write to
// (memfd_create(2), F_SEAL_WRITE), and it hashes the copy after sealing it. If the file changes
// between look and step, it is another program, and the step is stale.
// stale.
//
// Every program runs below a warden. The warden is this program again, as a child of the
// daemon. It starts the copy as another user and ends all its descendants. If the daemon ends,
// the warden kills them at once.
//
// docs/design/command-driver.md says why it is built this way.
package command
