package main

import (
	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/daemon"
)

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.Root(cli.Words(help["gated"]),
		t.initCommand(), t.serveCommand(), t.statusCommand(), t.opsCommand(),
		t.submitCommand(), t.jobsCommand(), t.cancelCommand(), t.guestsCommand(), t.classifyCommand(),
		t.planCommand(), t.applyCommand(), t.eventsCommand(), t.auditCommand(), t.trustCommand(),
		t.agentCommand(), t.reserveCommand(), t.checkCommand(), t.renewCommand(), t.releaseCommand(), t.transferCommand(),
		t.reservationsCommand(), t.releaseAllCommand(), t.forceTransferCommand(), t.hookCommand(), t.doctorCommand(),
		t.canaryCommand(), t.fsckCommand(), t.backupCommand(), t.restoreCommand(), t.timeCommand(), t.dialCommand(),
	)
	root.Version = daemon.Version()
	return root
}

// stateFlag adds --state.
func stateFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "state", "", flagState)
	_ = c.MarkFlagDirname("state") // the flag was just added
}
