package main

import (
	"github.com/spf13/cobra"

	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

func (t *tool) showCommand() *cobra.Command {
	var raw, details bool
	c := t.Command(cli.Words{
		Use:   "show ID",
		Short: "Show what a signature of a request would approve, and what would be lost",
		Long: `Begins with the operation, its target and whether it can be undone. --details adds the ids, hashes and times that the
signature binds. --payload writes the exact bytes to sign, for OpenSSH:

  opsign show j12.1 --payload > op.json
  ssh-keygen -Y sign -n operational@gated -f ~/.ssh/id_ed25519 op.json
  opsign submit op.json --sig op.json.sig`,
		Example: "  opsign show j12.1\n" +
			"  opsign show j12.1 --details",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		q, err := t.question(c.Context(), cl, args[0])
		switch {
		case err != nil:
			return err
		case raw:
			_, err = t.Stdout.Write(q.Bytes)
			return err
		case t.JSON:
			return t.Emit(q.Request)
		}
		t.Print("%s", t.painted(q.Text(t.view(details)), t.Stdout))
		return nil
	})
	c.ValidArgsFunction = t.completeRequest
	c.Flags().BoolVar(&raw, "payload", false, "write the exact bytes to sign, and nothing else")
	c.Flags().BoolVar(&details, "details", false, flagDetails)
	return c
}

const flagDetails = "also show the ids, hashes and times that the signature binds"

func (t *tool) view(details bool) question.View {
	return question.View{Now: t.now(), Dash: cli.Dash(t.Getenv), Details: details}
}
