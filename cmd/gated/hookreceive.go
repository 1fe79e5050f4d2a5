package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// preReceiveCommand is the hook of a bare repository.
func (t *tool) preReceiveCommand() *cobra.Command {
	var command, who string
	var deadline time.Duration
	c := t.Command(cli.Words{
		Use:   "pre-receive",
		Short: "Refuse deletes and forced pushes, and ask operators for them",
		Long: `Git runs it in a repository that is pushed to, and writes the refs to its standard input. If a push takes away
what a ref has, it is refused, and the gate is asked for exactly that change: repository, ref, old and new object. When
an operator has signed, the gate changes the ref itself. Every other push passes, and nobody is asked.

The recipe in contrib/recipes/git has the entry of the catalogue that it asks for.`,
		Example: "  gated hook pre-receive --who \"$REMOTE_USER\"",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if deadline <= 0 || deadline > hook.MaxDeadline {
			return cli.Usage("--deadline is not above 0 and at most 1m")
		}
		if op.CheckName(command) != nil {
			return cli.Usage("--command is not the name of an entry of the catalogue")
		}
		// What the environment holds may be any bytes.
		h := hook.ReceiveHook{Submit: t.submitting, Deadline: deadline, Command: command, Who: op.Shown(who)}
		return t.end(h.Receive(c.Context(), t.stdin))
	})
	c.Flags().StringVar(&command, "command", hook.DefaultReceiveCommand, "the `NAME` of the catalogue's entry that changes a ref")
	c.Flags().StringVar(&who, "who", "", "`WORDS` that say who pushed, for operators")
	c.Flags().DurationVar(&deadline, "deadline", hook.ReceiveDeadline, "how long to wait for each answer of the daemon")
	return c
}

// submitting hands a job in. A daemon that the flags or the environment name wrongly cannot be asked.
func (t *tool) submitting(ctx context.Context, s api.Submit) (api.Job, error) {
	cl, err := t.Client()
	if err != nil {
		return api.Job{}, refusal.New(refusal.BadParams, "%v", err)
	}
	return submitted(ctx, cl, s) // the process ends with the answer, and its connection with it
}
