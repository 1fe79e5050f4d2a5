package browser_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
	"gated/internal/test/story"
)

// shell is a line that somebody types into a shell of their own, in a terminal.
type shell struct {
	t      *testing.T
	person *os.File
	cmd    *exec.Cmd
	shown  string
}

// types types a line.
func (g *gate) types(line string) *shell {
	g.t.Helper()
	person, program, err := story.NewTerminal()
	require.NoError(g.t, err)
	defer func() { require.NoError(g.t, program.Close()) }()
	require.NoError(g.t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160}))
	s := &shell{t: g.t, person: person, cmd: exec.Command("/bin/sh", "-c", "exec "+line)}
	s.cmd.Env, s.cmd.Dir = g.env, g.dir
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, program, program
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(g.t, s.cmd.Start())
	g.t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
			_ = s.cmd.Wait()                          // its exit code is no part of these tests
		}
		require.NoError(s.t, s.person.Close())
	})
	require.NoError(g.t, person.SetReadDeadline(time.Now().Add(patience)))
	return s
}

// shows waits until the terminal shows a text after what was read, and returns all up to it.
func (s *shell) shows(text string) string {
	s.t.Helper()
	from := len(s.shown)
	for one := make([]byte, 1); !strings.HasSuffix(s.shown[from:], text); s.shown += string(one) {
		_, err := s.person.Read(one)
		require.NoError(s.t, err, "%q does not come: %s", text, s.shown)
	}
	return s.shown[from:]
}

// agrees answers the question that the terminal asks, and returns what was shown up to it.
func (s *shell) agrees() string {
	s.t.Helper()
	shown := s.shows("Type yes: ")
	must.Get(s.person.WriteString("yes\n"))(s.t)
	return shown
}

// ends waits until the line has ended well.
func (s *shell) ends() {
	s.t.Helper()
	for one := make([]byte, 1); ; s.shown += string(one) {
		if _, err := s.person.Read(one); err != nil {
			require.True(s.t, errors.Is(err, syscall.EIO), "%v: %s", err, s.shown) // nobody has the other side any more
			break
		}
	}
	require.NoError(s.t, s.cmd.Wait(), s.shown)
}
