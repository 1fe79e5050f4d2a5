package harness_test

import (
	"net"
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

// operator is the only operator of each gate.
const operator = "alice@example.com"

// gate is a daemon with the operator's key.
type gate struct {
	dir    string // all of it is below
	socket string
	key    string // the operator's private key
	cmd    *exec.Cmd
}

// built returns the path of gated or opsign.
func built(program string) string { return filepath.Join(os.Getenv(builtIn), program) }

// newGate starts a daemon, which runs until the test ends. Its guests are directories.
func newGate(t *testing.T) *gate {
	dir := worldDir(t)
	g := &gate{dir: dir, socket: filepath.Join(dir, "s"), key: filepath.Join(dir, "key")}
	state := filepath.Join(dir, "state")
	run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", operator, "-f", g.key)
	run(t, built("gated"), "init", "--state", state, "--socket", g.socket, "--host", "h1", "--operator", g.key+".pub")

	notify := filepath.Join(dir, "n")
	ready := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))(t)
	defer func() { require.NoError(t, ready.Close()) }()
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer func() { require.NoError(t, log.Close()) }()
	g.cmd = exec.Command(built("gated"), "serve", "--state", state, "--socket", g.socket)
	g.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	g.cmd.Stderr = log
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, g.cmd.Start())
	t.Cleanup(g.kill)
	require.NoError(t, ready.SetReadDeadline(time.Now().Add(patience)))
	for buf := make([]byte, 4096); ; {
		n, err := ready.Read(buf)
		require.NoError(t, err, "the daemon did not get ready\n%s", must.Get(os.ReadFile(log.Name()))(t))
		if strings.Contains(string(buf[:n]), "READY=1") {
			return g
		}
	}
}

// run runs a program, and ends the test if it fails.
func run(t *testing.T, program string, args ...string) {
	out, err := exec.Command(program, args...).CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", program, args, out)
}

// kill ends the daemon at once, and leaves its socket.
func (g *gate) kill() {
	_ = g.cmd.Process.Kill() // it may have ended
	_ = g.cmd.Wait()         // it was killed
}

// client returns a command of gated or opsign for the operator, whose home is in the gate's directory.
func (g *gate) client(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(built(program), args...)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GATED_SOCKET=" + g.socket}
	return cmd
}

// asks runs gated, and returns what it printed. It ends the test if gated fails.
func (g *gate) asks(t *testing.T, args ...string) string {
	out, err := g.client("gated", args...).CombinedOutput()
	require.NoError(t, err, "gated %v\n%s", args, out)
	return string(out)
}
