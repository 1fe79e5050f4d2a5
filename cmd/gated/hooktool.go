package main

import (
	"github.com/spf13/cobra"

	"gated/internal/hook"
)

// preToolUseCommand returns the hook that an agent's harness runs before each
// tool call.
func (t *tool) preToolUseCommand() *cobra.Command {
	var f hookFlags
	var exitCode bool
	c := t.command("hook pre-tool-use", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		h := hook.ToolHook{Guard: t.guard("pre-tool-use", f), ExitCode: exitCode}
		return t.end(h.Run(c.Context(), t.stdin))
	})
	f.add(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, flagExitCode)
	return c
}
