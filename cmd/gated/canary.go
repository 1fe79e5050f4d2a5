package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"gated/internal/wire/cli"
)

func (t *tool) canaryCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "canary",
		Short:   "Accept a change of the gate's decisions",
		Example: "  gated canary accept 812",
	}, "say accept", t.canaryAcceptCommand())
}

func (t *tool) canaryAcceptCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:     "accept ENTRY",
		Short:   "End the alert about an audit entry: the new decision is right",
		Long:    "For operators. gated status shows the alert, how to go back, and the entry.",
		Example: "  gated canary accept 812",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		change, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || change < 1 {
			return cli.Usage("an alert is named by the number of the entry that it is about: gated status shows it")
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := cl.AcceptAlert(c.Context(), change); err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(struct {
				Change int64 `json:"change"`
			}{change})
		}
		t.Print("the alert about entry %d has ended; the audit log has it\n", change)
		return nil
	})
}
