package daemon_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
	"gated/internal/test/programs"
)

// diskProgram tells a child process of these tests, which may mount what it
// likes, where the daemon's program is.
const diskProgram = "GATED_TEST_DISK_PROGRAM"

// buildProgram makes the daemon's program, for this process and its children.
func buildProgram(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "gated")
	require.NoError(t, programs.Build(program, "gated/cmd/gated"))
	t.Setenv(diskProgram, program)
}

// inNamespace runs one test of this binary with mounts of its own, as root of a
// user namespace where it is not root, and logs what it says of reliability.
func inNamespace(t *testing.T, name string) {
	t.Helper()
	buildProgram(t)
	cmd := reexec(t, "-test.run=^"+name+"$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+name)
	said := false
	for line := range strings.Lines(string(out)) {
		if i := strings.Index(line, "reliability: "); i >= 0 {
			said = true
			t.Log(strings.TrimSpace(line[i:]))
		}
	}
	require.True(t, said)
}

// diskSize is what the disk of such a test holds, in bytes.
const diskSize = "16m"

// newDiskWorld is newWorld with the state on a disk of its own, which is small.
func newDiskWorld(t *testing.T) *world {
	w := newWorld(t)
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")) // nobody else sees what follows
	disk := filepath.Join(w.dir, "disk")
	require.NoError(t, os.Mkdir(disk, 0o700))
	require.NoError(t, unix.Mount("gated-test", disk, "tmpfs", 0, "mode=700,size="+diskSize))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	w.state = filepath.Join(disk, "state")
	return w
}

// filler is what takes the disk's room away.
func (w *world) filler() string { return filepath.Join(filepath.Dir(w.state), "filler") }

// fill leaves no room on the disk, or as many bytes as said.
func (w *world) fill(leave int64) {
	w.t.Helper()
	f, err := os.OpenFile(w.filler(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	require.NoError(w.t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(w.t, err, unix.ENOSPC)
	if leave > 0 {
		info := must.Get(f.Stat())(w.t)
		require.NoError(w.t, f.Truncate(info.Size()-leave))
	}
	require.NoError(w.t, f.Close())
}

func (w *world) free() {
	w.t.Helper()
	require.NoError(w.t, os.Remove(w.filler()))
}

// served is the daemon's own program at work.
type served struct {
	w     *world
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan error
}

// program starts the daemon's own program.
func (w *world) program() *served {
	w.t.Helper()
	s := &served{w: w, log: &bytes.Buffer{}, ended: make(chan error, 1)}
	s.cmd = exec.CommandContext(w.t.Context(), os.Getenv(diskProgram), "serve", "--state", w.state, "--socket", w.socket)
	s.cmd.Stderr = s.log
	require.NoError(w.t, s.cmd.Start())
	go func() {
		err := s.cmd.Wait()
		w.tellEnd()
		s.ended <- err
	}()
	return s
}

func (w *world) start() *served {
	w.t.Helper()
	s := w.program()
	w.said("READY=1")
	return s
}

// readyOrNot waits until a program serves or has ended, and reports which.
func (w *world) readyOrNot() bool {
	w.t.Helper()
	require.NoError(w.t, w.notify.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 512)
	n := must.Get(w.notify.Read(buf))(w.t)
	return string(buf[:n]) != hasEnded
}

// exit waits for the program's end, and returns its code and what it logged.
func (s *served) exit() (code int, log string) {
	s.w.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		require.NoError(s.w.t, s.cmd.Process.Kill())
		s.w.t.Fatalf("the daemon does not end:\n%s", s.log)
	}
	s.w.forget()
	return s.cmd.ProcessState.ExitCode(), s.log.String()
}

// stop ends it as an operator would.
func (s *served) stop() (code int, log string) {
	s.w.t.Helper()
	require.NoError(s.w.t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.w.said("STOPPING=1")
	return s.exit()
}
