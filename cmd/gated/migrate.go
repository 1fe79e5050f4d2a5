package main

import (
	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// migrated is the answer of a migration.
type migrated struct {
	State  string    `json:"state"`
	To     string    `json:"to"` // postgres or sqlite
	Gate   op.GateID `json:"gate"`
	Old    op.GateID `json:"old_gate"`
	Groups uint64    `json:"groups"` // of the ledger
}

func (t *tool) migrateCommand() *cobra.Command {
	var o life.MigrateOptions
	var to string
	var yes bool
	c := t.Command(cli.Words{
		Use:   "migrate --to postgres|sqlite",
		Short: "Give a gate a ledger, or take it out of its ledger",
		Long: `For the owner of the state directory, while the daemon does not run. gated.yaml has the section store.

--to postgres makes all that the gate has the first group of a new ledger. Its id, log and signatures stay.

--to sqlite ends the ledger, so that no other member decides, and the gate goes on in the database of this member with
the same id. Stop all members first. Then take the section store out of gated.yaml.

--to sqlite --lost is for a PostgreSQL server that is lost for good. If it still answers, the ledger is ended, so that
no other member decides. The gate gets a new id, because approvals that only the ledger had could count twice: what
waits is signed anew.`,
		Example: "  gated member migrate --to postgres --state /var/lib/gated\n" +
			"  gated member migrate --to sqlite --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		move := life.ToLedger
		switch to {
		case "sqlite":
			move = life.ToSQLite
		case "postgres":
		default:
			return cli.Usage("--to is postgres or sqlite")
		}
		if o.Lost && to != "sqlite" {
			return cli.Usage("--lost goes with --to sqlite")
		}
		if o.Lost && !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage("there is no terminal to ask on: see that no other member runs, then say --yes")
		}
		if o.Lost {
			t.Say("%s", wordsLost)
			if err := t.agree(yes, "is the ledger lost for good, and no other member goes on? (yes) ", refusal.New(refusal.Cancelled, "nothing was changed")); err != nil {
				return err
			}
		}
		o.StateDir = stateDir(o.StateDir)
		o.Waiting = func(s life.Store) {
			t.Say("another member may still act for %s; waiting\n", cli.Span(s.Lease))
		}
		m, err := move(c.Context(), o)
		if err != nil {
			return err
		}
		return t.showMigrated(to, m)
	})
	t.stateOf(c, &o.StateDir)
	c.Flags().StringVar(&to, "to", "", "where the gate lives from now on: `WHERE` is postgres or sqlite")
	c.Flags().BoolVar(&o.Lost, "lost", false, "the ledger is lost for good: go on from what is here")
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	_ = c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions([]string{"postgres", "sqlite"}, cli.NoFiles)) // the flag was just added
	return c
}

const wordsLost = `the gate goes on from what this member has. Decisions that only the ledger had are lost, and what they did to
guests is not. Choose the member that decided last: gated status says so on each, or the newest entry of gated audit.
`

func (t *tool) showMigrated(to string, m life.Migrated) error {
	if t.JSON {
		return t.Emit(migrated{State: m.StateDir, To: to, Gate: m.Gate, Old: m.Was.Gate, Groups: m.Groups})
	}
	switch {
	case to == "postgres":
		t.Print("gate %s has a ledger\nnext:\n  %s\n  gated member join    # on each other host\n", op.Shown(string(m.Gate)), t.starts(m.StateDir))
	case m.Gate != m.Was.Gate:
		t.Print("the gate goes on here, new gate id %s\nnext: take the section store out of gated.yaml, then\n  %s\n"+
			"  each operator: opsign forget SOCKET, since opsign refuses an id that it does not know\n", op.Shown(string(m.Gate)), t.starts(m.StateDir))
	default:
		t.Print("gate %s goes on here, and its ledger is ended\nnext: take the section store out of gated.yaml, then\n  %s\n",
			op.Shown(string(m.Gate)), t.starts(m.StateDir))
	}
	return nil
}
