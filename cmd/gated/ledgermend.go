package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// compacted is the answer of a compaction.
type compacted struct {
	ledgerState
	Dropped uint64 `json:"dropped"` // groups that the base takes the place of
}

func (t *tool) ledgerCompactCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "compact",
		Short: "Make the ledger shorter: all rows of now take the place of the groups before",
		Long: `Replays the ledger and compares it with this member's database. Then it signs all rows with the gate's key, puts them
into the ledger, and drops the groups before them. It works beside a running daemon, on each member. A member that has
not read those groups yet has to join anew. If a table differs, nothing is changed; gated fsck --ledger names each.`,
		Example: "  gated member ledger compact --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		r, err := life.Compact(c.Context(), life.LedgerOptions{StateDir: stateDir(dir), Progress: t.replaying("compared")})
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(compacted{ledgerStateOf(r.LedgerState), r.Dropped})
		}
		return t.showLedger(r.LedgerState, fmt.Sprintf("the base has the place of %d more groups\n", r.Dropped))
	})
	t.stateOf(c, &dir)
	return c
}

// repaired is the answer of a repair.
type repaired struct {
	ledgerState
	EntriesThere int64 `json:"entries_there"` // of the audit log, as the ledger had it
	EntriesHere  int64 `json:"entries_here"`
}

func (t *tool) ledgerRepairCommand() *cobra.Command {
	var o life.RepairOptions
	var yes bool
	c := t.Command(cli.Words{
		Use:   "repair",
		Short: "Give a ledger that lost groups all that this member has",
		Long: `For the owner of the state directory, while no member runs, on the member that decided last. All rows of its database
become all that the ledger has, in a later era. The gate's id stays. Members at the same place go on; others join anew.
It refuses if this member, or what the ledger has left, shows that another one decided later. It cannot see a member
that is lost, so it says what it goes on with, and asks.`,
		Example: "  gated member ledger repair --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage("there is no terminal to ask on: see that this member decided last, then say --yes")
		}
		o.StateDir = stateDir(o.StateDir)
		o.Progress = t.replaying("applied")
		o.Agree = func(r life.Repair) error {
			t.Say("%s", givesUp(r))
			return t.agree(yes, "did this member decide last, and does no other member run? (yes) ", refusal.New(refusal.Cancelled, "nothing was changed").
				WithHint("compare gated member ledger status on each member"))
		}
		r, err := life.RepairLedger(c.Context(), o)
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(repaired{ledgerStateOf(r.LedgerState), r.EntriesThere, r.EntriesHere})
		}
		return t.showLedger(r.LedgerState, "the ledger has all rows of this member: start the daemon here; members at another place join anew\n")
	})
	t.stateOf(c, &o.StateDir)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	return c
}

// givesUp says what a repair goes on with, and what it may lose.
func givesUp(r life.Repair) string {
	says := fmt.Sprintf("the ledger has %d groups and %d entries of the audit log; this member has %d groups and %d entries\n"+
		"if another member told a decision after group %d, that decision is lost, and its approval can count a second time\n",
		r.There.Last, r.EntriesThere, r.Here.Number, r.EntriesHere, r.Here.Number)
	if r.There.Era > r.Began {
		says += fmt.Sprintf("the ledger is in era %d, and this member began era %d: another member may have decided since, unless a repair was cut off here\n",
			r.There.Era, r.Began)
	}
	return says
}
