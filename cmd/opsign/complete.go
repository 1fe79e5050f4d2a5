package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// completeOpName completes OP from the catalogue.
func completeOpName(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	return cli.CompleteOp()
}

func completeRoles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, r := range op.Roles {
		out = append(out, string(r))
	}
	return out, cli.NoFiles
}

// completeFingerprint completes with what the agent holds.
func (t *tool) completeFingerprint(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return cli.CompleteFrom(func(ctx context.Context) (out []string, err error) {
		held, err := sign.Identities(ctx, t.Getenv("SSH_AUTH_SOCK"))
		for _, id := range held {
			out = append(out, id.Fingerprint+"\t"+id.Comment)
		}
		return out, err
	})
}

// completeRequest completes with the ids of what waits.
func (t *tool) completeRequest(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		requests, err := cl.Requests(ctx, op.StatePending)
		for _, r := range requests {
			out = append(out, r.ID+"\t"+r.Op+" "+r.Target)
		}
		return out, err
	})
}
