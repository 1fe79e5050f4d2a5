package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

func (t *tool) incidentsCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "incidents",
		Short: "Show which steps break-glass approved and no operator has reviewed",
		Long: `Each step that was approved with a key for the role breakglass is an incident. The health of the gate is bad until an
operator has signed a review. Exits 0 if no incident is open, else 1.`,
		Example: "  gated incidents\n" +
			"  gated incidents review --reason \"OPS-1234\"",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := t.status(c.Context())
		if err != nil {
			return err
		}
		if s.Incidents == nil {
			return refusal.New(refusal.Unavailable, "the daemon is of a version without break-glass")
		}
		if t.JSON {
			err = t.Emit(s.Incidents)
		} else {
			t.Print("%s", incidentsText(s.Incidents))
		}
		if err != nil || len(s.Incidents) == 0 {
			return err
		}
		return cli.Ended(api.ExitRefused)
	})
	c.AddCommand(t.incidentsReviewCommand())
	return c
}

// incidentsText has a line for each open incident, and what to do.
func incidentsText(open []api.Incident) string {
	if len(open) == 0 {
		return "no incident is open\n"
	}
	text, ended := "", false
	for _, in := range open {
		text += fmt.Sprintf("%s %s %s of %s: %s, signed by %s\n", cli.Moment(in.ApprovedAt), op.Shown(in.Request), op.Shown(in.Op), op.Shown(in.Target),
			op.Shown(string(in.State)), cli.People(in.SignedBy))
		if in.State.Open() {
			text += fmt.Sprintf("  to stop it: opsign reject %s --reason TEXT\n", op.Shown(in.Request))
		}
		ended = ended || !in.State.Open()
	}
	if ended {
		text += "to close what has ended: gated incidents review\n"
	}
	return text
}

func (t *tool) incidentsReviewCommand() *cobra.Command {
	var reason string
	c := t.Command(cli.Words{
		Use:   "review",
		Short: "Ask an operator to sign that the incidents which have ended were looked at",
		Long: `For operators. Asks for incident.review. The request shows each incident that has ended, and an operator signs it:
exit code 3. An incident whose step has not ended stays open.`,
		Example: "  gated incidents review --reason \"the database was full, see OPS-1234\"",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		return t.askOne(c, reason, false, func(context.Context, *client.Client) (op.Ask, error) {
			return op.Ask{Op: op.Review, Target: op.Incidents, Params: op.Params{}}, nil
		})
	})
	c.Flags().StringVar(&reason, "reason", "", flagReason)
	return c
}
