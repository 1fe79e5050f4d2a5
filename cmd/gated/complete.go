package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/client"
	"gated/internal/op"
)

// completionTime bounds a completion: a shell that hangs is worse than one that
// completes nothing.
const completionTime = time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeOpName completes OP from the catalogue, then NAME from the daemon.
func (t *tool) completeOpName(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		var out []string
		for _, s := range op.Catalogue() {
			out = append(out, s.Name+"\t"+s.Doc)
		}
		return out, noFiles
	case 1:
		return t.completeGuest(c, nil, typed)
	}
	return nil, noFiles
}

// completeParams completes -p with the names that the operation knows.
func completeParams(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, noFiles
	}
	spec, err := op.Lookup(args[0])
	if err != nil {
		return nil, noFiles
	}
	var out []string
	for _, p := range spec.Params {
		end := "="
		if p.Type == op.TLabels {
			end = "."
		}
		out = append(out, p.Name+end+"\t"+p.Doc)
	}
	return out, noFiles | cobra.ShellCompDirectiveNoSpace
}

func completeStates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range op.States {
		out = append(out, string(s))
	}
	return out, noFiles
}

func (t *tool) completeGuest(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return t.complete(func(ctx context.Context, cl *client.Client) (out []string, err error) {
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
			return nil, noFiles
		}
		return t.complete(func(ctx context.Context, cl *client.Client) (out []string, err error) {
			page, err := cl.Jobs(ctx, client.JobQuery{State: state})
			for _, j := range page.Jobs {
				out = append(out, j.ID+"\t"+what(j))
			}
			return out, err
		})
	}
}

// complete asks the daemon; without an answer there is nothing to complete.
func (t *tool) complete(ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	cl, err := t.client()
	if err != nil {
		return nil, noFiles
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	out, err := ask(ctx, cl)
	if err != nil {
		return nil, noFiles
	}
	for i, s := range out {
		name, doc, _ := strings.Cut(s, "\t")
		out[i] = op.Shown(name) + "\t" + op.Shown(doc)
	}
	return out, noFiles
}
