package client

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// fakeSSH puts a program ssh first in PATH that writes down its pid and its
// arguments, each run on a line, and then does what the script says. The test
// binary is $RELAY, which does what gated dial does.
func fakeSSH(t *testing.T, script string) (runs func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	self := must.Get(os.Executable())(t)
	text := "#!/bin/sh\necho $$ \"$*\" >>" + log + "\nRELAY=" + self + "\n" + script + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte(text), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return func() []string {
		b, err := os.ReadFile(log)
		if os.IsNotExist(err) {
			return nil
		}
		require.NoError(t, err)
		lines := strings.Split(string(b), "\n")
		return lines[:len(lines)-1] // what has no end of line is being written
	}
}

// gone fails the test if a process of a run is there, be it as a zombie.
func gone(t *testing.T, run string) {
	t.Helper()
	pid := must.Get(strconv.Atoi(strings.Fields(run)[0]))(t)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// relay is the script that goes on as gated dial would.
func relay(socket string) string { return "GATED_TEST_RELAY=" + socket + " exec $RELAY" }

func TestARemoteGate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, says("far"))
	runs := fakeSSH(t, relay(path))
	c := open(t, Options{Remote: "ssh://alice@pve1:2222/run/s"})
	require.Empty(t, c.Address())
	for range 3 {
		st := must.Get(c.Status(t.Context()))(t)
		require.Equal(t, "far", st.Host)
	}
	require.Equal(t, Address("ssh://alice@pve1:2222/run/s"), c.Address())
	require.Len(t, runs(), 1, "one process serves all calls")
	require.True(t, strings.HasSuffix(runs()[0], " -T -a -x -o ClearAllForwardings=yes -p 2222 -l alice -- pve1 gated dial --socket /run/s"), runs()[0])
	c.Close()
	gone(t, runs()[0])
	must.Get(c.Status(t.Context()))(t)
	require.Len(t, runs(), 2)
}

func TestALocalGatesAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, says("near"))
	c := open(t, Options{Socket: path})
	require.Empty(t, c.Address())
	must.Get(c.Status(t.Context()))(t)
	require.Equal(t, UnixAddress(path), c.Address())
}

func TestWhySSHDidNotGetThere(t *testing.T) {
	for script, want := range map[string][]string{
		"echo 'alice@pve1: Permission denied (publickey).' >&2; exit 255": {"Permission denied (publickey)", "ssh did not get there",
			"-- pve1 gated status"},
		"printf '@@@@@\\n@ WARNING: CHANGED @\\n@@@@@\\nFirst.\\r\\n\\nSecond.\\n' >&2; exit 255": {":\nWARNING: CHANGED\nFirst.\nSecond. ("},
		"exec no-such-gated-there":                                    {"there is no program gated", "/usr/local/bin"},
		"echo 'usage: unknown command \"dial\"' >&2; exit 2":          {"does not know the command dial", "same version"},
		"echo 'malformed: GATED_UID is \"x\", not a uid' >&2; exit 1": {"failed before it looked for a gate (exit code 1)", "GATED_UID is", "environment"},
		"echo 'usage: unknown flag: --socket' >&2; exit 2":            {"(exit code 2)", "unknown flag"},
		"exit 2":                        {"(exit code 2)"},
		relay("/nowhere/s"):             {"no gate answers there", "/nowhere/s", "no such file"},
		"exit 0":                        {"ended before a gate answered"},
		"printf '\\033[2J' >&2; exit 3": {"exit status 3", `"\x1b[2J"`},
		"kill -9 $$":                    {"signal: killed"},
		"echo Welcome; exec cat":        {"not gated dial", "Welcome", "start-up file"},
		"printf 'HTTP/1.1 200 OK\\r\\n\\r\\nmore'; exec cat":           {"not gated dial"},
		"printf 'HTTP/1.1 200 OK\\r\\nX: '; exec yes | head -c 200000": {"not gated dial"},
	} {
		runs := fakeSSH(t, script)
		c := open(t, Options{Remote: "ssh://pve1"})
		err := errOf(c.Status(t.Context()))
		require.Equal(t, []string{"ssh://pve1"}, tried(unreachable(t, err)), script)
		for _, w := range want {
			require.ErrorContains(t, err, w, script)
		}
		require.NotContains(t, err.Error(), "\x1b", script)
		require.Equal(t, strings.Contains(script, "unknown command"), strings.Contains(err.Error(), "the command dial"), script)
		require.Empty(t, c.Address(), script)
		require.Len(t, runs(), 1, script)
		gone(t, runs()[0])
	}
}

func TestOnlyTheEndOfWhatSSHSaysIsKept(t *testing.T) {
	fakeSSH(t, "yes | head -c 100000 >&2; echo last >&2; exit 255")
	err := errOf(open(t, Options{Remote: "ssh://pve1"}).Status(t.Context()))
	require.ErrorContains(t, err, "\nlast (")
	require.Less(t, len(err.Error()), maxSaid+500)
}

func TestThereIsNoSSH(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := errOf(open(t, Options{Remote: "ssh://pve1"}).Status(t.Context()))
	unreachable(t, err)
	require.ErrorContains(t, err, "install OpenSSH")
}

// An ssh that gets nowhere is ended with the call, and reaped.
func TestACallThatIsGivenUpEndsSSH(t *testing.T) {
	runs := fakeSSH(t, "exec sleep 600")
	c := open(t, Options{Remote: "ssh://pve1"})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := c.dial(ctx)
		got <- err
	}()
	require.Eventually(t, func() bool { return len(runs()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	gone(t, runs()[0])

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	unreachable(t, errOf(c.Status(ctx)))
}

// A call in the middle leaves no process either.
func TestCloseEndsWhatIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	asked := make(chan struct{})
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			close(asked)
			<-r.Context().Done()
		}
	})
	runs := fakeSSH(t, relay(path))
	c := open(t, Options{Remote: "ssh://pve1"})
	got := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), api.Submit{}, "")
		got <- err
	}()
	<-asked
	c.Close()
	require.Len(t, runs(), 1)
	gone(t, runs()[0])
	unreachable(t, <-got)
}
