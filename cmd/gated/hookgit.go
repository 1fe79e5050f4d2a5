package main

import (
	"github.com/spf13/cobra"

	"gated/internal/hook"
)

// gitHookCommands are the hooks that git runs.
func (t *tool) gitHookCommands() []*cobra.Command {
	return []*cobra.Command{t.preCommitCommand(), t.prePushCommand()}
}

func (t *tool) preCommitCommand() *cobra.Command {
	return t.gitHookCommand("pre-commit", cobra.NoArgs, func(c *cobra.Command, h hook.GitHook, _ []string) hook.Outcome {
		return h.Commit(c.Context())
	})
}

func (t *tool) prePushCommand() *cobra.Command {
	return t.gitHookCommand("pre-push", cobra.ExactArgs(2), func(c *cobra.Command, h hook.GitHook, args []string) hook.Outcome {
		return h.Push(c.Context(), args[0], t.stdin)
	})
}

func (t *tool) gitHookCommand(name string, args cobra.PositionalArgs, run func(*cobra.Command, hook.GitHook, []string) hook.Outcome) *cobra.Command {
	var f hookFlags
	c := t.command("hook "+name, args, func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return t.end(run(c, hook.GitHook{Guard: t.guard(name, f)}, args))
	})
	f.add(c)
	f.deadline = hook.GitDeadline
	c.Flags().Lookup("deadline").DefValue = hook.GitDeadline.String() // the flag was just added
	return c
}
