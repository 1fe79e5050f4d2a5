package crash

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/client"
)

// patience bounds everything that a test waits for.
const patience = 60 * time.Second

var gatedProgram string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds the real daemon once.
func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "gated-crash-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	gatedProgram = filepath.Join(dir, "gated")
	build := exec.Command("go", "build", "-o", gatedProgram, "gated/cmd/gated")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build gated: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// daemon is one life of the daemon on a state directory.
type daemon struct {
	cmd    *exec.Cmd
	log    bytes.Buffer
	client *client.Client
	ended  chan error
}

// start runs the daemon and returns when it says that it is ready.
func start(t *testing.T, state, socket string) *daemon {
	t.Helper()
	notify := filepath.Join(filepath.Dir(socket), "notify")
	_ = os.Remove(notify)
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	require.NoError(t, err)
	defer ready.Close()
	d := &daemon{ended: make(chan error, 1)}
	d.cmd = exec.Command(gatedProgram, "serve", "--state", state, "--socket", socket)
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	require.NoError(t, d.cmd.Start())
	go func() {
		d.ended <- d.cmd.Wait()
		_ = ready.SetReadDeadline(time.Unix(1, 0)) // a daemon that ended will not say that it is ready
	}()
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	require.NoError(t, ready.SetReadDeadline(time.Now().Add(patience)))
	said := make([]byte, 256)
	n, err := ready.Read(said)
	if err != nil || string(said[:n]) != "READY=1" {
		_ = d.cmd.Process.Kill()
		t.Fatalf("the daemon did not start: %v\n%s", err, d.log.String())
	}
	d.client, err = client.New(client.Options{Socket: socket})
	require.NoError(t, err)
	return d
}

// kill ends the daemon at once, as a power cut would.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGKILL))
	<-d.ended
	d.client.Close()
}

// stop ends the daemon cleanly.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-d.ended:
		require.NoError(t, err, d.log.String())
	case <-time.After(patience):
		t.Fatal("the daemon does not stop")
	}
	d.client.Close()
}

// fsck asks the real program whether the state is sound, beside the daemon.
func fsck(t *testing.T, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, gatedProgram, "fsck", "--state", state).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
