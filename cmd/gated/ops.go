package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
)

func (t *tool) opsCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:     "ops",
		Short:   "List the operations and their parameters",
		Example: "  gated ops",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		ops, err := cl.Ops(c.Context())
		if err != nil {
			return err
		}
		for _, o := range ops {
			if t.JSON {
				err = t.Emit(o)
			} else {
				err = t.showOp(o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// showOp prints an operation and its parameters as they are typed.
func (t *tool) showOp(o api.Op) error {
	roles := make([]string, 0, len(o.Roles))
	for _, r := range o.Roles {
		roles = append(roles, string(r))
	}
	t.Print("%s  %s (signed by: %s)\n", op.Shown(o.Name), op.Shown(o.Doc), op.Shown(strings.Join(roles, ", ")))
	var rows []string
	for _, p := range o.Params {
		rows = append(rows, "    -p "+cli.Row(typed(p), p.Doc+notes(p)))
	}
	if o.Free {
		rows = append(rows, "    -p "+cli.Row("NAME=TEXT", "as the command has them: gated commands"))
	}
	return t.Table(rows...)
}

// typed shows how a parameter is written.
func typed(p api.Param) string {
	switch p.Type {
	case op.TLabels:
		return p.Name + ".KEY=TEXT"
	case op.TBool:
		return p.Name + "=true|false"
	case op.TInt:
		return p.Name + "=NUMBER"
	default:
		return p.Name + "=TEXT"
	}
}

func notes(p api.Param) string {
	text := ""
	if p.Type == op.TInt {
		text += fmt.Sprintf(" (%s, %d to %d)", p.Unit, p.Min, p.Max)
	}
	if p.Required {
		text += " (required)"
	}
	if p.JobOnly {
		text += " (not in desired state)"
	}
	return text
}
