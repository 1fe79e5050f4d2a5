package matrix_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/test/must"
)

// start has a daemon start on a world's state with those lines in a gated.yaml of
// that mode, returns why it did not, and takes the file away again.
func (w *world) start(mode os.FileMode, lines string) error {
	w.t.Helper()
	path := filepath.Join(w.dir, "gated.yaml")
	text := "host: " + testHost + "\nsingle_user: true\n" + lines
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(w.t, os.Chmod(path, mode))
	w.arm()
	w.shut()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a daemon that starts is the fault
	defer cancel()
	//fsck:none each row ends with fsck
	err := daemon.Serve(ctx, daemon.ServeOptions{StateDir: w.dir, Socket: filepath.Join(w.dir, "s"), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(w.t, os.Remove(path))
	w.open()
	w.allow.unlogged = "there is no gate yet that could log why it does not start"
	return err
}

// writable is a row in which others can write to what gated.yaml names. spoil makes
// it in a directory of its own and returns the lines that name it.
func writable(id, what string, spoil func(w *world, dir string) string) attack {
	return attack{id: id, what: "others can write to " + what + ", which decides", want: refusal.NotAllowed, run: func(w *world) error {
		dir := must.Get(os.MkdirTemp("", "gd"))(w.t)
		w.cleanup(func() { _ = os.RemoveAll(dir) })
		return w.start(0o600, spoil(w, dir))
	}}
}

// put makes a file or, without text, a directory of exactly that mode.
func (w *world) put(path, text string, mode os.FileMode) string {
	w.t.Helper()
	if text == "" {
		require.NoError(w.t, os.Mkdir(path, 0o700))
	} else {
		require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	}
	require.NoError(w.t, os.Chmod(path, mode))
	return path
}

const benignProgram = "#!/bin/sh\nexit 0\n"

// decidingRows are attacks by way of what the gate reads.
var decidingRows = []attack{
	{id: "U06a", what: "a benign command is appended to a gated.yaml that others can write", want: refusal.NotAllowed, run: func(w *world) error {
		return w.start(0o666, "commands: {theirs: {argv: [/bin/true], benign: true}}\n")
	}},
	writable("U06b", "a program of the catalogue", func(w *world, dir string) string {
		return "commands: {theirs: {argv: [" + w.put(dir+"/p", benignProgram, 0o757) + "], benign: true}}\n"
	}),
	writable("U06c", "the directory of a program", func(w *world, dir string) string {
		w.put(dir+"/d", "", 0o777)
		return "commands: {theirs: {argv: [" + w.put(dir+"/d/p", benignProgram, 0o755) + "], benign: true}}\n"
	}),
	writable("U06d", "what runs a program", func(w *world, dir string) string {
		reader := w.put(dir+"/reader", "\x7fELF", 0o775)
		return "commands: {theirs: {argv: [" + w.put(dir+"/p", "#!"+reader+"\n", 0o755) + "], benign: true}}\n"
	}),
	writable("U06e", "a probe", func(w *world, dir string) string {
		return "commands: {theirs: {argv: [/bin/true], probe: [" + w.put(dir+"/p", benignProgram, 0o777) + "]}}\n"
	}),
	writable("U06f", "the directory above the revocation file", func(w *world, dir string) string {
		w.put(dir+"/d", "", 0o770)
		w.put(dir+"/d/below", "", 0o755)
		return "revocation_file: " + w.put(dir+"/d/below/revoked", "# none\n", 0o644) + "\n"
	}),
	writable("U06g", "the directory of desired state", func(w *world, dir string) string {
		return "desired: {dir: " + w.put(dir+"/d", "", 0o775) + "}\n"
	}),
	writable("U06h", "a link's directory on the way to desired state", func(w *world, dir string) string {
		to := w.put(dir+"/to", "", 0o755)
		links := w.put(dir+"/links", "", 0o755)
		require.NoError(w.t, os.Symlink(to, links+"/l"))
		require.NoError(w.t, os.Chmod(links, 0o777))
		return "desired: {dir: " + links + "/l}\n"
	}),
	writable("U06i", "the hub's certificates", func(w *world, dir string) string {
		return "hub: {url: \"https://127.0.0.1:1\", ca: " + w.put(dir+"/ca", "-----BEGIN", 0o664) + "}\n"
	}),
}
