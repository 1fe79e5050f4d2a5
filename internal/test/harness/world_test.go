package harness_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	dir := worldDir(t)
	w := &world{dir: dir, home: filepath.Join(dir, "home"), repo: filepath.Join(dir, "repo"), gate: g,
		model: newModel(t, speaks, script)}
	require.NoError(t, os.MkdirAll(w.home, 0o700))
	require.NoError(t, os.MkdirAll(w.repo, 0o700))
	w.run(t, "git", "init", "--quiet")
	return w
}

// worldDir makes a directory in that of the run. A socket below it fits into sun_path's 108 bytes.
func worldDir(t *testing.T) string {
	dir := must.Get(os.MkdirTemp(os.Getenv(builtIn), "w"))(t)
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
	return append([]string{"PATH=" + modules(".bin") + ":" + os.Getenv("PATH"), "HOME=" + w.home,
		"GATED_SOCKET=" + w.gate.socket,
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
	cmd := exec.CommandContext(ctx, modules(p.program), p.args...)
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
	line := fmt.Sprintf("%[1]s agent register builder-%[2]s && %[1]s reserve '%[3]s' --reason 'a new grammar' && "+
		"echo held && read end", built("gated"), filepath.Base(w.dir), pattern)
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
