package command_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// A program has its user, its directory and its environment, and nothing else.
func TestWhatACommandHas(t *testing.T) {
	b := newBench(t)
	t.Setenv("LEAKED", "from the daemon")
	did := must.Get(b.does(`id -u; id -G; pwd; /usr/bin/env | sort; umask
[ "$(readlink /proc/self/fd/0)" = /dev/null ] && echo null
ls /proc/$$/fd | tr '\n' ' '; echo
grep -E '^(NoNewPrivs|CapEff)' /proc/self/status
[ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ] && echo session
`, func(e *catalogue.Entry) { e.Env["PGHOST"] = "/run/pg" }))(t)
	require.NotContains(t, did.Output, "LEAKED")
	lines := strings.Split(did.Output, "\n")
	o := b.look(op.At(target("does")))
	require.Contains(t, fact(o, "as"), "(uid "+lines[0]+")")
	if !b.own {
		require.NotEqual(t, "0", lines[0])
		require.NotContains(t, strings.Fields(lines[1]), "0", "groups of the daemon's")
	}
	require.Contains(t, did.Output, "\n"+b.path("work")+"\nPATH=/usr/bin:/bin\nPGHOST=/run/pg\nPWD="+b.path("work")+"\n0022\nnull\n")
	fds := ""
	for _, line := range lines {
		if strings.HasPrefix(line, "0 1 2") {
			fds = line
		}
	}
	require.Subset(t, []string{"0", "1", "2", "3", "10", "255"}, strings.Fields(fds), "its own, and the script's copy")
	require.Contains(t, did.Output, "NoNewPrivs:\t1\n")
	if !b.own {
		require.Contains(t, did.Output, "CapEff:\t0000000000000000\n")
	}
	require.Contains(t, did.Output, "session\n")
}

// An ELF program has only its input and output open.
func TestAProgramHasNothingOpen(t *testing.T) {
	b := newBench(t)
	b.entry("ls", []string{"/bin/ls", "/proc/self/fd"}, nil)
	did := must.Get(b.run(asking("ls")))(t)
	require.Equal(t, "0\n1\n2\n3\n", did.Output, "3 is the directory that it reads")
	require.Equal(t, "ran to its end, exit status 0", did.Detail)
	require.Empty(t, did.Task)
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		unknown bool
		why     string
		time    time.Duration
	}{
		"a status":            {"echo said; exit 3", false, "exit status 3", time.Minute},
		"a signal":            {"echo said; kill -KILL $$", true, "signal from elsewhere: killed", time.Minute},
		"a time that is over": {"echo said; sleep 1000", true, "took longer than 1s and was ended", time.Second},
		"one that is deaf":    {"trap '' TERM; echo said; while :; do sleep 1000; done", true, "took longer than 1s and was ended", time.Second},
		"one that hears":      {"trap 'echo heard; exit 0' TERM; echo said; while :; do sleep 0.02; done", true, "took longer than 1s and was ended", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var did driver.Result
			var err error
			for limit := range timeouts(c.time) {
				if did, err = b.does(c.script, func(e *catalogue.Entry) { e.Timeout = limit }); did.Output != "" {
					c.why = strings.Replace(c.why, "1s", limit.String(), 1)
					break
				}
				beganTooLate(t, err, limit)
			}
			require.Error(t, err)
			require.Equal(t, c.unknown, driver.IsUnknown(err), "%v", err)
			require.False(t, driver.IsTransient(err))
			require.ErrorContains(t, err, c.why)
			require.True(t, strings.HasPrefix(did.Output, "said\n"), "%q", did.Output)
			require.Equal(t, name == "one that hears", strings.Contains(did.Output, "heard"))
		})
	}
}

// Every process that a command leaves ends with it, in its group or outside.
func TestNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const leave = `(sleep 1000 & echo $! >> pids) ; setsid sh -c 'echo $$ >> pids; exec sleep 1000' < /dev/null &
setsid setsid sh -c '(sleep 1000 & echo $! >> pids)' & wait $!
while [ "$(wc -l < pids)" -lt 3 ]; do sleep 0.02; done
`
	for name, c := range map[string]struct {
		end     string
		timeout time.Duration
	}{"at its end": {"exit 0\n", time.Minute}, "when it is ended": {"while :; do sleep 1000; done\n", time.Second}} {
		t.Run(name, func(t *testing.T) {
			var pids []string
			for limit := range timeouts(c.timeout) {
				_ = os.Remove(b.path("work", "pids"))
				_, err := b.does(leave+c.end, func(e *catalogue.Entry) { e.Timeout = limit })
				text, _ := os.ReadFile(b.path("work", "pids"))
				if pids = strings.Fields(string(text)); len(pids) == 3 {
					require.Equal(t, name != "at its end", driver.IsUnknown(err), "%v", err)
					break
				}
				beganTooLate(t, err, limit)
			}
			require.Len(t, pids, 3)
			for _, p := range pids {
				pid := must.Get(strconv.Atoi(p))(t)
				require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d is there", pid)
			}
		})
	}
}

// If the daemon stops or a step takes too long, the command ends, and its result is not known.
func TestNobodyWaitsAnyMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.entry("does", []string{b.script("does", "#!/bin/sh\ntouch began\nwhile :; do sleep 1000; done\n")}, nil)
	g := b.gate()
	r := g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("does"), Params: op.Params{}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { _, err := driver.Run(ctx, g.Permitted(r.ID), b); ended <- err }()
	require.Eventually(t, func() bool { _, err := os.Stat(b.path("work", "began")); return err == nil }, time.Minute, time.Millisecond)
	cancel()
	err := <-ended
	require.True(t, driver.IsUnknown(err), "%v", err)
	g.Reconcile()
	require.Equal(t, op.StateInterrupted, g.Step(r.ID).State)
	must.Get(b.Observe(ctx, op.At(target("does"))))(t, "a look without a probe runs nothing")
}

// A command may remove its own program or the paths of its parameters. That is no failure.
func TestWhatACommandTookIsNoFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.MkdirAll(b.path("work", "a", "b"), 0o755))
	b.give(b.path("work", "a"))
	b.give(b.path("work", "a", "b"))
	b.entry("gone", []string{"/bin/rm", "-r", "--", b.path("work", "a"), "{p}"}, func(e *catalogue.Entry) {
		e.Params = map[string]catalogue.Param{"p": {Type: catalogue.Path, Below: b.path("work")}}
	})
	b.entry("own", []string{b.script("own", "#!/bin/sh\nexit 0\n")}, nil)
	b.BeforeRun(func() { require.NoError(t, os.RemoveAll(b.path("own"))) })
	require.NoError(t, os.WriteFile(b.path("work", "more"), nil, 0o666))
	g := b.gate()
	for _, l := range []op.Look{asking("own"), asking("gone", "p", "more")} {
		r := g.Approved(drivertest.Hub, op.Ask{Op: l.Op, Target: l.Target, Params: l.Params})
		g.Reconcile()
		require.Equal(t, op.StateSucceeded, g.Step(r.ID).State, "%v: %s", l.Target, g.Step(r.ID).Detail)
	}
	must.Fail(b.Observe(t.Context(), op.At(target("own"))))(t, refusal.Unavailable)
}

// A command does not start if a path leads elsewhere than what the operators signed, or nowhere, once the permit was used. Nor does it if
// another directory has the name of the one that the look saw.
func TestAPathThatIsLedElsewhereAfterThePermit(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]string{"another directory": "b", "out of the root": "../other", "nowhere": "none", "another directory that has its name": ""} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, dir := range []string{"work/a", "work/b", "other"} {
				require.NoError(t, os.MkdirAll(b.path(dir), 0o755))
				require.NoError(t, os.WriteFile(b.path(dir, "bytes"), []byte(dir), 0o666))
				b.give(b.path(dir))
			}
			b.entry("empty", []string{"/bin/sh", "-c", `rm -f "$1"/*`, "sh", "{p}"}, func(e *catalogue.Entry) {
				e.Params = map[string]catalogue.Param{"p": {Type: catalogue.Path, Below: b.path("work")}}
			})
			second := "work/b"
			b.BeforeRun(func() {
				require.NoError(t, os.Rename(b.path("work/a"), b.path("work/aside")))
				if link == "" {
					second = "work/a"
					require.NoError(t, os.Rename(b.path("work/b"), b.path(second)))
					return
				}
				require.NoError(t, os.Symlink(link, b.path("work/a")))
			})
			must.Fail(b.run(asking("empty", "p", "a")))(t, refusal.StaleTarget)
			for _, dir := range []string{"work/aside", second, "other"} {
				require.FileExists(t, b.path(dir, "bytes"))
			}
		})
	}
}

// Nor does one start in another directory that has the name of its own.
func TestADirectoryThatIsExchangedAfterThePermit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Mkdir(b.path("other"), 0o755))
	require.NoError(t, os.WriteFile(b.path("other", "bytes"), nil, 0o644))
	b.entry("empty", []string{"/bin/sh", "-c", "rm -f bytes"}, nil)
	b.BeforeRun(func() {
		require.NoError(t, unix.Renameat2(unix.AT_FDCWD, b.path("work"), unix.AT_FDCWD, b.path("other"), unix.RENAME_EXCHANGE))
	})
	must.Fail(b.run(asking("empty")))(t, refusal.StaleTarget)
	require.FileExists(t, b.path("work", "bytes"))
}

func TestProbesThatSayNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		script, why string
		time        time.Duration
	}{
		"hangs":           {"sleep 1000", "took longer than 100ms", 100 * time.Millisecond},
		"prints too much": {"head -c 300 /dev/zero", "prints more than 256 bytes", time.Minute},
		"dies":            {"kill -SEGV $$", "was ended by segmentation fault", time.Minute},
	} {
		b.entry("does", []string{"/bin/true"}, func(e *catalogue.Entry) {
			e.Probe, e.ProbeTimeout, e.Output = []string{b.script("probe", "#!/bin/sh\n"+c.script+"\n")}, c.time, 256
		})
		_, err := b.Observe(t.Context(), asking("does"))
		require.ErrorIs(t, err, refusal.Unavailable, name)
		require.ErrorContains(t, err, c.why, name)
		_, err = b.gate().Submit(drivertest.Hub, op.Ask{Op: op.Run, Target: target("does"), Params: op.Params{}})
		require.ErrorIs(t, err, refusal.Unavailable, name)
		require.True(t, b.look(op.At(target("does"))).Present, "the entry itself is there")
	}
}

// The operator sees everything that a signature covers, to the last line of a probe's output.
func TestEveryLineOfAProbeIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []string
	for i := range 2400 {
		want = append(want, "table "+strconv.Itoa(i)+": 0 rows")
	}
	want = append(want, "table customers: 9000000 rows")
	require.NoError(t, os.WriteFile(b.path("says"), []byte(strings.Join(want, "\n")), 0o644))
	b.entry("does", []string{"/bin/true"}, func(e *catalogue.Entry) { e.Probe = []string{"/bin/cat", b.path("says")} })
	r := b.gate().Waiting(drivertest.Hub, op.Ask{Op: op.Run, Target: target("does"), Params: op.Params{}})
	require.Equal(t, want, strings.Split(fact(op.Observed{Facts: r.Facts}, "probe says"), "\n"))
}

// Output is stored in order, up to a bound, and displays as it is.
func TestOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	did, err := b.does(`printf 'one\n'; printf 'two\n' > /dev/stderr; printf '\033[31mred\007 \342\200\256 \377\ttab\r\nthree'`, nil)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n\\x1b[31mred\\x07 \\u{202e} \\xff\ttab\nthree", did.Output)
	did, err = b.does(`echo begin; head -c 100000 /dev/zero; echo; echo end`, func(e *catalogue.Entry) { e.Output = 1000 })
	require.NoError(t, err)
	require.LessOrEqual(t, len(did.Output), 1000)
	require.True(t, strings.HasPrefix(did.Output, "begin\n"), "%q", did.Output)
	require.True(t, strings.HasSuffix(did.Output, "\nend\n"), "%q", did.Output)
	require.Contains(t, did.Output, "more was printed")
	require.Equal(t, driver.MaxOutput, catalogue.MaxOutput)
}
