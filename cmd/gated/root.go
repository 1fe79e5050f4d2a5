package main

import (
	"github.com/spf13/cobra"

	"gated/internal/daemon"
)

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.command("gated", cobra.NoArgs, func(*cobra.Command, []string) error {
		return usageError{wordsNoCommand}
	})
	root.Args = nil // so that an unknown command is called that
	root.SilenceUsage, root.SilenceErrors = true, true
	root.DisableSuggestions = true
	root.Version = daemon.Version()
	root.PersistentFlags().BoolVar(&t.json, "json", false, flagJSON)
	root.PersistentFlags().StringVar(&t.socket, "socket", "", flagSocket)
	root.AddCommand(
		t.initCommand(), t.serveCommand(), t.statusCommand(), t.opsCommand(),
		t.submitCommand(), t.jobsCommand(), t.cancelCommand(), t.guestsCommand(), t.classifyCommand(),
		t.planCommand(), t.applyCommand(), t.eventsCommand(), t.auditCommand(),
		t.fsckCommand(), t.backupCommand(), t.restoreCommand(),
	)
	return root
}

// stateFlag adds --state.
func stateFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "state", "", flagState)
	_ = c.MarkFlagDirname("state") // the flag was just added
}
