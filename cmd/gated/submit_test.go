package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
)

// A job that was accepted is named where no daemon says how it ended.
func TestAwaitedOfADaemonThatIsGone(t *testing.T) {
	cl, err := client.New(client.Options{Socket: "/nowhere", Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	_, err = awaited(t.Context(), cl, api.Job{ID: "j129"}, func(api.Job) bool { return false })
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	require.Contains(t, cli.Why("gated submit", err), "  hint: j129 was accepted; gated jobs j129 says how it ended\n")

	_, err = submitted(t.Context(), cl, api.Submit{})
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	require.NotContains(t, cli.Why("gated submit", err), "accepted", "nothing was handed in")
}
