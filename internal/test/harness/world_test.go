package harness_test

import (
	"bufio"
	"context"
	"fmt"
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

// patience bounds every wait.
const patience = 2 * time.Minute

// world is a checkout, a home and a model for one run of a product, and the gate that its hooks ask.
type world struct {
	dir   string // all of it is below
	home  string
	repo  string
	model *model
	gate  *gate
}

// newWorld makes the world of one run.
func newWorld(t *testing.T, g *gate, speaks dialect, script []call) *world {
	dir := shortDir(t)
	w := &world{dir: dir, home: filepath.Join(dir, "home"), repo: filepath.Join(dir, "repo"), gate: g, model: newModel(t, speaks, script)}
	require.NoError(t, os.MkdirAll(w.home, 0o700))
	require.NoError(t, os.MkdirAll(w.repo, 0o700))
	w.run(t, "git", "init", "--quiet")
	return w
}

// shortDir makes a directory so short that a socket below it fits into sun_path's 108 bytes (unix(7)).
func shortDir(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("/tmp", "gh"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// put writes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// environ is the environment of everything that runs in the world.
func (w *world) environ(more ...string) []string {
	bin := filepath.Join(os.Getenv(installedIn), "node_modules", ".bin")
	return append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + w.home, "GATED_SOCKET=" + w.gate.socket,
		"XDG_CONFIG_HOME=" + filepath.Join(w.home, ".config"), "XDG_DATA_HOME=" + filepath.Join(w.home, "data"),
		"XDG_STATE_HOME=" + filepath.Join(w.home, "state"), "XDG_CACHE_HOME=" + filepath.Join(w.home, "cache")}, more...)
}

// run runs a program in the checkout, and returns what it printed. It ends the test if the program fails.
func (w *world) run(t *testing.T, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = w.repo, w.environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v\n%s", program, args, out)
	return string(out)
}

// product runs a product to its end, and returns what it printed.
func (w *world) product(t *testing.T, p product) string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Path = filepath.Join(os.Getenv(installedIn), "node_modules", ".bin", p.args[0])
	cmd.Err = nil // the program was looked for in the test's PATH
	cmd.Dir, cmd.Env = w.repo, w.environ(p.environ(w)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", p.name, out)
	return string(out)
}

// holds runs an agent that holds a pattern of the checkout until the test ends.
func (w *world) holds(t *testing.T, pattern string) {
	// Agents of one gate have different names, and each session has a directory of its own.
	line := fmt.Sprintf("%[1]s agent register builder-%[2]s && %[1]s reserve '%[3]s' --reason 'a new grammar' && echo held && read end",
		w.gate.program, filepath.Base(w.dir), pattern)
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = w.repo, w.environ()
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		_ = cmd.Wait() // its shell reads no line, which is what ends it
	})
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == "held" {
			return
		}
	}
	t.Fatal("the other agent could not reserve")
}

// gate is a daemon.
type gate struct {
	program string
	socket  string
	cmd     *exec.Cmd
}

// newGate starts a daemon, which runs until the test ends.
func newGate(t *testing.T) *gate {
	dir := shortDir(t)
	g := &gate{program: os.Getenv(gatedIn), socket: filepath.Join(dir, "s")}
	key, state := filepath.Join(dir, "key"), filepath.Join(dir, "state")
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", key).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(g.program, "init", "--state", state, "--socket", g.socket, "--host", "h1", "--operator", key+".pub").CombinedOutput()
	require.NoError(t, err, "%s", out)

	notify := filepath.Join(dir, "n")
	ready := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"}))(t)
	defer func() { require.NoError(t, ready.Close()) }()
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer func() { require.NoError(t, log.Close()) }()
	g.cmd = exec.Command(g.program, "serve", "--state", state, "--socket", g.socket)
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

// kill ends the daemon at once, and leaves its socket.
func (g *gate) kill() {
	_ = g.cmd.Process.Kill() // it may have ended
	_ = g.cmd.Wait()         // it was killed
}
