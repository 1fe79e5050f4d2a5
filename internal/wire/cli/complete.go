package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gated/client"
	"gated/internal/base/op"
)

// completionTime bounds a completion: a shell that hangs is worse than one that
// completes nothing.
const completionTime = 500 * time.Millisecond

// NoFiles tells the shell to complete with nothing but what it is given.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// CompleteOp completes OP from the catalogue.
func CompleteOp() ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range op.Catalogue() {
		out = append(out, s.Name+"\t"+s.Doc)
	}
	return out, NoFiles
}

// completeParams completes -p with the names that the operation knows, or that
// named knows of its target.
func completeParams(named func(string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, NoFiles
		}
		spec, err := op.Lookup(args[0])
		if err != nil {
			return nil, NoFiles
		}
		if spec.Free && named != nil && len(args) > 1 {
			return named(args[1])
		}
		var out []string
		for _, p := range spec.Params {
			end := "="
			if p.Type == op.TLabels {
				end = "."
			}
			out = append(out, p.Name+end+"\t"+p.Doc)
		}
		return out, NoFiles | cobra.ShellCompDirectiveNoSpace
	}
}

// CompleteFromDaemon completes with what ask finds out from the daemon of this
// host. One of another host is not asked: ssh could ask for a password in the
// middle of a line.
func (t *Tool) CompleteFromDaemon(ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	return CompleteFrom(func(ctx context.Context) ([]string, error) {
		o, err := t.Where()
		if err != nil || o.Remote != "" {
			return nil, err
		}
		cl, err := client.New(o)
		if err != nil {
			return nil, err
		}
		defer cl.Close()
		return ask(ctx, cl)
	})
}

// CompleteFirst completes the first argument alone.
func CompleteFirst(complete func() ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, NoFiles
		}
		return complete()
	}
}

// CompleteList completes with a word for each thing that the daemon of this host lists.
func CompleteList[T any](t *Tool, list func(*client.Client, context.Context) ([]T, error), word func(T) string) ([]string, cobra.ShellCompDirective) {
	return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
		things, err := list(cl, ctx)
		for _, thing := range things {
			out = append(out, word(thing))
		}
		return out, err
	})
}

// CompleteFrom completes with what ask finds out in completionTime: words, each with
// a tab and what it is. Without an answer there is nothing to complete. It does not wait
// for an ask that does not heed its context, such as one of a file system that hangs.
func CompleteFrom(ask func(context.Context) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	answers := make(chan []string, 1)
	go func() {
		words, err := ask(ctx)
		if err != nil {
			words = nil
		}
		answers <- words
	}()
	var words []string
	select {
	case words = <-answers:
	case <-ctx.Done():
		return nil, NoFiles
	}
	var out []string
	for _, s := range words {
		name, doc, _ := strings.Cut(s, "\t")
		out = append(out, op.Shown(name)+"\t"+op.Shown(doc))
	}
	return out, NoFiles
}

// noFilesForText keeps the shell from completing files for flags that take text or a
// number: those for which the tool says neither files nor words.
func noFilesForText(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		_, said := c.GetFlagCompletionFunc(f.Name)
		_, files := f.Annotations[cobra.BashCompFilenameExt]
		_, dirs := f.Annotations[cobra.BashCompSubdirsInDir]
		if !said && !files && !dirs && f.Name != "socket" {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // the flag is there
		}
	})
	for _, sub := range c.Commands() {
		noFilesForText(sub)
	}
}
