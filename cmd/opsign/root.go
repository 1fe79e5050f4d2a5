package main

import "github.com/spf13/cobra"

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.command("opsign", cobra.NoArgs, func(*cobra.Command, []string) error {
		return usageError{wordsNoCommand}
	})
	root.Args = nil // so that an unknown command is called that
	root.SilenceUsage, root.SilenceErrors = true, true
	root.DisableSuggestions = true
	root.PersistentFlags().BoolVar(&t.json, "json", false, flagJSON)
	root.PersistentFlags().StringVar(&t.socket, "socket", "", flagSocket)
	root.AddCommand(
		t.listCommand(), t.showCommand(), t.approveCommand(), t.rejectCommand(), t.submitCommand(),
		t.signCommand(), t.verifyCommand(), t.keysCommand(),
	)
	return root
}
