package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// fleetLine is what the command line says about a hub's queue.
type fleetLine struct {
	client.HubOptions
	filter client.HubFilter
	verify bool
	all    bool // every page
}

// fleetRow is one row of a hub's queue, and what is known of its gate.
type fleetRow struct {
	api.FleetRow
	Address client.Address `json:"address"` // at which opsign knows the gate; empty for none
	Checked string         `json:"checked"` // empty without --verify: same, differs, unknown-gate, gone or no-answer
	Detail  string         `json:"detail"`

	code int // of the exit
}

// The results of the comparison of a row with its gate.
const (
	checkedSame    = "same"
	checkedDiffers = "differs"
	checkedUnknown = "unknown-gate"
	checkedGone    = "gone"
	checkedNone    = "no-answer"
)

// maxFleetRows is how many rows of all pages are listed. No fleet has so many.
const maxFleetRows = 1_000_000

const wordsHubsWord = "this is the hub's word. What you sign is fetched from the gate itself: opsign -H ADDRESS show ID\n"

// fleetOptions completes the options from the environment.
func (t *tool) fleetOptions(l *fleetLine) error {
	l.URL = cmp.Or(l.URL, t.Getenv("GATED_HUB"))
	l.CA = cmp.Or(l.CA, t.Getenv("GATED_HUB_CA"))
	l.TokenFile = cmp.Or(l.TokenFile, t.Getenv("GATED_HUB_TOKEN_FILE"))
	if l.URL == "" {
		return cli.Usage("which hub? Say --hub URL, or --fleet with GATED_HUB set")
	}
	return nil
}

// listFleet lists the queue of a hub. Nothing of it is signed: it says which gate to ask.
func (t *tool) listFleet(ctx context.Context, l fleetLine) error {
	if err := t.fleetOptions(&l); err != nil {
		return err
	}
	hub, err := client.NewHub(l.HubOptions)
	if err != nil {
		return err
	}
	defer hub.Close()
	known, err := client.KnownGatesOf(t.Getenv).List()
	if err != nil {
		return err
	}
	rows, last, read, worst, err := t.readFleet(ctx, hub, l, known)
	if said := t.sayFleet(rows); err != nil || said != nil {
		return errors.Join(said, err)
	}
	t.fleetEnd(last, read)
	return cli.Ended(worst)
}

// readFleet reads the pages, and returns their rows, the last page, how many rows came in all, and the exit code that they ask for. With --json it prints
// each page as it comes, and returns no rows.
func (t *tool) readFleet(ctx context.Context, hub *client.Hub, l fleetLine, known []client.KnownGate) (rows []fleetRow, page api.FleetQueue, read, worst int, err error) {
	for {
		if page, err = hub.Queue(ctx, l.filter); err != nil {
			return rows, page, read, worst, err
		}
		if l.all && page.Next != "" && (len(page.Requests) == 0 || page.Next == l.filter.After || read > maxFleetRows) {
			return rows, page, read, worst, refusal.New(refusal.Malformed, "the hub's pages do not end")
		}
		read += len(page.Requests)
		more, code, err := t.readPage(ctx, l, page, known)
		if err != nil {
			return rows, page, read, worst, err
		}
		for _, r := range more {
			code = worse(code, r.code)
			if !t.JSON {
				rows = append(rows, r)
			} else if err := t.Emit(r); err != nil {
				return rows, page, read, worst, err
			}
		}
		worst = worse(worst, code)
		l.filter.After = page.Next
		if page.Next == "" || !l.all {
			return rows, page, read, worst, nil
		}
	}
}

// fleetColumns are those of a hub's queue. CHECKED is empty unless the gates were asked.
var fleetColumns = []cli.Column{{Head: "HOST"}, {Head: "ID"}, {Head: "AGE", Rank: 1}, {Head: "OP"}, {Head: "TARGET"},
	{Head: "ADDRESS", Rank: 4}, {Head: "CHECKED", Rank: 2}, {Head: "FOR", Rank: 3, Once: "each is for"}, {Head: "REASON", Rank: 5}}

// readPage returns the rows of a page that have the form of one, and the exit code that the others ask for.
func (t *tool) readPage(ctx context.Context, l fleetLine, page api.FleetQueue, known []client.KnownGate) (rows []fleetRow, code int, err error) {
	for _, r := range page.Requests {
		if err := client.CheckRow(r); err != nil {
			code = api.ExitRefused
			t.Say("left out: %s\n", cli.Inline(refusal.As(err).Detail))
			continue
		}
		row := fleetRow{FleetRow: r}
		if at := addressesOf(known, r.Gate); len(at) > 0 {
			row.Address = at[0]
		}
		rows = append(rows, row)
	}
	if l.verify {
		err = t.verifyFleet(ctx, known, rows)
	}
	return rows, code, err
}

// sayFleet prints rows in one table, however many pages they had.
func (t *tool) sayFleet(rows []fleetRow) error {
	if len(rows) == 0 {
		return nil
	}
	lines := make([][]string, len(rows))
	for i, r := range rows {
		lines[i] = []string{r.Host, r.Request, op.Age(t.now(), r.CreatedAt), cli.OpInLine(r.Op), r.Target, cmp.Or(string(r.Address), "not known"), r.Checked, r.RequestedBy, r.Reason}
	}
	if err := t.List(fleetColumns, lines); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Detail != "" {
			t.Say("%s %s: %s\n", cli.Inline(r.Host), cli.Inline(r.Request), cli.Lines(r.Detail))
		}
	}
	return nil
}

// fleetEnd says beside the answer how much more there is, and whose word it is.
func (t *tool) fleetEnd(page api.FleetQueue, rows int) {
	switch {
	case t.JSON:
	case rows == 0:
		t.Print(wordsNothingWaits)
		return
	default:
		t.Say(wordsHubsWord)
	}
	if page.Next != "" {
		t.Say("%d wait in all; the next page: --after %s, all of them: --all\n", page.Waiting, cli.Inline(page.Next))
	}
	if page.LeftOut > 0 {
		t.Say("%d more wait at gates whose reports are full: opsign -H ADDRESS list\n", page.LeftOut)
	}
}

// addressesOf returns the addresses at which a gate is known: those of its members, or ways to it.
func addressesOf(known []client.KnownGate, gate api.GateID) (out []client.Address) {
	for _, k := range known {
		if k.Gate == gate {
			out = append(out, k.Address)
		}
	}
	return out
}

// verifyFleet asks the known gates of a page, several at a time, and compares what they say with the hub's word. A gate
// that is not the known one, or whose log does not go on, differs.
func (t *tool) verifyFleet(ctx context.Context, known []client.KnownGate, rows []fleetRow) error {
	where, err := t.Where()
	if err != nil {
		return err
	}
	of := map[api.GateID][]*fleetRow{}
	for i := range rows {
		if rows[i].Address == "" {
			rows[i].Checked, rows[i].code = checkedUnknown, api.ExitRefused
			rows[i].Detail = "no address of gate " + string(rows[i].Gate) + " is known: opsign -H ADDRESS list meets it"
			continue
		}
		of[rows[i].Gate] = append(of[rows[i].Gate], &rows[i])
	}
	gates := slices.Collect(maps.Keys(of))
	atOnce(len(gates), func(i int) { t.verifyGate(ctx, where, addressesOf(known, gates[i]), of[gates[i]]) })
	return nil
}

// verifyGate compares the rows of one gate with what it says at the first of its addresses that answers.
func (t *tool) verifyGate(ctx context.Context, where client.Options, addresses []client.Address, rows []*fleetRow) {
	var requests []api.Request
	var s api.Status
	var a answer
	t.asking(ctx, where, addresses, &a, func(ctx context.Context, one *tool, cl *client.Client) (err error) {
		requests, s, err = one.open(ctx, cl, true)
		return err
	})
	for _, row := range rows {
		row.Address = a.Address
		if a.err != nil {
			row.Checked, row.code, row.Detail = checkedNone, api.Exit(a.err), cli.ProblemOf(a.err).Detail
			if errors.Is(a.err, refusal.TargetMismatch) || errors.Is(a.err, refusal.BindingMismatch) {
				row.Checked = checkedDiffers
			}
			continue
		}
		row.compare(s, requests)
	}
}

// compare holds a row against what its gate says is open.
func (r *fleetRow) compare(s api.Status, open []api.Request) {
	i := slices.IndexFunc(open, func(q api.Request) bool { return q.ID == r.Request })
	if i < 0 {
		r.Checked, r.Detail = checkedGone, "gate "+string(s.Gate)+" has no such request open: it ended, or the hub made it up"
		return
	}
	switch err := client.Compare(r.FleetRow, s, open[i]); {
	case err == nil:
		r.Checked = checkedSame
	case errors.Is(err, refusal.UnknownTarget):
		r.Checked, r.Detail = checkedGone, refusal.As(err).Detail
	default:
		r.Checked, r.code, r.Detail = checkedDiffers, api.ExitRefused, refusal.As(err).Detail
	}
}

// fleetFlags are those that only a hub's queue takes.
var fleetFlags = []string{"hub-ca", "hub-token-file", "host", "op", "after", "limit", "verify"}

// addFleetFlags adds --hub, --fleet and what goes with them.
func addFleetFlags(c *cobra.Command, l *fleetLine, fleet *bool) {
	f := c.Flags()
	f.BoolVar(fleet, "fleet", false, "list the queue of the hub that GATED_HUB names")
	f.StringVar(&l.URL, "hub", "", "list the queue of the hub at this `URL`")
	f.StringVar(&l.CA, "hub-ca", "", "a `FILE` with the hub's certificate, as PEM; default GATED_HUB_CA")
	f.StringVar(&l.TokenFile, "hub-token-file", "", "a `FILE` with the hub's token for readers; default GATED_HUB_TOKEN_FILE")
	f.StringVar(&l.filter.Host, "host", "", "of a hub's queue, this `HOST` alone")
	f.StringVar(&l.filter.Op, "op", "", "of a hub's queue, this `OP` alone")
	f.StringVar(&l.filter.After, "after", "", "of a hub's queue, what comes after this `PLACE`")
	f.IntVar(&l.filter.Limit, "limit", 0, "of a hub's queue, `N` rows a page, at most 1000; default 100")
	f.BoolVar(&l.verify, "verify", false, "ask the known gates of a hub's queue whether they say the same")
	for _, name := range []string{"hub-ca", "hub-token-file"} {
		_ = c.MarkFlagFilename(name) // the flags were just added
	}
	_ = c.RegisterFlagCompletionFunc("op", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return cli.CompleteOp() })
	_ = c.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
}
