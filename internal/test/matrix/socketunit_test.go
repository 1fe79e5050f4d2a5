package matrix_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/test/must"
)

// socketUnit is what a row passes to a daemon in the place of a service manager.
type socketUnit struct {
	w     *world
	dir   string // of the socket; others may not write to it
	told  string // --socket
	pid   string // LISTEN_PID; empty: the daemon's own
	files []*os.File
	ends  []func() error // after the daemon has ended
}

// path is of a file in the socket's directory.
func (u *socketUnit) path(name string) string { return filepath.Join(u.dir, name) }

// listens adds a socket at a path.
func (u *socketUnit) listens(path string, mode os.FileMode) {
	u.w.t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(u.w.t)
	l.SetUnlinkOnClose(false)
	require.NoError(u.w.t, os.Chmod(path, mode))
	u.pass(l)
}

// pass adds a listener.
func (u *socketUnit) pass(l interface {
	File() (*os.File, error)
	Close() error
}) {
	u.w.t.Helper()
	u.files = append(u.files, must.Get(l.File())(u.w.t))
	require.NoError(u.w.t, l.Close())
}

// underUnit is what the helper does: it is the daemon of a socket unit.
func underUnit(ctx context.Context, state, told, pid, fds string) error {
	if pid == "" {
		pid = strconv.Itoa(os.Getpid())
	}
	if err := errors.Join(os.Setenv("LISTEN_PID", pid), os.Setenv("LISTEN_FDS", fds)); err != nil {
		return err
	}
	//fsck:none each row ends with fsck
	return daemon.Serve(ctx, daemon.ServeOptions{StateDir: state, Socket: told, Logger: slog.New(slog.DiscardHandler)})
}

// unitRow is a row in which the daemon of a socket unit must not start.
func unitRow(id, what string, want refusal.Code, spoil func(u *socketUnit)) attack {
	return attack{id: id, what: "the socket unit passes " + what, want: want, run: func(w *world) error {
		dir := must.Get(os.MkdirTemp("", "gu"))(w.t)
		w.cleanup(func() { _ = os.RemoveAll(dir) })
		u := &socketUnit{w: w, dir: dir, told: filepath.Join(dir, "s")}
		settings := w.put(filepath.Join(w.dir, "gated.yaml"), "host: "+testHost+"\nsingle_user: true\n", 0o600)
		w.armUnlogged("the gate does not start")
		w.shut()
		spoil(u)
		code := u.serve()
		require.NoError(w.t, os.Remove(settings))
		w.open()
		return code
	}}
}

// serve runs the daemon until it ends, and returns its refusal.
func (u *socketUnit) serve() error {
	u.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a daemon that starts is the fault
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	text := must.Get(json.Marshal(orders{What: "unit", Dir: u.w.dir, Call: []string{u.told, u.pid, strconv.Itoa(len(u.files))}}))(u.w.t)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), helperEnv + "=" + string(text)}
	cmd.ExtraFiles = u.files
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	for _, f := range u.files {
		require.NoError(u.w.t, f.Close())
	}
	for _, end := range u.ends {
		require.NoError(u.w.t, end())
	}
	if err == nil {
		return nil
	}
	code, detail, found := strings.Cut(strings.TrimSpace(out.String()), ": ")
	require.True(u.w.t, found, out.String())
	return refusal.New(refusal.Code(code), "%s", detail)
}

// placed is a row in which a client.yaml that others made leads to a gate of theirs.
func placed(id, what string, want refusal.Code, spoil func(w *world, path, socket string)) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		if os.Getuid() != 0 {
			w.t.Skip("needs root, to be another uid")
		}
		w.armUnlogged("no gate was asked")
		dir := must.Get(os.MkdirTemp("", "gp"))(w.t)
		w.cleanup(func() { _ = os.RemoveAll(dir) })
		require.NoError(w.t, os.Chmod(dir, 0o755))
		open := w.put(filepath.Join(dir, "open"), "", 0o777)
		socket := filepath.Join(open, "s")
		w.squatter(socket)
		etc := w.put(filepath.Join(dir, "etc"), "", 0o755)
		path := filepath.Join(etc, "client.yaml")
		spoil(w, path, socket)
		c, err := client.New(client.Options{File: path, Getenv: func(name string) string {
			return map[string]string{"HOME": filepath.Join(dir, "none")}[name]
		}})
		if err != nil {
			return err
		}
		defer c.Close()
		var gone *client.Unreachable
		require.ErrorAs(w.t, failure(c.Status(w.ctx)), &gone)
		require.ErrorContains(w.t, gone, strconv.Itoa(stranger))
		return unreachable
	}}
}

// theirs is a client.yaml that trusts the stranger.
func theirs(socket string) string {
	return "socket: " + socket + "\nuid: " + strconv.Itoa(stranger) + "\n"
}

var socketUnitRows = []attack{
	unitRow("H15a", "a socket to which everybody may connect", refusal.NotAllowed, func(u *socketUnit) { u.listens(u.told, 0o666) }),
	unitRow("H15b", "a socket that is another user's", refusal.NotAllowed, func(u *socketUnit) {
		if os.Getuid() != 0 {
			u.w.t.Skip("needs root, to be another uid")
		}
		u.listens(u.told, 0o660)
		require.NoError(u.w.t, os.Chown(u.told, stranger, -1))
	}),
	unitRow("H15c", "a TCP socket", refusal.BadParams, func(u *socketUnit) {
		u.pass(must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(u.w.t))
	}),
	unitRow("H15d", "two sockets, one of them open to everybody", refusal.BadParams, func(u *socketUnit) {
		u.listens(u.told, 0o660)
		u.listens(u.path("second"), 0o666)
	}),
	unitRow("H15e", "a socket at another path than the daemon was told", refusal.BadParams, func(u *socketUnit) { u.listens(u.path("other"), 0o660) }),
	unitRow("H15f", "a socket in a directory to which everybody may write", refusal.NotAllowed, func(u *socketUnit) {
		u.w.put(u.path("open"), "", 0o777)
		u.told = u.path("open/s")
		u.listens(u.told, 0o660)
	}),
	unitRow("H15g", "a socket for another process, which still listens", refusal.Conflict, func(u *socketUnit) {
		u.pid = "1"
		u.listens(u.told, 0o660)
	}),
	unitRow("H15h", "a socket that another one replaced at its path", refusal.Conflict, func(u *socketUnit) {
		u.listens(u.told, 0o660)
		require.NoError(u.w.t, os.Rename(u.told, u.path("old")))
		require.NoError(u.w.t, os.Symlink(u.path("old"), u.told))
	}),
	unitRow("H15i", "its socket to a second daemon on the same state", refusal.Conflict, func(u *socketUnit) {
		u.listens(u.told, 0o660)
		lock := must.Get(os.OpenFile(filepath.Join(u.w.dir, "lock"), os.O_RDWR, 0))(u.w.t) // the first daemon has it
		require.NoError(u.w.t, unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		u.ends = append(u.ends, lock.Close)
	}),
	placed("H15j", "a client.yaml to which everybody may write names a stranger's gate", refusal.NotAllowed, func(w *world, path, socket string) {
		w.put(path, theirs(socket), 0o666)
	}),
	placed("H15k", "a client.yaml of a stranger's names a stranger's gate", refusal.NotAllowed, func(w *world, path, socket string) {
		w.put(path, theirs(socket), 0o644)
		require.NoError(w.t, os.Chown(path, stranger, -1))
	}),
	placed("H15l", "client.yaml is a link to a file in a directory to which everybody may write", refusal.NotAllowed, func(w *world, path, socket string) {
		file := w.put(filepath.Join(filepath.Dir(socket), "theirs.yaml"), theirs(socket), 0o644)
		require.NoError(w.t, os.Symlink(file, path))
	}),
	placed("H15m", "the directory of client.yaml may be written by everybody", refusal.NotAllowed, func(w *world, path, socket string) {
		w.put(path, theirs(socket), 0o644)
		require.NoError(w.t, os.Chmod(filepath.Dir(path), 0o777))
	}),
	placed("H15n", "client.yaml names a second socket, which a stranger appended", refusal.Malformed, func(w *world, path, socket string) {
		w.put(path, "socket: /run/gated/gated.sock\nsocket: "+socket+"\n", 0o644)
	}),
	placed("H15o", "a stranger listens where a client.yaml of root's says, which names no other uid", unreachable, func(w *world, path, socket string) {
		w.put(path, "socket: "+socket+"\n", 0o644)
	}),
}
