package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

func (t *tool) listCommand() *cobra.Command {
	var all bool
	c := t.Command(cli.Words{
		Use:     "list",
		Short:   "List what waits for signatures, and what cools off or waits for its window",
		Example: "  opsign list",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if _, err := t.knownGate(c.Context(), cl); err != nil {
			return err
		}
		requests, err := cl.Requests(c.Context(), "")
		if err != nil {
			return err
		}
		if !all {
			requests = slices.DeleteFunc(requests, func(r api.Request) bool { return !t.decidable(r) })
		}
		return t.listRequests(requests)
	})
	c.Flags().BoolVar(&all, "all", false, "also what is authorized or under way")
	return c
}

// decidable holds for what an operator can still decide: what waits for
// signatures, and what they can stop because it cools off or waits for its
// window.
func (t *tool) decidable(r api.Request) bool {
	return r.State == op.StatePending || cli.Delayed(r, t.now())
}

const wordsNothingWaits = "nothing waits\n"

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
	rows := []string{"ID\tSTATE\tOP\tTARGET\tFOR\tEXPIRES\tSIGNED\tNEEDS\tREASON"}
	for _, r := range requests {
		signed := make([]string, len(r.Signatures))
		for i, s := range r.Signatures {
			signed[i] = cli.Person(s.Principal)
		}
		rows = append(rows, cli.Row(r.ID, string(r.State), r.Op, cli.Asked(r.Target, r.Params), strings.Join(r.RequestedBy,
			","), cli.Moment(r.ExpiresAt),
			strings.Join(signed, ","), cli.Waiting(r, t.now()), r.Reason))
	}
	_, err := io.WriteString(t.Stdout, cli.Told(cli.Columns(rows...), t.Stdout))
	return err
}
