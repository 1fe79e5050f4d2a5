package main

import (
	"github.com/spf13/cobra"

	"gated/internal/cli"
)

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.Root(cli.Words(help["opsign"]),
		t.listCommand(), t.showCommand(), t.approveCommand(), t.reviewCommand(), t.rejectCommand(), t.submitCommand(),
		t.signCommand(), t.verifyCommand(), t.keysCommand(), t.knownCommand(), t.forgetCommand(),
		t.witnessCommand(),
	)
	t.Remotes(root)
	return root
}
