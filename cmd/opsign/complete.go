package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/client"
	"gated/internal/op"
	"gated/internal/sign"
)

// completionTime bounds a completion: a shell that hangs is worse than one that
// completes nothing.
const completionTime = time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeOpName completes OP from the catalogue.
func completeOpName(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	var out []string
	for _, s := range op.Catalogue() {
		out = append(out, s.Name+"\t"+s.Doc)
	}
	return out, noFiles
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

func completeRoles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, r := range op.Roles {
		out = append(out, string(r))
	}
	return out, noFiles
}

// completeFingerprint completes with what the agent holds.
func (t *tool) completeFingerprint(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	held, err := sign.Identities(ctx, t.getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, noFiles
	}
	var out []string
	for _, id := range held {
		out = append(out, id.Fingerprint+"\t"+op.Shown(id.Comment))
	}
	return out, noFiles
}

// completeRequest completes with the ids of what waits.
func (t *tool) completeRequest(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return t.complete(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		requests, err := cl.Requests(ctx, op.StatePending)
		for _, r := range requests {
			out = append(out, r.ID+"\t"+r.Op+" "+r.Target)
		}
		return out, err
	})
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
