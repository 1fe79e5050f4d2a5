package story

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// actor is a process of a story that lives longer than one command: a shell,
// which runs what it is told one after the other, as an agent does.
type actor struct {
	cmd      *exec.Cmd
	stdin    *os.File
	out, err *heard
	ended    chan struct{}
}

// mark ends what a command printed, and is followed by its exit code.
const mark = "\x1e"

var marked = regexp.MustCompile(mark + `([0-9]+)\n`)

func actors(ts *testscript.TestScript) map[string]*actor {
	all, ok := ts.Value(actor{}).(map[string]*actor)
	if !ok {
		ts.Fatalf("the story was not set up")
	}
	return all
}

func actorNamed(ts *testscript.TestScript, name string) *actor {
	a := actors(ts)[name]
	if a == nil {
		ts.Fatalf("there is no actor %s", name)
	}
	return a
}

// enter starts an actor in a directory, with the variables that are given beside
// the story's.
func enter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: actor NAME DIR [VARIABLE=VALUE]...")
	}
	cmd := exec.Command("/bin/sh")
	cmd.Env = environment(ts, append(args[2:], "GATED_SOCKET="+ts.Getenv("GATED_SOCKET"), "WORK="+ts.Getenv("WORK"))...)
	cmd.Dir = ts.MkAbs(args[1])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, stdin, err := os.Pipe()
	ts.Check(err)
	stdout, out, err := os.Pipe()
	ts.Check(err)
	stderr, errOut, err := os.Pipe()
	ts.Check(err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	ts.Check(cmd.Start())
	for _, f := range []*os.File{in, out, errOut} {
		_ = f.Close() // its end is the shell's
	}
	a := &actor{cmd: cmd, stdin: stdin, out: listen(stdout), err: listen(stderr), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ends is the story's doing
		close(a.ended)
	}()
	ts.Defer(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and what it runs; they may have ended
		_ = stdin.Close()
		<-a.ended
	})
	actors(ts)[args[0]] = a
	a.run("trap : INT") // an interrupt is for what it runs
	_, err = a.finish(ts)
	ts.Check(err)
}

// as has an actor run a program, which has to exit with exactly N. With "-" for
// N it is only begun.
func as(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: as NAME N|- PROGRAM ARG...")
	}
	a := actorNamed(ts, args[0])
	a.run(quoteAll(args[2:]))
	if args[1] != "-" {
		a.exited(ts, args[0], args[1])
	}
}

// ended waits for the end of what an actor has begun.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME N")
	}
	actorNamed(ts, args[0]).exited(ts, args[0], args[1])
}

// shows waits until what an actor has begun has written a match to standard
// error, or to standard output where it is named.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 || len(args) == 3 && args[1] != "stdout" {
		ts.Fatalf("usage: shows NAME [stdout] REGEXP")
	}
	a := actorNamed(ts, args[0])
	what := a.err
	if len(args) == 3 {
		what = a.out
	}
	re, err := regexp.Compile("(?m)" + args[len(args)-1])
	ts.Check(err)
	if _, err := what.await(re); err != nil {
		ts.Fatalf("%s shows no %s: %v\n%s", args[0], re, err, what.rest())
	}
}

// signal sends a signal to an actor alone (KILL, after which it has ended) or to
// what it runs (INT).
func signal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME KILL|INT")
	}
	a := actorNamed(ts, args[0])
	switch args[1] {
	case "INT":
		ts.Check(syscall.Kill(-a.cmd.Process.Pid, syscall.SIGINT))
	case "KILL":
		ts.Check(a.cmd.Process.Kill())
		<-a.ended
		delete(actors(ts), args[0])
	default:
		ts.Fatalf("signal: %s is not a signal of stories", args[1])
	}
}

// run hands the shell a line.
func (a *actor) run(line string) {
	a.out.forget()
	a.err.forget()
	// A shell that has ended is noticed by whoever waits for it.
	_, _ = fmt.Fprintf(a.stdin, "%s\ns=$?; echo '%s'$s; echo '%s'$s >&2\n", line, mark, mark)
}

// finish waits for the end of what runs and returns its exit code.
func (a *actor) finish(ts *testscript.TestScript) (string, error) {
	if _, err := a.out.await(marked); err != nil {
		return "", err
	}
	m, err := a.err.await(marked)
	if err != nil {
		return "", err
	}
	return m[1], nil
}

// exited waits for the end of what runs, and makes what it printed the story's
// stdout and stderr.
func (a *actor) exited(ts *testscript.TestScript, name, want string) {
	got, err := a.finish(ts)
	out, errs := workPath(ts, name+".stdout"), workPath(ts, name+".stderr")
	ts.Check(os.WriteFile(out, marked.ReplaceAll(a.out.rest(), nil), 0o600))
	ts.Check(os.WriteFile(errs, marked.ReplaceAll(a.err.rest(), nil), 0o600))
	ts.Check(ts.Exec("/bin/sh", "-c", `cat "$0"; cat "$1" >&2`, out, errs))
	if err != nil {
		ts.Fatalf("%s: %v", name, err)
	}
	if got != want {
		ts.Fatalf("%s: it exited with %s, not %s", name, got, want)
	}
}

// quoteAll writes words so that a shell reads them as they are.
func quoteAll(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

// heard is what one descriptor has brought since the last forget.
type heard struct {
	mu    sync.Mutex
	text  bytes.Buffer
	over  bool
	shown chan struct{} // there is more
}

func listen(r *os.File) *heard {
	h := &heard{shown: make(chan struct{}, 1)}
	go func() {
		_, err := io.Copy(h, r)
		_ = errors.Join(err, r.Close())
		h.mu.Lock()
		h.over = true
		h.mu.Unlock()
		h.tell()
	}()
	return h
}

// Write keeps what was heard.
func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell()
	return h.text.Write(b)
}

func (h *heard) tell() {
	select {
	case h.shown <- struct{}{}:
	default:
	}
}

func (h *heard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Reset()
}

func (h *heard) rest() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.text.Bytes())
}

// await returns the first match as soon as there is one.
func (h *heard) await(re *regexp.Regexp) ([]string, error) {
	limit := time.After(patience)
	for {
		h.mu.Lock()
		m, over := re.FindStringSubmatch(h.text.String()), h.over
		h.mu.Unlock()
		switch {
		case m != nil:
			return m, nil
		case over:
			return nil, io.ErrUnexpectedEOF
		}
		select {
		case <-h.shown:
		case <-limit:
			return nil, errors.New("nothing more comes")
		}
	}
}
