package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// module makes a module with these test files, and has the test run in it. Each package is named by its directory.
func module(t *testing.T, tests map[string]string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write("go.mod", "module gated\n\ngo 1.26\n")
	for pkg, body := range tests {
		write(pkg+"/x_test.go", "package x\n\nimport (\n\t\"os\"\n\t\"os/signal\"\n\t\"testing\"\n)\n\nvar _, _ = os.Getpid, signal.Ignore\n\n"+body)
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
}

// suite runs it in the module, and returns what it printed.
func suite(t *testing.T, flags ...string) (bool, string) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{"-log", filepath.Join(t.TempDir(), "log")}, flags...)
	passed, err := run(context.Background(), append(args, "--", "-vet=off", "--", "./..."), &out)
	require.NoError(t, err)
	return passed, out.String()
}

// failing is a test that fails in the runs that have a minus sign: "-+++" fails once. It counts its runs in a file.
func failing(runs, how string) string {
	return fmt.Sprintf(`
func TestIt(t *testing.T) {
	before, _ := os.ReadFile("runs")
	os.WriteFile("runs", append(before, 'x'), 0o600)
	t.Run("a part: 1", func(t *testing.T) {
		if runs := %q; len(before) >= len(runs) || runs[len(before)] == '-' {
			%s
		}
	})
}
`, runs, how)
}

func TestWhatPasses(t *testing.T) {
	module(t, map[string]string{"a": "func TestA(t *testing.T) {}", "b": "func TestB(t *testing.T) { t.Run(\"c\", func(*testing.T) {}) }"})
	passed, out := suite(t)
	require.True(t, passed, out)
	require.Contains(t, out, "ok  \tgated/a")
	require.True(t, strings.HasSuffix(out, "\n3 passed, 0 failed, 0 unsteady, 0 skipped, 0 do not apply\n"), out)
}

// TestSecondLooks: a test has one only if it failed by accident, and passes only if it passes each time.
func TestSecondLooks(t *testing.T) {
	for _, c := range []struct {
		name, pkg, body string
		passes          bool
		says            string
	}{
		{"once", "a", failing("-++++", `t.Error("busy")`), true, "UNSTEADY gated/a TestIt/a_part:_1 failed, and then passed 3 times alone and once with its package:\n"},
		{"always", "a", failing("----", `t.Error("wrong")`), false, "FAILED gated/a TestIt/a_part:_1\n"},
		{"in the whole package", "a", failing("-+++-", `t.Error("wrong")`), false, "0 unsteady"},
		{"in the last look", "a", failing("-++-+", `t.Error("wrong")`), false, "0 unsteady"},
		{"in the first look", "a", failing("--++", `t.Error("wrong")`), false, "0 unsteady"},
		{"a panic", "a", failing("-+++", `panic("wrong")`), false, "no second look: gated/a had a race, a panic or a time-out"},
		{"a race", "a", failing("-+++", `println("WARNING: DATA RACE"); t.Error("race")`), false, "no second look"},
		{"a panic of what it started", "a", failing("-+++", `t.Error("[daemon]\npanic: wrong")`), false, "no second look"},
		{"an exit", "a", failing("-+++", `os.Exit(3)`), false, "no second look"},
		{"a test that is gone", "a", `
func TestIt(t *testing.T) {
	before, _ := os.ReadFile("runs")
	os.WriteFile("runs", append(before, 'x'), 0o600)
	if len(before) == 0 {
		t.Run("first", func(t *testing.T) { t.Error("wrong") })
	}
}`, false, "FAILED gated/a TestIt/first"},
		{"a part whose whole is wrong", "a", `
func TestIt(t *testing.T) {
	before, _ := os.ReadFile("runs")
	os.WriteFile("runs", append(before, 'x'), 0o600)
	other := false
	t.Run("part", func(t *testing.T) {
		if len(before) == 0 {
			t.Error("busy")
		}
	})
	t.Run("other", func(*testing.T) { other = true })
	if other {
		t.Fatal("a row is lost")
	}
}`, false, "a row is lost"},
		{"and the package is killed", "a", failing("-++++", `t.Error("busy")`) + `
func TestWrong(t *testing.T) {
	p, _ := os.FindProcess(os.Getpid())
	p.Kill()
	select {}
}`, false, "no second look: gated/a failed as a whole"},
		{"and the package exits", "a", failing("-++++", `t.Error("busy")`) + "func TestWrong(t *testing.T) { os.Exit(1) }", false, "no second look: gated/a failed as a whole"},
		{"and the package is wrong at its end", "a", failing("-++++", `t.Error("busy")`) + `
func TestMain(m *testing.M) {
	m.Run()
	println("a row is lost")
	os.Exit(1)
}`, false, "FAILED gated/a TestIt/a_part:_1"},
		{"the gate", "internal/gate", failing("-+++", `t.Error("wrong")`), false, "no second look: the tests of gated/internal/gate have none"},
		{"below the ledger", "internal/ledger/pg", failing("-+++", `t.Error("wrong")`), false, "no second look: the tests of gated/internal/ledger/pg have none"},
		{"beside the gate", "internal/gateway", failing("-++++", `t.Error("busy")`), true, "UNSTEADY gated/internal/gateway "},
		{"no program", "a", "func TestIt(t *testing.T) { undefined() }", false, "undefined: undefined"},
		{"too many", "a", `
func TestIt(t *testing.T) {
	for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
		t.Run(name, func(t *testing.T) { t.Error("wrong") })
	}
}`, false, "no second look: 6 tests failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, map[string]string{c.pkg: c.body, "other": "func TestOther(t *testing.T) {}"})
			passed, out := suite(t)
			require.Equal(t, c.passes, passed, out)
			require.Contains(t, out, c.says)
		})
	}
}

// TestAKilledRun: an accident in one package excuses nothing if go test ended before the others.
func TestAKilledRun(t *testing.T) {
	module(t, map[string]string{
		"a": failing("-+++", `t.Error("busy")`),
		"b": "func TestIt(t *testing.T) {\n\tparent := os.Getppid()\n\tgoTest, _ := os.FindProcess(parent)\n\tgoTest.Kill()\n\tfor os.Getppid() == parent {\n\t}\n\tos.Exit(0)\n}\n",
	})
	var out bytes.Buffer
	passed, err := run(context.Background(), []string{"-log", filepath.Join(t.TempDir(), "log"), "--", "-vet=off", "-p=1", "-timeout=1m", "--", "./a", "./b"}, &out)
	require.NoError(t, err)
	require.False(t, passed, out.String())
	require.Contains(t, out.String(), "a second look at gated/a TestIt/a_part:_1\n", "it is unsteady")
	require.Contains(t, out.String(), "FAILED go test\n    these packages did not end: [gated/b] (signal: killed)\n")
}

// TestAnEndInTheMiddle: with the run, the tests end.
func TestAnEndInTheMiddle(t *testing.T) {
	module(t, map[string]string{"a": "func TestIt(t *testing.T) {\n\tos.WriteFile(\"begun\", nil, 0o600)\n\tselect {}\n}\n"})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, []string{"-log", filepath.Join(t.TempDir(), "log"), "--", "-vet=off", "--", "./a"}, io.Discard)
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat("a/begun"); return err == nil }, time.Minute, time.Millisecond)
	end()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "it was ended")
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// TestAnEndOfWhatTakesNoNotice: a test that ignores the signal has some time, and then ends with the run, too.
func TestAnEndOfWhatTakesNoNotice(t *testing.T) {
	leaving = 100 * time.Millisecond
	t.Cleanup(func() { leaving = 30 * time.Second })
	held, end, err := os.Pipe()
	require.NoError(t, err)
	module(t, map[string]string{"a": fmt.Sprintf(`
func TestIt(t *testing.T) {
	signal.Ignore(os.Interrupt)
	f, err := os.OpenFile("/proc/%d/fd/%d", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	os.WriteFile("begun", nil, 0o600)
	r, _, _ := os.Pipe()
	r.Read(make([]byte, 1))
}
`, os.Getpid(), end.Fd())})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, []string{"-log", filepath.Join(t.TempDir(), "log"), "--", "-vet=off", "--", "./a"}, io.Discard)
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat("a/begun"); return err == nil }, time.Minute, time.Millisecond)
	require.NoError(t, end.Close())
	stop()
	require.ErrorContains(t, <-ended, "it was ended")
	// The test has the last end of the pipe to write to.
	require.NoError(t, held.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = held.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the test goes on")
}

// TestAFullDisk: the run goes on without its log, and says so.
func TestAFullDisk(t *testing.T) {
	module(t, map[string]string{"a": "func TestA(t *testing.T) {}"})
	passed, out := suite(t, "-log", "/dev/full")
	require.True(t, passed, out)
	require.Contains(t, out, "1 passed, 0 failed")
	require.Contains(t, out, "the whole log has an end too early: write /dev/full: no space left on device")
}

// once is a disk that is full for one write.
type once struct{ bytes.Buffer }

func (o *once) Write(b []byte) (int, error) {
	if o.Len() == 0 {
		o.Buffer.WriteByte(b[0])
		return 1, syscall.ENOSPC
	}
	return o.Buffer.Write(b)
}

// TestTheEndOfALog says that it is whole, and a log that was cut off does not, also if there was room again later.
func TestTheEndOfALog(t *testing.T) {
	module(t, map[string]string{"a": "func TestA(t *testing.T) {}"})
	log := filepath.Join(t.TempDir(), "log")
	passed, out := suite(t, "-log", log)
	require.True(t, passed, out)
	require.True(t, strings.HasSuffix(string(must.Get(os.ReadFile(log))(t)), "\n"+whole+"\n"))

	disk := &once{}
	cut := &kept{to: disk}
	fmt.Fprintln(cut, "a line")
	fmt.Fprintln(cut, "another")
	cut.end()
	require.Equal(t, "aanother\n", disk.String())
}

// TestTheTablesOfReliability are of whole logs alone.
func TestTheTablesOfReliability(t *testing.T) {
	const page = "before\n<!-- reliability: table -->\nold\n<!-- reliability: end -->\nafter\n"
	const said = "reliability: a fault | an operation | runs 12 | lost 0 | twice 0\ncrash point: a | 1 | 2 | 3\n"
	for _, c := range []struct {
		name, log string
		writes    bool
	}{
		{"whole", said + whole + "\n", true},
		{"cut off after a line", said, false},
		{"cut off in its last line", said + whole[:5], false},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			script := filepath.Join(dir, "scripts/reliability.sh")
			for name, text := range map[string]string{"scripts/reliability.sh": string(must.Get(os.ReadFile("../../../scripts/reliability.sh"))(t)),
				"docs/reliability.md": page, "one": said + whole + "\n", "other": c.log} {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
			}
			out, err := exec.Command("sh", script, "one", "other").CombinedOutput()
			after := string(must.Get(os.ReadFile(filepath.Join(dir, "docs/reliability.md")))(t))
			if c.writes {
				require.NoError(t, err, "%s", out)
				require.Contains(t, after, "\nLost: 0. Twice: 0.\n")
				require.Contains(t, after, "\n| **all** | | **24** |\n")
			} else {
				require.Error(t, err)
				require.Contains(t, string(out), "other was cut off: ")
				require.Equal(t, page, after)
			}
			require.Len(t, must.Get(os.ReadDir(filepath.Join(dir, "docs")))(t), 1)
		})
	}
}

// TestPlain: what the tests say is there as they say it, and a failure has no second look.
func TestPlain(t *testing.T) {
	module(t, map[string]string{"a": failing("-++++", `t.Error("busy")`) + "func TestA(t *testing.T) { t.Log(\"a line\") }"})
	passed, out := suite(t, "-plain")
	require.False(t, passed, out)
	require.Contains(t, out, ": a line\n--- PASS: TestA (")
	require.Contains(t, out, "\n1 passed, 1 failed, 0 unsteady, 0 skipped, 0 do not apply\nFAILED gated/a TestIt/a_part:_1\n")
	require.NotContains(t, out, "second look")
}

// TestSkipped: with -strict none may be, but for what does not apply.
func TestSkipped(t *testing.T) {
	module(t, map[string]string{"a": `
func TestA(t *testing.T) { t.Skip("there is no libvirt") }
func TestB(t *testing.T) { t.Log("looked"); t.Skip("does not apply: it has no disks") }
func TestD(t *testing.T) { t.Log("step: does not apply: x"); t.Skip("no PostgreSQL") }
func TestC(t *testing.T) {}
`})
	passed, out := suite(t)
	require.True(t, passed, out)
	require.Contains(t, out, "\n1 passed, 0 failed, 0 unsteady, 2 skipped, 1 do not apply\n")
	passed, out = suite(t, "-strict")
	require.False(t, passed, out)
	require.Contains(t, out, "FAILED gated/a TestA\n    it was skipped, and none may be:\n")
	require.Contains(t, out, "FAILED gated/a TestD\n")
	require.NotContains(t, out, "TestB")
}

// TestMemory: the tests do not see this machine's /tmp, and it has nothing of theirs; or the run says why not.
func TestMemory(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp") // whatever the machine's is
	here, err := os.CreateTemp("/tmp", "suite")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(here.Name())) })
	require.NoError(t, here.Close())
	module(t, map[string]string{"a": fmt.Sprintf(`
func TestA(t *testing.T) {
	if _, err := os.Stat(%q); !os.IsNotExist(err) {
		t.Fatal("it is there", err)
	}
	if err := os.WriteFile(%[1]q, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
}`, here.Name())})
	// The module is below the other /tmp.
	dir, err := os.MkdirTemp("/var/tmp", "suite")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	passed, out := suite(t, "-memory")
	require.Contains(t, out, "the tests have the /tmp of this machine: ", "the module is below it")
	require.False(t, passed, "the file was there")
	t.Chdir(dir)
	passed, out = suite(t, "-memory")
	if place, _ := inMemory(); place == nil {
		require.Contains(t, out, "the tests have the /tmp of this machine: ")
		return
	}
	require.True(t, passed, out)
	text, err := os.ReadFile(here.Name())
	require.NoError(t, err)
	require.Empty(t, text)
}

func TestNothingRan(t *testing.T) {
	module(t, map[string]string{"a": "func helper(*testing.T) {}"})
	passed, out := suite(t)
	require.False(t, passed)
	require.Contains(t, out, "no test ran")
}

// TestWhatFailedIsLast: in at most 100 lines, with the begin of what each said.
func TestWhatFailedIsLast(t *testing.T) {
	module(t, map[string]string{"a": `
func TestA(t *testing.T) {
	for range 5000 {
		t.Log("a line")
	}
	t.Error("the reason")
}
func TestB(t *testing.T) { t.Error("another"); panic("no second look") }
`})
	passed, out := suite(t)
	require.False(t, passed)
	_, last, found := strings.Cut(out, "do not apply\n")
	require.True(t, found)
	require.LessOrEqual(t, strings.Count(last, "\n"), mostLines)
	for _, want := range []string{"FAILED gated/a TestA\n", "FAILED gated/a TestB\n", "the reason", "another"} {
		require.Contains(t, last, want)
	}
}

// TestManyFailures: the first have their texts, others a name, and the rest a number.
func TestManyFailures(t *testing.T) {
	body := ""
	for n := range 50 {
		body += fmt.Sprintf("func Test%d(t *testing.T) { t.Error(\"the reason\") }\n", n)
	}
	module(t, map[string]string{"a": body})
	passed, out := suite(t)
	require.False(t, passed)
	_, last, _ := strings.Cut(out, "do not apply\n")
	require.LessOrEqual(t, strings.Count(last, "\n"), mostLines)
	require.Equal(t, mostTexts, strings.Count(last, "the reason"), last)
	require.Equal(t, mostTexts+mostLines/4, strings.Count(last, "FAILED gated/a Test"), last)
	require.True(t, strings.HasSuffix(last, "\nand 17 more\n"), last)
}

func TestTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{}, {"-stuck", "soon", "--", "--", "./..."}, {"./..."}, {"--", "./..."}, {"--", "--"}, {"-unknown", "--", "--", "./..."}, {"-script", "--"}} {
		_, err := commandLine(args)
		require.Error(t, err, args)
	}
	o, err := commandLine([]string{"-strict", "-log", "x", "--", "-p", "4", "--", "./...", "./a"})
	require.NoError(t, err)
	require.Equal(t, options{log: "x", strict: true, flags: []string{"-p", "4"}, pkgs: []string{"./...", "./a"}, stuck: 15 * time.Minute}, o)
	o, err = commandLine([]string{"-script", "-with", "7", "--", "fuzz", "--", "x"})
	require.NoError(t, err)
	require.Equal(t, options{script: true, with: 7, pkgs: []string{"fuzz", "--", "x"}, stuck: 15 * time.Minute}, o)
}
