package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"gated/internal/base/ownfile"
	"gated/internal/notify/message"
)

// The exit codes with which a program refuses a message for good (sysexits.h: EX_USAGE, EX_DATAERR).
const (
	exitUsage = 64
	exitData  = 65
)

// waitDelay is how long a program that was ended may keep its output open.
const waitDelay = 2 * time.Second

// program runs a program for each message.
type program struct{ argv []string }

// Send writes the message as one line of JSON to the program's standard input. There is no shell, and the environment
// has PATH and LANG alone. When ctx ends, the program and what it started in its process group are killed.
func (p program) Send(ctx context.Context, m message.Message, _ time.Time) (string, error) {
	if err := ownfile.Own().CheckProgram(p.argv[0]); err != nil {
		return "", &Failure{Why: err.Error()}
	}
	body, err := m.JSON()
	if err != nil {
		return "", unwritable(err)
	}
	c := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	c.Env, c.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, "/"
	c.Stdin = bytes.NewReader(append(body, '\n'))
	var out tail
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = waitDelay
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it took the message, and a child of it still has its output
		return out.String(), nil
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		code := exit.ExitCode()
		return "", &Failure{Why: fmt.Sprintf("the program exited with %d: %s", code, out.String()), Refused: code == exitUsage || code == exitData}
	}
	return "", &Failure{Why: fmt.Sprintf("the program: %v", err)}
}

// tail keeps the first bytes of what a program prints.
type tail struct{ b bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	t.b.Write(p[:min(len(p), maxAnswer-t.b.Len())])
	return len(p), nil
}

func (t *tail) String() string { return t.b.String() }
