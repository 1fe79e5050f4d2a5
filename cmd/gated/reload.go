package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

func (t *tool) reloadCommand() *cobra.Command {
	return t.Asking(cli.Words{
		Use:   "reload",
		Short: "Have the daemon take over policy and revoked keys from its files",
		Long: `For admins. Does what SIGHUP does, and waits for the result: what changed, and which keys of gated.yaml wait
for a restart. If the daemon refuses a file, what was in force stays, and the exit code is 1.`,
		Example: "  gated reload",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		r, err := cl.Reload(c.Context())
		if err != nil {
			if refused := (*api.Refusal)(nil); errors.As(err, &refused) {
				t.Say("note: the reload was refused, and what was in force stays\n")
			}
			return err
		}
		return t.Answer(r, "%s", reloadText(r))
	})
}

// reloadText says what a reload changed, and what waits for a restart.
func reloadText(r api.Reloaded) string {
	text := "nothing changed"
	if len(r.Changed) > 0 {
		text = "in force now: " + op.Shown(strings.Join(r.Changed, ", "))
	}
	text += "\n  policy: " + op.Shown(r.Policy) + "\n  revoked keys: " + op.Shown(r.Revoked) + "\n"
	if len(r.Waits) > 0 {
		text += "changed on disk, in force after a restart of the daemon: " + op.Shown(strings.Join(r.Waits, ", ")) + "\n"
	}
	return text
}
