package metrics

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process writes the usual metrics of this process. A value that the kernel does not tell is left out.
func (t *text) process(started time.Time) {
	t.one("process_start_time_seconds", gauge, "When the process started serving.", stamp(started))
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		t.one("process_cpu_seconds_total", counter, "CPU time of the process, in user and kernel mode.",
			time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
	}
	if resident, ok := residentBytes(); ok {
		t.one("process_resident_memory_bytes", gauge, "Memory of the process that is in RAM.", float64(resident))
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		t.one("process_open_fds", gauge, "Open file descriptors.", float64(len(fds)-1)) // without the one that reads
	}
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) == nil {
		t.one("process_max_fds", gauge, "File descriptors that may be open.", float64(most.Cur))
	}
	t.one("go_goroutines", gauge, "Goroutines.", float64(runtime.NumGoroutine()))
}

// residentBytes is the second number of /proc/self/statm (proc_pid_statm(5)), in bytes.
func residentBytes() (int64, bool) {
	b, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(b)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
