package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// ledgerState is the answer about a ledger.
type ledgerState struct {
	Gate   op.GateID `json:"gate"`
	Member string    `json:"member"`
	Era    uint64    `json:"era"`    // of the ledger
	Beat   uint64    `json:"beat"`   // how often an active member said that it lives
	Groups uint64    `json:"groups"` // of the ledger
	Base   uint64    `json:"base"`   // the ledger has all rows as of this group, and the groups after it; 0 without a base
	Here   uint64    `json:"here"`   // the newest that is in this member's database
	Mine   bool      `json:"mine"`   // this state directory began the era
	Ended  bool      `json:"ended"`  // the gate left the ledger
}

func ledgerStateOf(s life.LedgerState) ledgerState {
	return ledgerState{Gate: s.Gate, Member: s.Member, Era: s.There.Era, Beat: s.There.Beat, Groups: s.There.Last, Base: s.Base, Here: s.Here.Number,
		Mine: s.Mine, Ended: s.Ended}
}

func (t *tool) ledgerCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "ledger",
		Short:   "Look at or mend the ledger by which a gate outlives its host",
		Long:    `A gate has one if gated.yaml has the section store. gated docs guides/high-availability says how to set it up.`,
		Example: "  gated member ledger status\n  gated member ledger verify",
	}, "say status, verify, compact or repair", t.ledgerStatusCommand(), t.ledgerVerifyCommand(), t.ledgerCompactCommand(), t.ledgerRepairCommand())
}

func (t *tool) ledgerStatusCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "status",
		Short: "Show how far the ledger is, and how far this member's database is",
		Long:  `Asks PostgreSQL and reads the state directory, beside a running daemon or without one. It changes nothing.`,
		Example: "  gated member ledger status --state /var/lib/gated\n" +
			"  gated member ledger status --json",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := life.LookAtLedger(c.Context(), life.LedgerOptions{StateDir: stateDir(dir)})
		if err != nil {
			return err
		}
		return t.showLedger(s, "")
	})
	t.stateOf(c, &dir)
	return c
}

func (t *tool) ledgerVerifyCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "verify",
		Short: "Check the number, the link and the signature of every group of the ledger",
		Long: `Also checks that the database here has the ledger's group of its place. It changes nothing, and works beside a
running daemon. Exits 1 if a group is missing, or if the gate's key did not sign it as it is.`,
		Example: "  gated member ledger verify --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := life.VerifyLedger(c.Context(), life.LedgerOptions{StateDir: stateDir(dir), Progress: t.replaying("checked")})
		if err != nil {
			return err
		}
		from := ""
		if s.Base > 0 {
			from = fmt.Sprintf("the base of group %d has the gate's signature, and ", s.Base)
		}
		return t.showLedger(s, fmt.Sprintf("%severy one of %d groups follows on the one before and has the gate's signature\n", from, s.There.Last-s.Base))
	})
	t.stateOf(c, &dir)
	return c
}

func (t *tool) showLedger(s life.LedgerState, checked string) error {
	if t.JSON {
		return t.Emit(ledgerStateOf(s))
	}
	era := fmt.Sprint(s.There.Era)
	switch {
	case s.Ended && s.Mine:
		era = "none: the gate left the ledger, and goes on here"
	case s.Ended:
		era = "none: the gate left the ledger, and goes on on another member"
	case s.Mine:
		era += ", which this member began"
	}
	if err := t.Table(cli.Row("gate", string(s.Gate)), cli.Row("member", s.Member), cli.Row("era", era),
		cli.Row("groups of the ledger", fmt.Sprint(s.There.Last)), cli.Row("base of the ledger", fmt.Sprint(s.Base)), cli.Row("groups here", fmt.Sprint(s.Here.Number))); err != nil {
		return err
	}
	t.Print("%s", checked)
	return nil
}
