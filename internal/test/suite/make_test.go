package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// asSuite has this test's program be the suite.
const asSuite = "TEST_AS_SUITE"

func TestMain(m *testing.M) {
	if os.Getenv(asSuite) != "" || os.Args[len(os.Args)-1] == asGuard {
		main()
		return
	}
	os.Exit(m.Run())
}

// standIn is a go whose tests never end, also if nobody reads what they say, and a test program that it builds. The suite that it
// builds is this test's program.
const standIn = `#!/bin/sh
case $* in
build*bin/suite*) mkdir -p bin && ln -sf "$TEST_AS_SUITE" bin/suite ;;
env*CC) echo sh ;;
env*) echo "$PWD" ;;
'test -c '*) cp "$0" "$6" ;;
*-test.fuzz*) cd ../.. && exec "$0" test ;;
run* | test*) echo $$ >begun.new && mv begun.new begun && exec tail -f /dev/null >/dev/null 2>&1 ;;
esac
`

// TestASignalToMake: with make, its tests end, whatever signal make alone gets.
func TestASignalToMake(t *testing.T) {
	// What is ignored would be ignored by make, too; what is caught here is not.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	t.Cleanup(func() { signal.Reset(os.Interrupt) })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) { endsWithMake(t, sig, "test") })
	}
	for _, target := range []string{"test-race", "matrix", "ledger", "ledger ENGINE=pg", "ledger-faults", "linear", "loss", "loss-planted", "planted", "soak",
		"reliability", "harness", "demo-ha", "fuzz", "bench"} {
		t.Run(target, func(t *testing.T) { endsWithMake(t, syscall.SIGTERM, strings.Fields(target)...) })
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run("fuzz/"+sig.String(), func(t *testing.T) { endsWithMake(t, sig, "fuzz") })
	}
}

// endsWithMake sends make a signal while its tests run.
func endsWithMake(t *testing.T, sig syscall.Signal, target ...string) {
	said := ends(t, func(mk *exec.Cmd, _ int) error { return mk.Process.Signal(sig) }, append([]string{"make"}, target...)...)
	require.Contains(t, said, "suite: it was ended\n")
}

// TestASignalToAScript that somebody started by hand ends what it runs, also if its shell alone is killed.
func TestASignalToAScript(t *testing.T) {
	for _, script := range []string{"scripts/fuzz.sh", "scripts/differential.sh"} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
			t.Run(script+"/"+sig.String(), func(t *testing.T) {
				said := ends(t, func(script *exec.Cmd, _ int) error { return script.Process.Signal(sig) }, script)
				require.Equal(t, sig != syscall.SIGKILL, strings.Contains(said, "suite: it was ended\n"), said)
			})
		}
		t.Run(script+"/its shell", func(t *testing.T) {
			said := ends(t, func(_ *exec.Cmd, goTest int) error { return syscall.Kill(parent(t, goTest), syscall.SIGKILL) }, script)
			require.NotContains(t, said, "it was ended")
		})
	}
}

// TestASignalToSteady ends what it runs, and the load that it makes.
func TestASignalToSteady(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // as above
	t.Cleanup(func() { signal.Reset(os.Interrupt) })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			ends(t, func(script *exec.Cmd, _ int) error { return script.Process.Signal(sig) },
				"scripts/steady.sh", "1", strconv.Itoa(runtime.NumCPU()+1), "bin/go", "test")
		})
	}
}

// TestAKilledSuite: its tests end with it, although nobody can catch SIGKILL.
func TestAKilledSuite(t *testing.T) {
	for _, target := range []string{"test", "soak"} { // as root, the tests of both have a mount namespace between the suite and go
		t.Run(target, func(t *testing.T) {
			said := ends(t, func(_ *exec.Cmd, goTest int) error { return syscall.Kill(parent(t, goTest), syscall.SIGKILL) }, "make", target)
			require.Contains(t, said, "Killed\n")
		})
	}
}

// parent is the pid of the process that started another one.
func parent(t *testing.T, pid int) (parent int) {
	for line := range strings.Lines(string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))) {
		_, _ = fmt.Sscanf(line, "PPid: %d", &parent)
	}
	require.NotZero(t, parent)
	return parent
}

// ends runs make, or a script, until its tests run, ends something of it, which is told the pid of go test, and waits until nothing is left.
// It returns what they said.
func ends(t *testing.T, what func(run *exec.Cmd, goTest int) error, words ...string) string {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	for _, name := range []string{"Makefile", "scripts/fuzz.sh", "scripts/differential.sh", "scripts/guarded.sh", "scripts/steady.sh"} {
		write(name, string(must.Get(os.ReadFile("../../../"+name))(t)))
	}
	write("a/b/x_test.go", "func FuzzIt(f *testing.F) {}\n")
	write("scripts/needs.sh", "#!/bin/sh\n")
	write("scripts/room.sh", "#!/bin/sh\n")
	write("bin/go", standIn)
	held, end, err := os.Pipe()
	require.NoError(t, err)
	if words[0] == "make" {
		words = append(words, "GO="+filepath.Join(dir, "bin/go"), "LOG="+filepath.Join(dir, "log"))
	} else {
		words[0] = filepath.Join(dir, words[0])
		t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asSuite+"="+must.Get(os.Executable())(t), "MAKEFLAGS=")
	said := must.Get(os.Create(filepath.Join(dir, "said")))(t)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = said, said, []*os.File{end} // all that it starts has the pipe's end
	require.NoError(t, cmd.Start())
	require.NoError(t, end.Close())
	begun := filepath.Join(dir, "begun")
	require.Eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, time.Minute, time.Millisecond)
	goTest := must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(begun))(t)))))(t)
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(goTest, syscall.SIGKILL)
		}
	})

	require.NoError(t, what(cmd, goTest))
	require.NoError(t, held.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = held.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "something that make started goes on")
	require.Error(t, cmd.Wait())
	return string(must.Get(os.ReadFile(said.Name()))(t))
}

// TestLimits: no limit that the tests of a package share is one that a busy machine breaks, as go's own of ten minutes is.
func TestLimits(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../../Makefile"))(t))
	for _, limit := range regexp.MustCompile(`-timeout\S* *\S+`).FindAllString(text, -1) {
		require.Contains(t, []string{"-timeout 0", "-timeout 2h"}, limit)
	}
	require.Equal(t, 1, strings.Count(text, "$(GO) test "), "the tools', of which there are few; all others have the suite")
}
