// Package command is the driver of the entries of the operator's catalogue of
// commands: command/drop-db is a program with words, an environment and a user,
// and what a signature covers is all of that and what its probe printed.
//
// What runs is never the file that was looked at but a copy of it in memory that
// nobody can write to any more (memfd_create(2), F_SEAL_WRITE), hashed after it
// was sealed. A file that is rewritten between the two is another program, and
// stale.
//
// Whatever runs does so below a warden: this program again, which becomes
// nobody's child but the daemon's, starts the copy as another user, ends all that
// came of it, and ends it at once if the daemon goes away.
//
// docs/design/command-driver.md says why it is built this way.
package command
