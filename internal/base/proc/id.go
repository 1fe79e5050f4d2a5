package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrGone says that no process has the pid any more.
var ErrGone = errors.New("there is no such process")

// ID identifies one process. No later process has the same ID.
type ID struct {
	PID   int    // in the reader's PID namespace
	Start uint64 // clock ticks since boot, field 22 of proc_pid_stat(5)
	Boot  string // the kernel's boot id
}

// BootID returns the kernel's random id of this boot, random(4).
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
