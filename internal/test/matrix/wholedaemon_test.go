package matrix_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/internal/host/daemon"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// wholeDaemon is a daemon on a world's state, and a client of it.
type wholeDaemon struct {
	*client.Client
	socket string
	halt   func()
}

// today has a bare world's clock be the machine's, which the daemon's programs go
// by, and makes the guests and the files that those read.
func (w *world) today() {
	w.t.Helper()
	w.setClock(time.Since(w.now()))
	w.restart()
	w.makeGuests()
	w.settle()
	path := filepath.Join(w.dir, "gated.yaml")
	text := string(must.Get(os.ReadFile(path))(w.t)) + "\nlocal:\n  root: " + w.root + "\n"
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// daemon starts one on the state, which is shut, and waits until it answers.
func (w *world) daemon() wholeDaemon { return w.daemonLogging(slog.New(slog.DiscardHandler)) }

// daemonLogging is daemon with a log of its own.
func (w *world) daemonLogging(log *slog.Logger) wholeDaemon {
	w.t.Helper()
	w.shut()
	dir := must.Get(os.MkdirTemp("", "gs"))(w.t)
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		//fsck:none each row ends with fsck
		ended <- daemon.Serve(ctx, daemon.ServeOptions{StateDir: w.dir, Socket: socket, Logger: log})
	}()
	w.cleanup(stop)
	c := must.Get(client.New(client.Options{Socket: socket, Getenv: func(string) string { return "" }}))(w.t)
	require.Eventually(w.t, func() bool {
		_, err := c.Status(w.ctx) // it listens before it has written that it started
		return err == nil || len(ended) > 0
	}, time.Minute, time.Millisecond)
	return wholeDaemon{c, socket, func() {
		c.Close()
		stop()
		require.NoError(w.t, <-ended)
		w.free()
	}}
}

// Head implements witness.Log.
func (d wholeDaemon) Head(ctx context.Context) (witness.Shown, error) {
	h, err := d.AuditHead(ctx)
	return witness.Shown{Seq: h.Seq, Note: h.Note, Key: h.Key}, err
}

// shows is what opsign does before it shows or signs what a daemon says.
func (w *world) shows(d witness.Dir, log wholeDaemon) error {
	s, err := log.Status(w.ctx)
	if err == nil {
		_, err = d.Check(w.ctx, witness.Gate{ID: s.Gate, Host: s.Host, Address: socketAddress}, provesOf{log})
	}
	return err
}

// provesOf asks a daemon about its log, as opsign does.
type provesOf struct{ wholeDaemon }

// Consistency implements witness.Log.
func (p provesOf) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	c, err := p.Client.Consistency(ctx, old, size)
	return c.Proof, err
}
