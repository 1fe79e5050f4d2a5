// Package proc identifies processes by pid, start time and boot id, and by pidfds
// (pidfd_open(2)). So it notices if the system gave a number to another process. It reads the
// properties of processes from /proc.
package proc
