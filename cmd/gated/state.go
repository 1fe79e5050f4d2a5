package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/life"
)

func (t *tool) fsckCommand() *cobra.Command {
	var dir string
	c := t.command("fsck", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
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
		t.Say(wordsFsckRead, done, of)
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
		t.Print(wordsSound)
	} else {
		t.Print(wordsUnsound, count(len(r.Problems), "problem"))
	}
	return nil
}
