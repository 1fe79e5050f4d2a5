package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
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
	_, err := io.WriteString(t.Stdout, t.listText(requests, cli.Width(t.Stdout)))
	return err
}

// listText lists requests in lines of at most cols columns. Without a request that is
// more than pending, or a signature, the columns for these are left out.
func (t *tool) listText(requests []api.Request, cols int) string {
	states := slices.ContainsFunc(requests, func(r api.Request) bool { return r.State != op.StatePending })
	signers := slices.ContainsFunc(requests, func(r api.Request) bool { return len(r.Signatures) > 0 })
	row := func(id, state, what, target, requester, signed, needs, reason string) string {
		cells := []string{id, state, what, target, requester, signed, needs, reason}
		if !signers {
			cells = slices.Delete(cells, 5, 6)
		}
		if !states {
			cells = slices.Delete(cells, 1, 2)
		}
		return cli.Row(cells...)
	}
	rows := []string{row("ID", "STATE", "OP", "TARGET", "FOR", "SIGNED", "NEEDS", "REASON")}
	for _, r := range requests {
		signed := make([]string, len(r.Signatures))
		for i, s := range r.Signatures {
			signed[i] = cli.Person(s.Principal)
		}
		rows = append(rows, row(r.ID, string(r.State), r.Op, cli.Asked(r.Target, r.Params), strings.Join(r.RequestedBy, ","),
			strings.Join(signed, ","), cli.Waiting(r, t.now()), r.Reason))
	}
	return cli.Fit(cols, cli.Ellipsis(t.Getenv), rows...)
}
