package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
)

func (t *tool) eventsCommand() *cobra.Command {
	var after int64
	var follow bool
	var holder string
	c := t.command("events", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case after < 0:
			return cli.Usage(wordsAfterNegative)
		case holder == "" && c.Flags().Changed("for"):
			return cli.Usage(wordsEmptyHolder)
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return t.events(c.Context(), cl, holder, after, follow)
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	c.Flags().BoolVar(&follow, "follow", false, flagFollow)
	c.Flags().StringVar(&holder, "for", "", flagFor)
	_ = c.RegisterFlagCompletionFunc("for", t.completeAgent) // the flag was just added
	return c
}

// events prints what concerns a holder, or everything.
func (t *tool) events(ctx context.Context, cl *client.Client, holder string, after int64, follow bool) error {
	known := true
	if holder != "" && !bare(holder) {
		var err error
		if known, err = registered(ctx, cl, holder); err != nil {
			return err
		}
		if !known && follow {
			t.Say(wordsNobodyNow, cli.Inline(holder))
		}
	}
	show, seen := t.entries(ctx, cl), false
	err := cl.EventsFor(ctx, holder, after, follow, func(e api.Entry) error {
		seen = true
		return show.entry(e)
	})
	switch {
	case follow && errors.Is(err, context.Canceled):
		return nil // this is how one stops following
	case err == nil && !seen && !known:
		t.Say(wordsNeverSeen, cli.Inline(holder))
	}
	return err
}

// registered reports whether an agent of that name is.
func registered(ctx context.Context, cl *client.Client, name string) (bool, error) {
	agents, err := cl.Agents(ctx)
	return slices.ContainsFunc(agents, func(a api.Agent) bool { return a.Name == name }), err
}
