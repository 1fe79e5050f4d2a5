package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

func (t *tool) listCommand() *cobra.Command {
	var all, follow, everywhere, fleet bool
	var hub fleetLine
	c := t.Command(cli.Words{
		Use:   "list",
		Short: "List what waits for signatures, and what cools off or waits for its window",
		Long: `With --follow it goes on: it prints each request that begins to wait, and what became of those that it printed,
until Ctrl-C. With --all-gates it asks every gate that opsign known lists, several at a time. A gate that does not
answer within 20 seconds is a line and exit code 4. ssh asks for nothing meanwhile. With --hub or --fleet it lists
what waits at all gates of a hub, a page of the oldest requests, or with --all every page. That is the hub's word,
and nothing of it is signed: opsign -H ADDRESS approve fetches the request from the gate. With --verify, opsign asks
the known gates at once, and exits 1 if one says something else.`,
		Example: "  opsign list\n" +
			"  opsign list --follow --json\n" +
			"  opsign list --all-gates\n" +
			"  opsign list --hub https://hub.example.com:8442 --op guest.destroy --verify",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		fleet = fleet || hub.URL != ""
		switch {
		case fleet && (follow || everywhere):
			return cli.Usage("--hub and --fleet list a hub's queue, --follow and --all-gates ask gates: say one")
		case fleet:
			hub.all = all
			return t.listFleet(c.Context(), hub)
		case slices.ContainsFunc(fleetFlags, c.Flags().Changed):
			return cli.Usage("--" + strings.Join(fleetFlags, ", --") + " are of a hub's queue: say --hub URL or --fleet")
		case everywhere && follow:
			return cli.Usage("--follow is for one gate, --all-gates for all: say one")
		case everywhere:
			return t.listGates(c.Context(), all)
		}
		return t.With(func(cl *client.Client) error {
			if follow {
				return t.follow(c.Context(), cl, all)
			}
			requests, _, err := t.open(c.Context(), cl, all)
			if err != nil {
				return err
			}
			return t.listRequests(requests)
		})
	})
	c.Flags().BoolVar(&all, "all", false, "also what is authorized or under way; of a hub's queue, every page")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "also print what comes, and what becomes of it")
	c.Flags().BoolVar(&everywhere, "all-gates", false, "ask every known gate")
	addFleetFlags(c, &hub, &fleet)
	return c
}

// open returns what an operator can decide at a gate, or all that is open, once the gate is known to be the one that it
// was.
func (t *tool) open(ctx context.Context, cl *client.Client, all bool) ([]api.Request, api.Status, error) {
	s, err := t.knownGate(ctx, cl)
	if err != nil {
		return nil, s, err
	}
	requests, err := cl.Requests(ctx, "")
	if !all {
		requests = slices.DeleteFunc(requests, func(r api.Request) bool { return !t.decidable(r) })
	}
	return requests, s, err
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
		return cli.Each(&t.Tool, nil, requests...)
	}
	if len(requests) == 0 {
		t.Print(wordsNothingWaits)
		return nil
	}
	_, err := io.WriteString(t.Stdout, t.listText(requests, cli.Width(t.Stdout)))
	return err
}

// requestColumns are those of a list of requests. An operator decides by the first seven, and by the reason, which gives way last.
var requestColumns = []cli.Column{{Head: "ID"}, {Head: "STATE", Rank: 1}, {Head: "AGE", Rank: 1}, {Head: "UNDO", Rank: 1}, {Head: "OP"},
	{Head: "TARGET"}, {Head: "WHAT", Rank: 1, Least: 16}, {Head: "FOR", Rank: 4, Once: "each is for"},
	{Head: "SIGNED", Rank: 3}, {Head: "NEEDS", Rank: 3, Once: "each needs"}, {Head: "REASON", Rank: 2}}

// listText lists requests in lines of at most cols columns. If all of them are pending, no screen says so.
func (t *tool) listText(requests []api.Request, cols int) string {
	states := cols == 0 || slices.ContainsFunc(requests, func(r api.Request) bool { return r.State != op.StatePending })
	rows := make([][]string, len(requests))
	for i, r := range requests {
		state := ""
		if states {
			state = string(r.State)
		}
		signed := make([]string, len(r.Signatures))
		for j, s := range r.Signatures {
			signed[j] = cli.Person(s.Principal)
		}
		rows[i] = []string{r.ID, state, op.Age(t.now(), r.CreatedAt), undoInLine(r), cli.OpInLine(r.Op), r.Target, whatInLine(r),
			strings.Join(r.RequestedBy, ","), strings.Join(signed, ","), cli.Waiting(r, t.now()), cli.ReasonsInLine(r.Reason, r.Reasons)}
	}
	return cli.Table(cols, cli.Ellipsis(t.Getenv), requestColumns, rows)
}

// undoInLine says in a word whether a step can be undone.
func undoInLine(r api.Request) string {
	level, _ := undoOf(r.Op, r.Params, r)
	return map[op.Undoable]string{op.Gone: "no", op.ByHandUntil: "by hand", op.ByHand: "by hand", op.InTime: "yes"}[level]
}

// whatInLine says what a step changes, what guards the target first. Of another step it says the parameters, and
// why it waits.
func whatInLine(r api.Request) string {
	var changes []string
	for _, f := range r.Facts {
		if what, ok := f.Changes(); ok {
			changes = append(changes, what+" "+f.Text)
		}
	}
	if len(changes) > 0 {
		return strings.Join(changes, "; ")
	}
	return strings.Join(slices.DeleteFunc([]string{cli.Settings(r.Params), r.Why}, func(s string) bool { return s == "" }), "; ")
}
