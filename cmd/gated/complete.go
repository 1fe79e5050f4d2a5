package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// completeOpName completes OP from the catalogue, then NAME from the daemon.
func (t *tool) completeOpName(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return cli.CompleteOp()
	case 1:
		if args[0] == op.Run {
			return t.completeCommand()
		}
		return t.completeGuest(c, nil, typed)
	}
	return nil, cli.NoFiles
}

func completeStates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range op.States {
		out = append(out, string(s))
	}
	return out, cli.NoFiles
}

func (t *tool) completeGuest(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		guests, err := cl.Guests(ctx)
		for _, g := range guests {
			out = append(out, g.Name+"\t"+g.State)
		}
		return out, err
	})
}

// completeJob completes ids of jobs in a state, of any if it is empty.
func (t *tool) completeJob(state op.State) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cli.NoFiles
		}
		return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
			page, err := cl.Jobs(ctx, client.JobQuery{State: state})
			for _, j := range page.Jobs {
				out = append(out, j.ID+"\t"+what(j))
			}
			return out, err
		})
	}
}

// completeReservation completes ids of reservations: the caller's own, or those
// of others.
func (t *tool) completeReservation(mine bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cli.NoFiles
		}
		return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
			page, err := cl.Reservations(ctx, client.ReservationQuery{})
			for _, r := range page.Reservations {
				if r.Mine == mine {
					out = append(out, r.ID+"\t"+r.Agent+" "+list(r.Patterns))
				}
			}
			return out, err
		})
	}
}

func (t *tool) completeAgent(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() == "unregister" {
		return nil, cli.NoFiles
	}
	return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		agents, err := cl.Agents(ctx)
		for _, a := range agents {
			out = append(out, a.Name+"\t"+boundTo(a))
		}
		return out, err
	})
}
