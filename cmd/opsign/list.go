package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

func (t *tool) listCommand() *cobra.Command {
	var all bool
	c := t.command("list", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if _, err := t.knownGate(c.Context(), cl); err != nil {
			return err
		}
		state := op.StatePending
		if all {
			state = ""
		}
		requests, err := cl.Requests(c.Context(), state)
		if err != nil {
			return err
		}
		return t.listRequests(requests)
	})
	c.Flags().BoolVar(&all, "all", false, flagAll)
	return c
}

func (t *tool) listRequests(requests []api.Request) error {
	if t.JSON {
		for _, r := range requests {
			if err := t.Emit(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(requests) == 0 {
		t.Print(wordsNothingWaits)
		return nil
	}
	rows := []string{wordsListHead}
	for _, r := range requests {
		rows = append(rows, cli.Row(r.ID, string(r.State), r.Op, r.Target, strings.Join(r.RequestedBy, ","),
			fmt.Sprint(r.Missing), cli.Moment(r.ExpiresAt), r.Reason))
	}
	return t.Table(rows...)
}
