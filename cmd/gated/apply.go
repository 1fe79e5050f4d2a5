package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// applied is what became of one document.
type applied struct {
	Set     api.Set       `json:"set"`
	Plan    *api.Plan     `json:"plan"`    // what is left to do; null without --wait
	Waiting []string      `json:"waiting"` // requests that wait for a signature
	Failed  []failedGuest `json:"failed"`
}

type failedGuest struct {
	Target string    `json:"target"`
	Error  api.Error `json:"error"`
}

const wordsNoFile = "say with -f which file, directory or - (standard input)"

const flagSet = "the `NAME` of the set (default the file's base name)"

func (t *tool) applyCommand() *cobra.Command {
	var from, set string
	var wait bool
	c := t.Command(cli.Words{
		Use:   "apply -f FILE|DIR|- [--set NAME]",
		Short: "Put desired state as a named set",
		Long: `Each file becomes the set of its base name unless --set says another. With --wait, it ends when every guest
is as wished (0), when only signatures are missing (3), or when a step failed (1).`,
		Example: "  gated apply -f guests.yaml --wait",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if from == "" {
			return cli.Usage(wordsNoFile)
		}
		if from == "-" && set == "" {
			return cli.Usage("standard input has no name: say --set NAME")
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
		return t.apply(c.Context(), cl, docs, wait)
	})
	fileFlag(c, &from)
	c.Flags().StringVar(&set, "set", "", flagSet)
	c.Flags().BoolVar(&wait, "wait", false, "wait until everything is as wished or waits for a signature")
	return c
}

// apply puts every document before it waits for the first one, so that they are
// worked on together.
func (t *tool) apply(ctx context.Context, cl *client.Client, docs []document, wait bool) error {
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return err
	}
	out := make([]applied, len(docs))
	for i, d := range docs {
		out[i] = applied{Waiting: []string{}, Failed: []failedGuest{}}
		if out[i].Set, err = cl.PutSet(ctx, d.set, "", d.body); err != nil {
			return err
		}
		if !t.JSON {
			t.Print("set %s: %s\n", op.Shown(out[i].Set.Name), count(len(d.Guests), "guest"))
		}
	}
	code := api.ExitDone
	for i, d := range docs {
		if wait {
			if err := settle(ctx, cl, d, head.Seq, &out[i]); err != nil {
				return err
			}
			code = worseExit(code, out[i].exit())
		}
		if err := t.showApplied(out[i]); err != nil {
			return err
		}
	}
	return cli.Ended(code)
}

func (a applied) exit() int {
	switch {
	case len(a.Failed) > 0:
		return api.ExitRefused
	case len(a.Waiting) > 0:
		return api.ExitWaits
	default:
		return api.ExitDone
	}
}

// worseExit prefers what was refused to what waits, and that to what is done.
func worseExit(a, b int) int {
	if a == api.ExitRefused || b == api.ExitDone {
		return a
	}
	return b
}

func (t *tool) showApplied(a applied) error {
	if t.JSON {
		if err := t.Emit(a); err != nil {
			return err
		}
	}
	for _, f := range a.Failed {
		t.Say("%s: %s", op.Shown(f.Target), cli.Why("", f.Error.Err()))
	}
	for _, id := range a.Waiting {
		t.Say("%s waits for a signature: opsign approve %s\n", op.Shown(id), op.Shown(id))
	}
	if !t.JSON && a.Plan != nil && a.exit() == api.ExitDone {
		t.Print("set %s: everything is as wished\n", op.Shown(a.Set.Name))
	}
	return nil
}
