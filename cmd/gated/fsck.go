package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

func (t *tool) fsckCommand() *cobra.Command {
	var dir string
	var quick, ledger bool
	c := t.Command(cli.Words{
		Use:   "fsck",
		Short: "Check a gate's state for what must always hold",
		Long: `Opens it read-only, beside a running daemon or without one. Exits 0 if the state is sound and 1 if it finds a
problem. With --json it prints one report: rules and codes that programs may compare.

With --quick it reads a bounded part, and names what it did not look at: the schema, the newest 10000 entries of the
audit log against the signed head, the steps that they tell of, and the newest 1000 open steps with their nonces. If
you may not read the state directory, --quick asks the daemon what its own checks of it found last, and a note says
that only the daemon says so.

With --ledger it also replays the ledger, up to the place of this member's database, and compares all rows that
travel.`,
		Example: "  gated fsck --state /var/lib/gated\n" +
			"  gated fsck --quick\n" +
			"  gated fsck --ledger --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if quick && ledger {
			return cli.Usage("--ledger reads all, and --quick does not")
		}
		if quick {
			if done, err := instead(c.Context(), dir, t.fsckAsked); done || err != nil {
				return err
			}
		}
		r, err := t.fsck(c.Context(), stateDir(dir), quick)
		if err == nil && ledger {
			err = life.FsckLedger(c.Context(), life.LedgerOptions{StateDir: stateDir(dir), Progress: t.replaying("applied")}, &r)
		}
		if err != nil {
			return err
		}
		if err = cli.Each(&t.Tool, t.showFsck, r); err == nil && !r.Sound {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&quick, "quick", false, "check the newest part alone, in a bounded time")
	c.Flags().BoolVar(&ledger, "ledger", false, "compare with what the ledger makes, too")
	return c
}

func (t *tool) fsck(ctx context.Context, dir string, quick bool) (life.FsckReport, error) {
	if quick {
		return life.FsckQuick(ctx, dir)
	}
	return life.FsckTelling(ctx, dir, t.telling)
}

// telling says how far a long look at a log is.
func (t *tool) telling(_ string, done, of int64) {
	if of >= longLog && done%longLog == 0 {
		t.Say("read %d of %d entries of the audit log\n", done, of)
	}
}

func (t *tool) showFsck(r life.FsckReport) error {
	var rows []string
	for _, name := range sortedNames(r.Checked) {
		rows = append(rows, cli.Row("checked", name, fmt.Sprint(r.Checked[name])))
	}
	for _, p := range r.Problems {
		rows = append(rows, cli.Row("PROBLEM", string(p.Rule), p.Where, p.Detail))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	for _, what := range r.NotChecked {
		t.Print("not looked at: %s\n", what)
	}
	switch {
	case r.Sound && len(r.NotChecked) > 0:
		t.Print("sound as far as a quick check looks; gated fsck looks at all\n")
	case r.Sound:
		t.Print("sound\n")
	default:
		t.Print("NOT sound: %s\n", cli.Count(len(r.Problems), "problem"))
	}
	return nil
}
