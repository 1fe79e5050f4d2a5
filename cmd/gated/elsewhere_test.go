package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
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
	none := func() error { return op.Refuse(op.UnknownTarget, "there is no gate in d").WithHint("make one") }
	hint := func(err error) string { return op.AsRefusal(err).Hint }
	require.Equal(t, "make one", hint(at(socket).elsewhere(none(), empty)), "nobody listens")

	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	require.Equal(t, "a gate answers at "+socket+": name the directory of its state with --state DIR, as its gated serve has it\nmake one",
		hint(at(socket).elsewhere(none(), empty)))
	require.Equal(t, "make one", hint(at(socket).elsewhere(none(), withDatabase(t))), "it is about something else")
	require.Empty(t, hint(at(socket).elsewhere(op.Refuse(op.Conflict, "x"), empty)))
	require.NoError(t, at(socket).elsewhere(nil, empty))
	other := errors.New("disk on fire")
	require.Equal(t, other, at(socket).elsewhere(other, empty))
}

func TestInitFirst(t *testing.T) {
	gone := &client.Unreachable{Tried: []client.Attempt{{Path: "/s", Err: os.ErrNotExist, Hint: "start one with gated serve"}}}
	require.Contains(t, cli.Why("gated status", at("").initFirst(gone, t.TempDir())), "  hint: "+wordsInitFirst+"\n")
	require.Equal(t, gone, at("").initFirst(gone, withDatabase(t)), "there is one")
	require.Equal(t, gone, at("/s").initFirst(gone, t.TempDir()), "its state may be anywhere")
}
