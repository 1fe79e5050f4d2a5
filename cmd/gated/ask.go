package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

// askCommand returns a command that asks the daemon about OP NAME.
func (t *tool) askCommand(path string, send func(context.Context, *client.Client, op.Ask) error) *cobra.Command {
	var given cli.Pairs
	c := t.command(path, cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		a, err := ask(args[0], args[1], given)
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return send(c.Context(), cl, a)
	})
	c.ValidArgsFunction = t.completeOpName
	cli.ParamFlag(c, &given, t.completeCommandParam)
	return c
}

// ask reads OP NAME and parameters. The name may be written with its kind, as
// gated prints it. What the catalogue does not know is left for the gate to
// refuse, so that its audit log has it.
func ask(name, target string, given cli.Pairs) (op.Ask, error) {
	kind, _, ok := strings.Cut(name, ".")
	if !ok {
		return op.Ask{}, notAnOp(name)
	}
	spec, unknown := op.Lookup(name)
	to, err := cli.Target(kind, target)
	if err != nil && unknown != nil {
		return op.Ask{}, unknown
	}
	if err != nil {
		return op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return op.Ask{}, err
	}
	return op.Ask{Op: name, Target: to, Params: p}, nil
}
