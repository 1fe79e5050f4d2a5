package main

import (
	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

func (t *tool) planCommand() *cobra.Command {
	var from, set string
	c := t.command("plan", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if from == "" {
			return cli.Usage(wordsNoFile)
		}
		docs, err := t.documents(from, set)
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		code := api.ExitDone
		for _, d := range docs {
			p, err := cl.Plan(c.Context(), d.asked(), d.body)
			if err != nil {
				return err
			}
			if err := t.showPlan(p); err != nil {
				return err
			}
			for _, g := range p.Guests {
				if g.Action == api.ActionError {
					code = api.ExitRefused
				}
			}
		}
		return cli.Ended(code)
	})
	fileFlag(c, &from)
	c.Flags().StringVar(&set, "set", "", flagSet)
	return c
}

// fileFlag adds -f.
func fileFlag(c *cobra.Command, to *string) {
	c.Flags().StringVarP(to, "file", "f", "", flagFile)
	_ = c.MarkFlagFilename("file", "yaml", "yml") // the flag was just added
}

// showPlan prints what a document would change: a guest a line, and below it
// why a step has to be signed.
func (t *tool) showPlan(p api.Plan) error {
	if t.JSON {
		return t.Emit(p)
	}
	var rows []string
	for _, g := range p.Guests {
		action := planWords[g.Action]
		if action == "" {
			action = g.Action
		}
		if g.Error != nil {
			rows = append(rows, cli.Row(g.Name, action, string(g.Error.Code)+": "+g.Error.Detail))
		} else if len(g.Steps) == 0 {
			rows = append(rows, cli.Row(g.Name, action, ""))
		}
		for _, s := range g.Steps {
			text := s.Op
			if p := shownParams(s.Params); p != "" {
				text += " " + p
			}
			if s.Class == op.Destructive {
				text += ": " + s.Why
			}
			rows = append(rows, cli.Row(g.Name, stepAction(g, s, action), text))
			if s.Class != op.Destructive && s.Op != "guest.create" {
				continue
			}
			for _, f := range s.Facts {
				rows = append(rows, "\t\t    "+op.Shown(f.Name)+": "+op.Shown(f.Text))
			}
		}
	}
	return t.Table(rows...)
}

// stepAction says of one step of several whether it waits; the guest's own
// action is that of the step that a reader has to know of first.
func stepAction(g api.PlannedGuest, s api.PlannedStep, action string) string {
	if g.Action == api.ActionWaits && s.Class != op.Destructive {
		return planWords[api.ActionChange]
	}
	return action
}
