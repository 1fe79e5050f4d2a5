// Package story runs the command lines' tests as stories: testscript files with
// the real programs, a real daemon and a real ssh-agent. Only tests import it.
package story

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gated/internal/test/programs"
	"gated/internal/test/spareuids"

	"github.com/rogpeppe/go-internal/testscript"
)

// deadline bounds each story from its own begin: a program that hangs is ended with
// its stacks shown. The longest story takes a minute of an idle machine.
const deadline = 10 * time.Minute

// Main is a program's TestMain: it makes the test binary the program itself
// where a story runs it, so that it is built as the tests are (-race, -cover).
func Main(m *testing.M, name string, program func() int) {
	testscript.Main(m, map[string]func(){name: func() { os.Exit(program()) }})
}

// Run runs every story in dir, with the other programs, which are named by their directories
// below cmd. A machine without OpenSSH skips them all.
//
// A story has its state directory in $STATE, the socket in $GATED_SOCKET, and
// these commands beside testscript's own:
//
//	code N PROGRAM ARG...    runs a program, which has to exit with exactly N
//	serve                    starts gated serve and waits until it is ready
//	halt [SIGNAL]            ends it (TERM, KILL) and waits for its end
//	reload                   sends it SIGHUP and waits until it has read its files
//	agent [NAME]             starts ssh-agent, one for each name
//	device NAME TOUCH        starts an agent with a security key that was touched,
//	                         verified or untouched, and writes NAME.pub
//	capture NAME REGEXP      sets $NAME to the group of a match in stdout
//	talk N SCRIPT PROGRAM... runs a program on a terminal, and follows a script
//	actor NAME DIR [VAR=X].. starts a shell that the story talks to, as an agent's process
//	as NAME N PROGRAM...     has it run a program as code does; with - for N only begins it
//	shows NAME [stdout] REGEXP  waits until that has written a match to standard error or output
//	ended NAME N             waits for its end
//	signal NAME KILL|INT     ends the shell, or interrupts what it runs
//	answer STATUS [BODY]     listens on $GATED_SOCKET and answers only this
func Run(t *testing.T, dir string, others ...string) {
	for _, name := range []string{"ssh-keygen", "ssh-agent"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	root := shortDir(t)
	bin := filepath.Join(root, "bin")
	if err := programs.Into(bin, others...); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no story in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			testscript.RunT(alone{t}, testscript.Params{
				Files:              []string{file},
				WorkdirRoot:        root,
				RequireUniqueNames: true,
				Deadline:           time.Now().Add(deadline),
				Setup:              func(e *testscript.Env) error { return setup(e, bin) },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"code": code, "serve": serve, "halt": halt, "reload": reload, "agent": agent, "device": device, "capture": capture, "answer": answer,
					"talk": talk, "actor": enter, "as": as, "shows": shows, "ended": ended, "signal": signal,
				},
			})
		})
	}
}

// alone is a test that is one story. testscript has one deadline for all the files
// that it is given, so it is given one, in a test that has begun.
type alone struct{ *testing.T }

func (t alone) Run(_ string, story func(testscript.T)) { story(t) }
func (t alone) Parallel()                              {}
func (t alone) Verbose() bool                          { return testing.Verbose() }

// shortDir makes a directory so short that a socket below it fits into
// sun_path's 108 bytes (unix(7)); t.TempDir has the test's whole name in it.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "gs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func setup(e *testscript.Env, bin string) error {
	home := filepath.Join(e.WorkDir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		return err
	}
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("HOME", home)
	e.Setenv("STATE", filepath.Join(e.WorkDir, "state"))
	e.Setenv("GATED_SOCKET", filepath.Join(e.WorkDir, "s"))
	e.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	e.Setenv("GUEST_UIDS", spareuids.Line(e.Defer)) // ends a section local; root alone needs it
	e.Setenv("ASKER", asker())
	e.Setenv("GORACE", "atexit_sleep_ms=0") // a program with the race detector sleeps a second when it ends
	e.Values[running{}] = &running{}
	e.Values[actor{}] = map[string]*actor{}
	return nil
}

// asker is what opsign calls who asks from a story: the uid, with the name that this host has for it.
func asker() string {
	uid := strconv.Itoa(os.Getuid())
	u, err := user.LookupId(uid)
	if err != nil {
		return "uid:" + uid
	}
	return u.Username + " (uid:" + uid + ")"
}

// code runs a program and checks its exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var failed *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &failed):
		got = failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s exited with %d, not %d", strings.Join(args[1:], " "), got, want)
	}
}

// capture sets a variable from what the last command printed.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("%q matches nothing, or has not one group", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// environment returns the variables that a background process gets.
func environment(ts *testscript.TestScript, more ...string) []string {
	env := slices.Clone(more)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "XDG_STATE_HOME", "GOCOVERDIR", "GORACE"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// lookPath finds a program on the story's own PATH.
func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	ts.Fatalf("%s is not on the story's PATH", name)
	return ""
}

func workPath(ts *testscript.TestScript, name string) string {
	return filepath.Join(ts.Getenv("WORK"), fmt.Sprint(name))
}
