// Package proc names processes so that a number which was given to another one
// is noticed: by pid, start time and boot id, and by pidfds (pidfd_open(2)). It
// reads what /proc says of them.
package proc
