package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

func (t *tool) fsckCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "fsck",
		Short: "Check a gate's state for what must always hold",
		Long: `Opens it read-only, beside a running daemon or without one. Exits 0 if the state is sound and 1 if it finds a
problem. With --json it prints one report: rules and codes that programs may compare.`,
		Example: "  gated fsck --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		r, err := life.FsckTelling(c.Context(), stateDir(dir), t.telling)
		if err != nil {
			return err
		}
		if t.JSON {
			err = t.Emit(r)
		} else {
			err = t.showFsck(r)
		}
		if err == nil && !r.Sound {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	t.stateOf(c, &dir)
	return c
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
	if r.Sound {
		t.Print("sound\n")
	} else {
		t.Print("NOT sound: %s\n", count(len(r.Problems), "problem"))
	}
	return nil
}
