package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"gated/internal/cli"
)

func (t *tool) canaryCommand() *cobra.Command {
	return t.Group(cli.Words(help["canary"]), wordsNoCanaryCommand, t.canaryAcceptCommand())
}

func (t *tool) canaryAcceptCommand() *cobra.Command {
	return t.command("canary accept", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		change, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || change < 1 {
			return cli.Usage(wordsChangeNumber)
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
		t.Print(wordsAlertAccepted, change)
		return nil
	})
}
