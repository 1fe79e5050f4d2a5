package main

import (
	"github.com/spf13/cobra"

	"gated/internal/client"
)

// dialCommand returns the command that opsign runs on the gate's host, through
// ssh. It has no flag of its own: the words of a line for a shell are not to be
// trusted with more.
func (t *tool) dialCommand() *cobra.Command {
	return t.command("dial", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		o, err := t.Where()
		if err != nil {
			return err
		}
		return client.Relay(c.Context(), o, t.stdin, t.Stdout)
	})
}
