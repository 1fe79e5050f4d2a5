package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

func (t *tool) commandsCommand() *cobra.Command {
	c := t.Asking(cli.Words{
		Use:   "commands [NAME]",
		Short: "List the operator's catalogue of commands, with a line to type for each",
		Long: `To run a command, submit an operation: gated submit command.run NAME, with all of its parameters. gated jobs
ID shows what the command printed.`,
		Example: "  gated commands\n" +
			"  gated commands drop-db",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		if len(args) == 0 {
			all, err := cl.Commands(c.Context())
			if err != nil {
				return err
			}
			return t.listCommands(all)
		}
		one, err := cl.Command(c.Context(), strings.TrimPrefix(args[0], op.KindCommand+"/"))
		if err != nil {
			return err
		}
		return cli.Each(&t.Tool, t.showCommand, one)
	})
	c.ValidArgsFunction = cli.CompleteFirst(t.completeCommand)
	return c
}

func (t *tool) listCommands(all []api.Command) error {
	if len(all) == 0 && !t.JSON {
		t.Say("this gate has no commands: an operator puts them into gated.yaml, under commands\n")
	}
	return cli.Each(&t.Tool, t.describeCommand, all...)
}

// describeCommand prints what a command is and takes, and a line to type for it.
func (t *tool) describeCommand(c api.Command) error {
	t.Print("%s  %s, runs %s\n", cli.Inline(c.Name), cli.Inline(string(c.Class)), cli.Inline(c.Program))
	if c.Error != nil {
		t.Print("    cannot run now: %s: %s\n", cli.Inline(string(c.Error.Code)), cli.Inline(c.Error.Detail))
	}
	rows := make([]string, 0, len(c.Params))
	for _, p := range c.Params {
		rows = append(rows, "    -p "+cli.Row(p.Name+"="+valueOf(p.Type), p.Doc))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	t.Print("  %s\n", exampleLine(c))
	return nil
}

// showCommand prints everything that is known of one command.
func (t *tool) showCommand(c api.Command) error {
	if err := t.describeCommand(c); err != nil {
		return err
	}
	rows := []string{"  " + cli.Row("state", c.State)}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, "  "+cli.Row(name, value))
		}
	}
	add("looks first", c.Probe)
	add("runs as", c.User)
	add("timeout", strconv.FormatInt(c.TimeoutSeconds, 10)+" s")
	add("incarnation", string(c.Incarnation))
	return t.Table(rows...)
}

// valueOf names what a parameter of a command takes.
func valueOf(kind string) string {
	switch kind {
	case "integer":
		return "NUMBER"
	case "path":
		return "PATH"
	case "bool":
		return "true|false"
	default:
		return "TEXT"
	}
}

// exampleLine is how a command would be asked for, with values that fit where the
// catalogue says all of them.
func exampleLine(c api.Command) string {
	var b strings.Builder
	b.WriteString("gated submit " + op.Run + " " + cli.Inline(c.Name))
	for _, p := range c.Params {
		value := valueOf(p.Type)
		switch {
		case p.Type == "integer":
			value = strconv.FormatInt(p.Min, 10)
		case p.Type == "bool":
			value = "true"
		case len(p.Values) > 0:
			value = p.Values[0]
		}
		b.WriteString(" -p " + cli.Inline(p.Name) + "=" + cli.Inline(op.ShellWords(value)))
	}
	return b.String()
}

// completeCommand completes the name of a command.
func (t *tool) completeCommand() ([]string, cobra.ShellCompDirective) {
	return cli.CompleteList(&t.Tool, (*client.Client).Commands, func(c api.Command) string { return c.Name + "\t" + c.Program })
}

// completeCommandParam completes the parameters of a command.
func (t *tool) completeCommandParam(name string) ([]string, cobra.ShellCompDirective) {
	out, directive := t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		one, err := cl.Command(ctx, strings.TrimPrefix(name, op.KindCommand+"/"))
		for _, p := range one.Params {
			out = append(out, p.Name+"=\t"+p.Doc)
		}
		return out, err
	})
	return out, directive | cobra.ShellCompDirectiveNoSpace
}

func (t *tool) opsCommand() *cobra.Command {
	return t.Asking(cli.Words{
		Use:     "ops",
		Short:   "List the operations and their parameters",
		Example: "  gated ops",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		ops, err := cl.Ops(c.Context())
		if err != nil {
			return err
		}
		return cli.Each(&t.Tool, t.showOp, ops...)
	})
}

// showOp prints an operation and its parameters as they are typed.
func (t *tool) showOp(o api.Op) error {
	roles := make([]string, 0, len(o.Roles))
	for _, r := range o.Roles {
		roles = append(roles, string(r))
	}
	t.Print("%s  %s (%s)\n", op.Shown(o.Name), op.Shown(o.Doc), op.Shown(whoSigns(o, strings.Join(roles, ", "))))
	var rows []string
	for _, p := range o.Params {
		rows = append(rows, "    -p "+cli.Row(typed(p), p.Doc+notes(p)))
	}
	if o.Free {
		rows = append(rows, "    -p "+cli.Row("NAME=TEXT", "as the command has them: gated commands"))
	}
	return t.Table(rows...)
}

// whoSigns says whether a step of an operation waits for a signature, and in which role.
func whoSigns(o api.Op, roles string) string {
	switch spec, err := op.Lookup(o.Name); {
	case err != nil: // a newer daemon's
		return "if it has to be signed, by: " + roles
	case spec.Never():
		return "loses nothing: runs at once, unless a rule wants it signed by: " + roles
	case spec.Always():
		return "signed by: " + roles
	}
	return "if it could lose data, signed by: " + roles
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
		unit := ""
		if p.Unit != "" {
			unit = p.Unit + ", "
		}
		text += fmt.Sprintf(" (%s%d to %d)", unit, p.Min, p.Max)
	}
	if p.Required {
		text += " (required)"
	}
	if p.JobOnly {
		text += " (not in desired state)"
	}
	return text
}
