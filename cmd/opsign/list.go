package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/op"
)

func (t *tool) listCommand() *cobra.Command {
	var all bool
	c := t.command("list", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.client()
		if err != nil {
			return err
		}
		defer cl.Close()
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
	if t.json {
		for _, r := range requests {
			if err := t.emit(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(requests) == 0 {
		t.print(wordsNothingWaits)
		return nil
	}
	rows := []string{wordsListHead}
	for _, r := range requests {
		rows = append(rows, row(r.ID, string(r.State), r.Op, r.Target, strings.Join(r.RequestedBy, ","),
			fmt.Sprint(r.Missing), moment(r.ExpiresAt), r.Reason))
	}
	return t.table(rows...)
}
