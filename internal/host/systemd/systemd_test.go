package systemd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestMain is also the process to which sockets are passed: it says what it got, and what a child of it inherits.
func TestMain(m *testing.M) {
	if os.Getenv("SYSTEMD_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	if pid := os.Getenv("LISTEN_PID"); pid == "self" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	fds, err := Sockets()
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	for _, f := range fds {
		fmt.Println("got", f.Fd(), f.Name())
	}
	out, err := exec.Command("/bin/sh", "-c", "env; ls -l /proc/self/fd").CombinedOutput()
	fmt.Printf("child: %v\n%s", err, out)
}

// passed runs this program as a service manager would, with n sockets.
func passed(t *testing.T, n int, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t))
	cmd.Env = append([]string{"SYSTEMD_TEST_CHILD=1", "PATH=" + os.Getenv("PATH")}, env...)
	for i := range n {
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), strconv.Itoa(i)), Net: "unix"}))(t)
		f := must.Get(l.File())(t)
		t.Cleanup(func() { require.NoError(t, errors.Join(f.Close(), l.Close())) })
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	return string(must.Get(cmd.Output())(t))
}

func TestWhatIsPassed(t *testing.T) {
	out := passed(t, 1, "LISTEN_PID=self", "LISTEN_FDS=1", "LISTEN_FDNAMES=gated.socket")
	require.Contains(t, out, "got 3 gated.socket\n")
	require.NotContains(t, out, "LISTEN_", "a child inherits no variable")
	require.NotContains(t, out, "socket:[", "a child inherits no descriptor")

	out = passed(t, 2, "LISTEN_PID=self", "LISTEN_FDS=2")
	require.Contains(t, out, "got 3 descriptor 3\ngot 4 descriptor 4\n")

	// Variables for another process mean nothing, and are not passed on.
	for _, env := range [][]string{{"LISTEN_PID=1", "LISTEN_FDS=1"}, {"LISTEN_FDS=1"}, {"LISTEN_PID=", "LISTEN_FDS=x"}} {
		out = passed(t, 1, env...)
		require.NotContains(t, out, "got ")
		require.NotContains(t, out, "LISTEN_")
	}
	require.NotContains(t, passed(t, 0, "LISTEN_PID=self", "LISTEN_FDS=0"), "got ")

	for _, n := range []string{"", "-1", "x", "65", "99999999999999999999", "1 "} {
		require.Contains(t, passed(t, 1, "LISTEN_PID=self", "LISTEN_FDS="+n), "refused: malformed: LISTEN_FDS is ", n)
	}
	require.Contains(t, passed(t, 1, "LISTEN_PID=self", "LISTEN_FDS=64"), "cannot be used: bad file descriptor")
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "64", "65", "+1", "", "0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseCount(text)
		switch {
		case err != nil:
			if !errors.Is(err, refusal.Malformed) || n != 0 {
				t.Fatalf("%d %v", n, err)
			}
		case n < 0 || n > maxFDs || strings.TrimLeft(text, "0123456789") != "":
			t.Fatalf("%q is %d", text, n)
		}
	})
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, Notify(Ready), "without a service manager nothing is told")
	for _, path := range []string{filepath.Join(t.TempDir(), "n"), "@gated-test-" + strconv.Itoa(os.Getpid())} {
		l := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
		t.Setenv("NOTIFY_SOCKET", path)
		require.NoError(t, Notify(must.Get(Reloading())(t)))
		buf := make([]byte, 100)
		n := must.Get(l.Read(buf))(t)
		require.Regexp(t, "^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+$", string(buf[:n]))
		require.NoError(t, l.Close())
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	require.Error(t, Notify(Ready))
	require.NotErrorIs(t, Notify(Ready), io.EOF)
}

func TestWatchdog(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"180000000", "", 90 * time.Second}, {"180000000", own, 90 * time.Second}, {"180000000", "1", 0},
		{"0", own, 0}, {"-1", own, 0}, {"x", own, 0}, {"18446744073709551615", own, 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		require.Equal(t, c.want, Watchdog(), "%+v", c)
	}
}
