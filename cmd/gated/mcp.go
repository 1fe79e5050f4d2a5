package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/agents/mcp"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/version"
	"gated/internal/wire/cli"
)

// mostNames is how many names gated mcp tries: NAME, NAME-2 and so on. Several windows of one product run at once.
const mostNames = 9

func (t *tool) mcpCommand() *cobra.Command {
	var name string
	c := t.Command(cli.Words{
		Use:   "mcp",
		Short: "Offer the gate to an agent product, as an MCP server on standard input and output",
		Long: `An agent product starts this. It is an ordinary client of the gate, for one agent. It has no tool that approves,
rejects, or changes trust, backups or the clock.

--as binds a name to the process that started this, which is the agent product, unless that has a name. A process
that has the name already is another window of the product: this one then has NAME-2.`,
		Example: "  gated mcp --as codex",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("as") {
			if err := op.CheckName(name); err != nil {
				return cli.Usage(err.Error())
			}
		}
		return t.serveMCP(c.Context(), name)
	})
	c.Flags().StringVar(&name, "as", "", "the `NAME` of the agent product's process (default: the one that it has)")
	c.AddCommand(t.mcpInstallCommand(), t.mcpUninstallCommand())
	return c
}

func (t *tool) serveMCP(ctx context.Context, name string) error {
	return t.With(func(cl *client.Client) error {
		o := mcp.Options{Client: cl, Version: version.String(), Directory: "."}
		if product := os.Getppid(); name != "" {
			o.Register = func(ctx context.Context) error { return t.registerProduct(ctx, cl, name, product) }
		}
		err := mcp.Serve(ctx, t.stdin, t.Stdout, o)
		if errors.Is(err, context.Canceled) {
			return nil // it was asked to end
		}
		return err
	})
}

// registerProduct gives a product's process the name, or the first free one of NAME-2 and so on. A process that has a
// name keeps it.
func (t *tool) registerProduct(ctx context.Context, cl *client.Client, name string, product int) error {
	self, err := cl.Self(ctx)
	if err != nil || self.Agent != nil {
		return err
	}
	if product <= 1 {
		return refusal.New(refusal.NotAllowed, "the process that started gated mcp has ended, or cannot be seen from here")
	}
	reaper, err := agent.Reaper(ctx)
	if err != nil {
		return fmt.Errorf("find the process that gets orphans: %w", err)
	}
	for i := 1; i <= mostNames; i++ {
		as := name
		if i > 1 {
			as += "-" + strconv.Itoa(i)
		}
		_, err = cl.RegisterAgent(ctx, api.RegisterAgent{Name: as, PID: product, Reaper: reaper})
		if !errors.Is(err, refusal.Conflict) {
			return err
		}
	}
	return err
}
