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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/driver/local"
	"gated/internal/op"
)

// harmless is the program of the command that rows rewrite.
const harmless = "#!/bin/sh\nexec sleep 1000\n"

func program() string { return filepath.Join(scratchDir, "program") }

// makeProgram writes it, and lets guests have it.
func makeProgram() error {
	commands["program"] = local.Command{Argv: []string{program()}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	return os.WriteFile(program(), []byte(harmless), 0o755)
}

var programRows = []attack{
	{id: "B20a", what: "the program of a guest's command is rewritten, to destroy what other guests have", want: op.PendingSignature, run: func(w *world) error {
		if w.driver.Status().Confinement != "landlock" {
			w.t.Skip("needs Landlock")
		}
		w.makeGuest("web", "command", "program")
		w.arm()
		w.allow.trash, w.allow.tree = true, []string{"web"}
		text := "#!/bin/sh\nfor g in victim bystander; do\nrm -rf " + w.root + "/$g " + w.root + "/$g/data/*\n" +
			"echo gone > " + w.root + "/$g/data/precious.txt\nmv " + w.root + "/$g " + w.root + "/other\ndone\nrm -rf " + w.dir + "\necho tried > tried\nexec sleep 1000\n"
		require.NoError(w.t, os.WriteFile(program(), []byte(text), 0o755))
		w.do("guest.start", "web")
		require.Eventually(w.t, func() bool { return exists(w.path("web", "data", "tried")) }, time.Minute, time.Millisecond)
		w.do("guest.stop", "web")
		require.NoError(w.t, os.WriteFile(program(), []byte(harmless), 0o755))
		w.unchanged()
		w.allow.finale = []string{"web"}
		return w.waits(w.submit(hub, ask("guest.destroy", "web")))
	}},
	{id: "B20b", what: "a job names a program instead of an entry of the configuration", want: op.NotAllowed, run: func(w *world) error {
		w.arm()
		for _, kv := range [][]any{{"argv", program()}, {"env", "A=b"}, {"path", program()}} {
			_, err := w.submit(hub, ask("guest.set-config", "victim", kv...))
			require.ErrorIs(w.t, err, op.NotAllowed)
		}
		_, err := w.submit(hub, ask("guest.set-config", "victim", "command", program()))
		require.ErrorIs(w.t, err, op.BadParams, "a path is no name")
		_, err = w.submit(hub, ask("guest.set-config", "victim", "command", "sh"))
		return err
	}},
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
		w.arm()
		w.allow.unlogged = "no gate was asked"
		runtime := must(os.MkdirTemp("", "gx"))
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
		w.arm()
		w.allow.unlogged = "no gate was asked"
		dir := must(os.MkdirTemp("", "gq"))
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
	text, err := json.Marshal(orders{What: "squat", Dir: path})
	require.NoError(w.t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", helperEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(w.t, err)
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
