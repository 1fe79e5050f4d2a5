package matrix_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/test/must"
)

var squatRows = []attack{
	squatted("H12b", "a stranger listens behind a socket that is root's", func(w *world, path string) string {
		require.NoError(w.t, os.Chown(path, 0, 0))
		return path
	}),
	squatted("H12c", "a symlink of root's leads to a stranger's socket", func(w *world, path string) string {
		link := filepath.Join(w.t.TempDir(), "s")
		require.NoError(w.t, os.Symlink(path, link))
		return link
	}),
	{id: "H12d", what: "a stranger's socket at the first of the default paths", want: unreachable, run: func(w *world) error {
		if os.Getuid() != 0 {
			w.t.Skip("needs root, to be another uid")
		}
		r := w.destroyRequest()
		w.armUnlogged("no gate was asked")
		runtime := must.Get(os.MkdirTemp("", "gx"))(w.t)
		w.cleanup(func() { _ = os.RemoveAll(runtime) })
		require.NoError(w.t, os.Mkdir(filepath.Join(runtime, "gated"), 0o777))
		require.NoError(w.t, os.Chmod(filepath.Join(runtime, "gated"), 0o777))
		require.NoError(w.t, os.Chmod(runtime, 0o755))
		w.squatter(filepath.Join(runtime, "gated", "gated.sock"))
		c, err := client.New(client.Options{Getenv: func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": runtime}[name] }})
		require.NoError(w.t, err)
		defer c.Close()
		e := w.envelopeOf(r)
		_, err = c.Approve(w.ctx, r.ID.String(), api.EnvelopeOf(e.Payload, e.Signatures...))
		var gone *client.Unreachable
		require.ErrorAs(w.t, err, &gone)
		require.ErrorContains(w.t, err, fmt.Sprint(stranger))
		return unreachable
	}},
}

// squatted is a row in which a process of a stranger's listens where a gate
// should be.
func squatted(id, what string, place func(w *world, path string) string) attack {
	return attack{id: id, what: what, want: unreachable, run: func(w *world) error {
		if os.Getuid() != 0 {
			w.t.Skip("needs root, to be another uid")
		}
		r := w.destroyRequest()
		w.armUnlogged("no gate was asked")
		dir := must.Get(os.MkdirTemp("", "gq"))(w.t)
		w.cleanup(func() { _ = os.RemoveAll(dir) })
		require.NoError(w.t, os.Chmod(dir, 0o777))
		path := filepath.Join(dir, "s")
		w.squatter(path)
		return fooled(w, place(w, path), r)
	}}
}

// squatter starts a process of a stranger's that listens at a path until the
// case ends, and fails it if anybody says a word to it.
func (w *world) squatter(path string) {
	w.t.Helper()
	text := must.Get(json.Marshal(orders{What: "squat", Dir: path}))(w.t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", helperEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out := must.Get(cmd.StdoutPipe())(w.t)
	require.NoError(w.t, cmd.Start())
	lines := bufio.NewReader(out)
	line := must.Get(lines.ReadString('\n'))(w.t)
	require.Equal(w.t, "listening\n", line)
	w.cleanup(func() {
		require.NoError(w.t, cmd.Process.Kill())
		heard, _ := io.ReadAll(lines)
		require.Empty(w.t, string(heard), "somebody talked to a stranger")
		require.Error(w.t, cmd.Wait())
	})
}

// squat listens and says what it hears.
func squat(path string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		b := make([]byte, 4096)
		if n, _ := conn.Read(b); n > 0 {
			fmt.Printf("heard %q\n", b[:n])
		}
		_ = conn.Close()
	}
}
