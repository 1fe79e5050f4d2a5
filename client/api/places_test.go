package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Wherever a user's daemon listens, a client of that user looks, also from a shell with another environment.
func TestAClientLooksWhereADaemonListens(t *testing.T) {
	const runtime, state, home = "/run/user/1000", "/home/a/st", "/home/a"
	environments := []map[string]string{{}, {"XDG_RUNTIME_DIR": runtime}, {"XDG_RUNTIME_DIR": "relative"}}
	for _, served := range environments {
		at := OwnSocket(1000, func(name string) string { return served[name] }, home)
		require.NotEmpty(t, at)
		for _, asks := range environments {
			require.Contains(t, SearchedSockets(1000, func(name string) string { return asks[name] }, home), at)
		}
	}
	none := func(string) string { return "" }
	with := func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }
	require.Equal(t, "/home/a/.local/state/gated/gated.sock", OwnSocket(1000, none, home))
	require.Equal(t, state+"/gated/gated.sock", OwnSocket(1000, with, ""))
	require.Empty(t, OwnSocket(1000, none, ""))
	require.Empty(t, OwnSocket(0, func(string) string { return runtime }, home))
	require.Equal(t, []string{"/run/user/1000/gated/gated.sock", SystemSocket}, SearchedSockets(1000, none, ""))
	require.Equal(t, []string{SystemSocket}, SearchedSockets(0, none, home))
	require.Equal(t, []string{"/r/gated/gated.sock", SystemSocket},
		SearchedSockets(0, func(string) string { return "/r" }, home))
}
