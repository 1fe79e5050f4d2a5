package main

import (
	"github.com/spf13/cobra"

	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// dialCommand returns the command that opsign runs on the gate's host, through
// ssh. It has no flag of its own: the words of a line for a shell are not to be
// trusted with more.
func (t *tool) dialCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:   "dial",
		Short: "Connect standard input and output to the daemon's socket, for a gate's remote clients",
		Long: `opsign --remote runs this on the gate's host, through ssh. It checks the socket as every client does, copies
both ways, and ends when either side ends.`,
		Example: "  gated dial --socket /run/gated/gated.sock",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		o, err := t.Where()
		if err != nil {
			return err
		}
		return client.Relay(c.Context(), o, t.stdin, t.Stdout)
	})
}
