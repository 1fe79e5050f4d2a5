package story

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// talk runs a program on a terminal of its own, of 24 rows and 80 columns, and
// follows a script of lines: "? REGEXP" waits until the terminal has shown that
// after what was typed last, "> TEXT" types the text and Enter, "# TEXT" types
// the text alone, "! N PROGRAM ARG..." runs a
// program beside it as code does. The program has to exit with exactly N. What
// it wrote to standard output is the file talkout then, and what the terminal
// showed the file talktty.
func talk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: talk N SCRIPT PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	c := &conversation{shown: make(chan struct{}, 1)}
	defer c.close()
	ts.Check(c.start(ts, args[2:]))
	for _, line := range strings.Split(ts.ReadFile(args[1]), "\n") {
		if err := c.say(ts, line); err != nil {
			ts.Fatalf("%s: %v; the terminal shows\n%s", line, err, c.text())
		}
	}
	got, err := c.end()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("talktty"), []byte(c.text()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("talkout"), c.stdout.Bytes(), 0o600))
	ts.Logf("[terminal]\n%s\n[stdout]\n%s", c.text(), c.stdout.String())
	if got != want {
		ts.Fatalf("%s exited with %d, not %d", strings.Join(args[2:], " "), got, want)
	}
}

// conversation is a program and the other side of its terminal.
type conversation struct {
	person, program *os.File
	cmd             *exec.Cmd
	stdout          bytes.Buffer
	ended           chan error
	shown           chan struct{} // there is more to see
	gone            chan struct{} // closed when all was seen

	mu    sync.Mutex
	all   bytes.Buffer
	heard int // up to where it was looked at
}

func (c *conversation) start(ts *testscript.TestScript, args []string) (err error) {
	if c.person, c.program, err = NewTerminal(); err != nil {
		return err
	}
	if err := unix.IoctlSetWinsize(int(c.program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		return err
	}
	c.cmd = exec.Command(lookPath(ts, args[0]), args[1:]...)
	c.cmd.Env = environment(ts, "TERM=xterm", "GATED_SOCKET="+ts.Getenv("GATED_SOCKET"), "SSH_AUTH_SOCK="+ts.Getenv("SSH_AUTH_SOCK"))
	c.cmd.Dir = ts.Getenv("WORK")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.program, &c.stdout, c.program
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.ended, c.gone = make(chan error, 1), make(chan struct{})
	go func() { c.ended <- c.cmd.Wait() }()
	go c.listen()
	return nil
}

// listen takes what the terminal shows, until it is gone.
func (c *conversation) listen() {
	defer close(c.gone)
	buf := make([]byte, 4096)
	for {
		n, err := c.person.Read(buf)
		c.mu.Lock()
		c.all.Write(buf[:n])
		c.mu.Unlock()
		select {
		case c.shown <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// say follows one line of the script.
func (c *conversation) say(ts *testscript.TestScript, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "":
		return nil
	case "?":
		re, err := regexp.Compile("(?m)" + rest)
		if err != nil {
			return err
		}
		return c.await(re)
	case ">":
		return c.typed(rest + "\n")
	case "#":
		return c.typed(rest)
	case "!":
		code(ts, false, strings.Fields(rest))
		return nil
	}
	return errors.New("not a line of a conversation")
}

func (c *conversation) typed(text string) error {
	c.mu.Lock()
	c.heard = c.all.Len()
	c.mu.Unlock()
	_, err := c.person.WriteString(text)
	return err
}

// await returns when the terminal has shown a match.
func (c *conversation) await(re *regexp.Regexp) error {
	limit := time.After(patience)
	for {
		c.mu.Lock()
		at := re.FindIndex(c.all.Bytes()[c.heard:])
		c.mu.Unlock()
		if at != nil {
			return nil
		}
		select {
		case <-c.shown:
		case <-limit:
			return errors.New("that was not shown")
		}
	}
}

func (c *conversation) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ReplaceAll(strings.ReplaceAll(c.all.String(), "\r", ""), "\x1b[H\x1b[2J", "\n--------\n")
}

// end waits for the program's end, and for all that it showed, and returns its
// exit code.
func (c *conversation) end() (int, error) {
	var err error
	select {
	case err = <-c.ended:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.ended
		return -1, fmt.Errorf("it does not end; the terminal shows\n%s", c.text())
	}
	c.ended <- err
	// Once nobody has the program's side, the other one reads to the end.
	_ = c.program.Close()
	select {
	case <-c.gone:
	case <-time.After(patience):
		return -1, fmt.Errorf("something of it has the terminal yet, which shows\n%s", c.text())
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return failed.ExitCode(), nil
	}
	return 0, err
}

func (c *conversation) close() {
	if c.ended != nil {
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.ended
	}
	for _, f := range []*os.File{c.program, c.person} {
		if f != nil {
			_ = f.Close()
		}
	}
}
