package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

// at returns a tool whose environment names a socket.
func at(socket string) *tool {
	return &tool{Tool: cli.Tool{Getenv: func(name string) string {
		if name == "GATED_SOCKET" {
			return socket
		}
		return ""
	}}}
}

// withDatabase returns a directory with a file of the database's name.
func withDatabase(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gated.db"), nil, 0o600))
	return dir
}

// A state directory without a gate is not the end of it where one answers.
func TestElsewhere(t *testing.T) {
	empty, socket := t.TempDir(), filepath.Join(t.TempDir(), "s")
	none := func() error { return refusal.New(refusal.UnknownTarget, "there is no gate in d").WithHint("make one") }
	hint := func(err error) string { return refusal.As(err).Hint }
	require.Equal(t, "make one", hint(at(socket).elsewhere(none(), empty)), "nobody listens")

	l := must.Get(net.Listen("unix", socket))(t)
	defer l.Close()
	require.Equal(t, "a gate answers at "+socket+": name the directory of its state with --state DIR, as its gated serve has it\nmake one",
		hint(at(socket).elsewhere(none(), empty)))
	require.Equal(t, "make one", hint(at(socket).elsewhere(none(), withDatabase(t))), "it is about something else")
	require.Empty(t, hint(at(socket).elsewhere(refusal.New(refusal.Conflict, "x"), empty)))
	require.NoError(t, at(socket).elsewhere(nil, empty))
	other := errors.New("disk on fire")
	require.Equal(t, other, at(socket).elsewhere(other, empty))
}

func TestHinted(t *testing.T) {
	disk := errors.New("disk on fire")
	require.Equal(t, disk, hinted(disk, "h"))
	require.NoError(t, hinted(nil, "h"))
	hint := func(err error) string { return refusal.As(err).Hint }
	require.Equal(t, "100 % of it", hint(hinted(refusal.New(refusal.Conflict, "x"), "100 % of it")))
	require.Equal(t, "own", hint(hinted(refusal.New(refusal.Conflict, "x").WithHint("own"), "h")))
	require.Empty(t, hint(hinted(refusal.New(refusal.Conflict, "x"), "h", refusal.UnknownTarget)), "another code")
	require.Equal(t, "h", hint(hinted(refusal.New(refusal.UnknownTarget, "x"), "h", refusal.UnknownTarget)))
}

func TestReadable(t *testing.T) {
	err := readable(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, err.Error(), unreadable(err, "/b.db", "/s"))
	denied := &fs.PathError{Op: "open", Path: "/root/b.db", Err: fs.ErrPermission}
	require.Equal(t, "open /root/b.db: permission denied\nroot can hand it over: runuser -u "+ownfile.Name(uint32(os.Geteuid()))+
		" -- gated restore - --state /s < /root/b.db", unreadable(denied, "/root/b.db", "/s"))
}
