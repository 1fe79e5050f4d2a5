package postgres

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is one run of a postmaster.
type server struct {
	cmd  *exec.Cmd
	log  *log
	done chan struct{} // closed when the postmaster and all its children are gone
}

// Start starts a server that is down, and waits until it takes connections.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	s := &server{log: newLog(), done: make(chan struct{})}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", c.data())
	s.cmd.Dir = "/"
	s.cmd.Stderr = s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account(t), Pdeathsig: syscall.SIGQUIT}
	started := make(chan error, 1)
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // waits until no child holds the log, too
		}
	}()
	ok(t, <-started)
	c.server = s
	select {
	case <-s.log.ready:
	case <-s.done:
		c.server = nil
		t.Fatalf("postgres ended at once:\n%s", s.log)
	case <-time.After(limit):
		t.Fatalf("postgres is not ready after %s:\n%s", limit, s.log)
	}
}

// Up waits until a server answers after a crash of its own. If it did not survive that, Up starts it.
func (c *Cluster) Up(t testing.TB) {
	t.Helper()
	ended, last := false, "no answer"
	until(t, "the server after its crash", &last, func() bool {
		select {
		case <-c.server.done:
			ended = true
		default:
		}
		_, err := c.Try("SELECT 1")
		last = fmt.Sprint(err)
		return ended || err == nil
	})
	if ended {
		c.server = nil
		c.Start(t)
	}
}

// Stop stops a server as an operator does: its sessions end.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGINT)
}

// Kill ends the postmaster and its children as a power cut does, but for what the kernel still writes.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	pid := c.server.cmd.Process.Pid
	ok(t, syscall.Kill(pid, syscall.SIGSTOP))
	// It may still be at a fork. A child that is not killed waits a minute for its client's first message.
	state := ""
	until(t, "the postmaster is stopped", &state, func() bool {
		state = stateOf(pid)
		return state == "T"
	})
	for _, child := range children(t, pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	c.signal(t, syscall.SIGKILL)
}

func (c *Cluster) signal(t testing.TB, with syscall.Signal) {
	t.Helper()
	ok(t, c.server.cmd.Process.Signal(with))
	select {
	case <-c.server.done:
	case <-time.After(limit):
		t.Fatalf("postgres did not end %s after %s:\n%s", limit, with, c.server.log)
	}
	c.server = nil
}

// end stops a server at the end of its test, if it runs.
func (c *Cluster) end(t testing.TB) {
	t.Helper()
	if c.server == nil {
		return
	}
	if t.Failed() {
		t.Logf("log of %s:\n%s", c.name, c.server.log)
	}
	c.signal(t, syscall.SIGQUIT)
}

// Promote makes a standby a primary.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	run(t, "pg_ctl", "promote", "-D", c.data(), "-w", "-t", strconv.Itoa(int(limit/time.Second)))
}

// CPU is what a server and its sessions that are still there have used.
func (c *Cluster) CPU(t testing.TB) time.Duration {
	t.Helper()
	pid := c.server.cmd.Process.Pid
	sum := cpu(pid)
	for _, child := range children(t, pid) {
		sum += cpu(child)
	}
	return sum
}

// stateOf is the letter of a process' state in proc(5); "" if it is gone.
func stateOf(pid int) string {
	if fields := stat(pid); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// stat has the fields of proc(5) from a process' state on; none if it is gone.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

// cpu is what a process has used, 0 if it is gone: utime and stime of proc(5), in hundredths of a second.
func cpu(pid int) time.Duration {
	fields := stat(pid)
	if len(fields) == 0 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func children(t testing.TB, pid int) []int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	ok(t, err)
	var out []int
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		ok(t, err)
		out = append(out, child)
	}
	return out
}

// log keeps what a server says, and tells when it is ready.
type log struct {
	mu    sync.Mutex
	text  bytes.Buffer
	told  bool
	ready chan struct{}
}

func newLog() *log { return &log{ready: make(chan struct{})} }

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if !l.told && bytes.Contains(l.text.Bytes(), []byte("database system is ready to accept")) {
		l.told = true
		close(l.ready)
	}
	return len(p), nil
}

// String returns what was said.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
