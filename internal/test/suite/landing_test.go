package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

const (
	// needs is the first step: it waits for one program, and leaves another one. It is tried again when the first one ended.
	needs = `#!/bin/sh
[ ! -e shell ] || exit 0
tail -f /dev/null & echo $! >left
tail -f /dev/null & echo $! >program
echo $PPID >shell.new
mv shell.new shell
wait $!
exit 1
`
	// next is each step after that. It says if a program of the first one still runs.
	next = `#!/bin/sh
! grep -qsE '\) [^ZX] ' "/proc/$(cat program)/stat" "/proc/$(cat left)/stat" || touch beside
exit 1
`
	// passes is a make of which each step passes, unless the environment leaves tests out.
	passes = `#!/bin/sh
! env | grep -E '^(MAKEFLAGS|TESTFLAGS|RAPID_SEED|GATED_SCREENS)=|^GOFLAGS=.*-(skip|short)' || exit 1
for name in command libvirt proxmox-lxc memory local proxmox; do
	echo "loss: $name | sequences 1 | lost 0"
done
for name in TheBookIsLinearizable TakeoversAreLinearizable ReservationsAcrossKills; do
	echo "--- PASS: Test$name (0s)"
done
echo "matrix: 1 cases"
echo "1 passed, 0 failed, 0 unsteady"
`
)

// A landing is .ci/run in a directory of the test's own, where only the first step can pass.
type landing struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	over chan struct{} // closed when all that the run started has ended
}

func newLanding(t *testing.T) *landing {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	l := &landing{t: t, dir: t.TempDir(), over: make(chan struct{})}
	l.write(".ci/run", string(must.Get(os.ReadFile("../../../.ci/run"))(t)))
	l.write("Makefile", string(must.Get(os.ReadFile("../../../Makefile"))(t)))
	l.write("scripts/room.sh", "#!/bin/sh\n")
	l.write(".ci/touches", "race -\n")
	l.write(".ci/landed", "none\n")
	l.write("scripts/needs.sh", needs)
	l.write("bin/make", next)
	l.begin()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(l.dir, "shell")); return err == nil }, time.Minute, time.Millisecond)
	return l
}

// pid is that of the step's shell, of the program that it waits for, or of the one that it leaves.
func (l *landing) pid(name string) int {
	l.t.Helper()
	text := string(must.Get(os.ReadFile(filepath.Join(l.dir, name)))(l.t))
	return must.Get(strconv.Atoi(strings.TrimSpace(text)))(l.t)
}

func (l *landing) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	require.NoError(l.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(l.t, os.WriteFile(path, []byte(text), 0o700))
}

// begin starts it. All that it starts has the one end of a pipe.
func (l *landing) begin() {
	l.t.Helper()
	held, end, err := os.Pipe()
	require.NoError(l.t, err)
	l.cmd = exec.Command("bash", ".ci/run")
	l.cmd.Dir = l.dir
	l.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+l.dir, "PATH="+filepath.Join(l.dir, "bin")+":"+os.Getenv("PATH"))
	l.cmd.ExtraFiles = []*os.File{end}
	said := must.Get(os.Create(filepath.Join(l.dir, "said")))(l.t) // a file, so that the end of the run is not that of its programs
	l.cmd.Stdout, l.cmd.Stderr = said, said
	require.NoError(l.t, l.cmd.Start())
	require.NoError(l.t, end.Close())
	require.NoError(l.t, said.Close())
	go func() {
		_, _ = io.Copy(io.Discard, held)
		held.Close()
		close(l.over)
	}()
	l.t.Cleanup(func() {
		for _, name := range []string{"program", "left"} {
			if l.t.Failed() {
				_ = syscall.Kill(l.pid(name), syscall.SIGKILL)
			}
		}
	})
}

// ends waits until nothing of the run is left, and returns what it said.
func (l *landing) ends() (string, error) {
	l.t.Helper()
	select {
	case <-l.over:
	case <-time.After(2 * time.Minute):
		l.t.Fatal("something that the run started goes on")
	}
	err := l.cmd.Wait() // not before, so that a run that was killed is still there, as where nobody asks for its exit code
	_, beside := os.Stat(filepath.Join(l.dir, "beside"))
	require.ErrorIs(l.t, beside, os.ErrNotExist, "the next step began before the first was over")
	return string(must.Get(os.ReadFile(filepath.Join(l.dir, "said")))(l.t)), err
}

// TestASignalToAStep: what ends the shell of a step ends what the step started, and the run goes on with the next step.
func TestASignalToAStep(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			l := newLanding(t)
			require.NoError(t, syscall.Kill(l.pid("shell"), sig))
			said, err := l.ends()
			require.Error(t, err, said)
			require.Contains(t, said, "== install what is missing: FAILED after 0 s\n")
			require.Contains(t, said, "== make loss on a ledger: FAILED after ")
			require.Contains(t, said, "\n0 passed, ")
		})
	}
}

// TestASignalToALanding: with the run, its step ends, also where the run had no time to say so.
func TestASignalToALanding(t *testing.T) {
	for sig, says := range map[syscall.Signal]string{
		syscall.SIGTERM: "ended by a signal in the middle; nothing is known of what had not ended\n",
		syscall.SIGKILL: "\n== install what is missing\n",
	} {
		t.Run(sig.String(), func(t *testing.T) {
			l := newLanding(t)
			require.NoError(t, l.cmd.Process.Signal(sig))
			said, err := l.ends()
			require.Error(t, err)
			require.True(t, strings.HasSuffix(said, says), said)
		})
	}
}

// TestAStepThatEnds takes with it what it left.
func TestAStepThatEnds(t *testing.T) {
	l := newLanding(t)
	require.NoError(t, syscall.Kill(l.pid("program"), syscall.SIGTERM))
	said, err := l.ends()
	require.Error(t, err)
	require.Contains(t, said, "== install what is missing: ok after ")
	require.Contains(t, said, "== make lint: FAILED after ")
}

// TestATreeThatPasses is recorded if all of its files are committed, also where git shows no others. What the shell has
// for make and tests leaves none out.
func TestATreeThatPasses(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	l := &landing{t: t, dir: t.TempDir()}
	for _, name := range []string{".ci/run", "Makefile", "scripts/room.sh"} {
		l.write(name, string(must.Get(os.ReadFile("../../../"+name))(t)))
	}
	l.write(".ci/touches", "race -\n")
	l.write("scripts/needs.sh", "#!/bin/sh\n")
	l.write("bin/make", passes)
	l.write("bin/gated", "#!/bin/sh\n")
	l.write("bin/opsign", "#!/bin/sh\n")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = l.dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	git("init", "-q")
	git("config", "status.showUntrackedFiles", "no")
	git("add", ".")
	git("commit", "-qm", "first")
	l.write(".ci/landed", git("rev-parse", "HEAD"))
	git("add", ".")
	git("commit", "-qm", "second")
	cache := t.TempDir()
	passed := func() string {
		cmd := exec.Command("bash", ".ci/run")
		cmd.Dir = l.dir
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "PATH="+filepath.Join(l.dir, "bin")+":"+os.Getenv("PATH"),
			"MAKEFLAGS=n", "TESTFLAGS=-run=None", "RAPID_SEED=2", "GATED_SCREENS=write")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, _ := os.ReadFile(filepath.Join(cache, "gated-ci/passed"))
		return string(text)
	}
	l.write("cmd/new.go", "package new\n")
	require.Empty(t, passed(), "a file is not committed")
	git("add", ".")
	git("commit", "-qm", "third")
	require.Equal(t, git("rev-parse", "HEAD^{tree}"), passed())
}

// TestWhatCannotBegin is said in one sentence, before anything is built: the disk is full, or there is no C compiler.
func TestWhatCannotBegin(t *testing.T) {
	for _, c := range []struct{ line, kib, says string }{
		{"make test", "1048575", "/room has 1023 MiB left, and a build takes up to 1024: free some, or name another directory by TMPDIR\n"},
		{"make lint", "0", "/room has 0 MiB left, "},
		{"make build", "0", "/room has 0 MiB left, "},
		{"make fuzz", "0", "/room has 0 MiB left, "},
		{"make reliability", "0", "/room has 0 MiB left, "},
		{"bash scripts/differential.sh", "0", "/room has 0 MiB left, "},
		{"bash .ci/run", "0", "/room has 0 MiB left, "},
		{"make test-race", "1048576", "make: the race detector needs a C compiler, and there is no /none/cc -m64\n"},
	} {
		l := &landing{t: t, dir: t.TempDir()}
		for _, name := range []string{".ci/run", "Makefile", "scripts/room.sh", "scripts/guarded.sh", "scripts/differential.sh"} {
			l.write(name, string(must.Get(os.ReadFile("../../../"+name))(t)))
		}
		l.write("scripts/needs.sh", "#!/bin/sh\n")
		l.write("bin/df", "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted on\necho tmpfs 9999999 1 "+c.kib+" 1% $2\n")
		args := strings.Fields(c.line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = l.dir
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+l.dir, "PATH="+filepath.Join(l.dir, "bin")+":"+os.Getenv("PATH"), "TMPDIR=/room", "GOTMPDIR=", "MAKEFLAGS=", "MAKELEVEL=0", "CC=/none/cc -m64")
		out, err := cmd.CombinedOutput()
		require.Error(t, err, c.line)
		require.Contains(t, string(out), c.says, c.line)
		require.LessOrEqual(t, strings.Count(string(out), "\n"), 2, "%s:\n%s", c.line, out)
	}
}

// TestEveryTargetHasATier: what make runs is a step of .ci/run or of make check-all, and each step is about files that are there.
func TestEveryTargetHasATier(t *testing.T) {
	comment := regexp.MustCompile(`(?m)^\s*#.*$`)
	tiers := comment.ReplaceAllString(string(must.Get(os.ReadFile("../../../.ci/run"))(t)), "")
	for line := range strings.Lines(string(must.Get(os.ReadFile("../../../.ci/touches"))(t))) {
		name, begins, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		tiers += "make " + name + " "
		for _, begin := range strings.Fields(begins) {
			if begin != "-" {
				require.NotEmpty(t, must.Get(filepath.Glob("../../../"+begin+"*"))(t), "%s: nothing begins so", line)
			}
		}
	}
	_, targets, found := strings.Cut(string(must.Get(os.ReadFile("../../../Makefile"))(t)), "\n.PHONY: ")
	require.True(t, found)
	targets, _, _ = strings.Cut(targets, "\n")
	elsewhere := map[string]string{"go": "of each", "needs": "of make test", "matrix": "in make test", "check-all": "a tier itself",
		"reliability": "writes a page", "reliability-kills": "of it", "reliability-calls": "of it", "release": "signs", "clean": "tests nothing"}
	for _, target := range strings.Fields(targets) {
		if elsewhere[target] == "" {
			require.Regexp(t, "(?m)make "+target+`([" ]|$)`, tiers, "no tier has it")
		}
	}
}
