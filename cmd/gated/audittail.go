package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
)

func (t *tool) auditTailCommand() *cobra.Command {
	var n int64
	var follow bool
	var f entryFilter
	c := t.command("audit tail", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if n < 0 || n < 1 && !follow {
			return cli.Usage(wordsLinesPositive)
		}
		if err := f.understand(c, time.Now()); err != nil {
			return err
		}
		if follow && !f.to.IsZero() {
			return cli.Usage(wordsFollowUntil)
		}
		return t.tail(c.Context(), n, follow, f)
	})
	c.Flags().Int64VarP(&n, "lines", "n", 20, flagLines)
	c.Flags().BoolVarP(&follow, "follow", "f", false, flagFollow)
	filterFlags(c, &f)
	return c
}

// tail prints the newest n entries that are wanted and, to follow, those that
// come.
func (t *tool) tail(ctx context.Context, n int64, follow bool, f entryFilter) error {
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return err
	}
	after := head.Seq
	if n > 0 {
		if after, err = newest(ctx, cl, head.Seq, n, f); err != nil {
			return err
		}
	}
	show, seen := t.entries(ctx, cl), false
	print := func(e api.Entry) error {
		seen = true
		return show.entry(e)
	}
	after, err = eachEntry(ctx, cl, after, f, print)
	if err == nil && follow {
		err = cl.Events(ctx, after, true, func(e api.Entry) error {
			if !f.wants(e) {
				return nil
			}
			return print(e)
		})
	}
	switch {
	case follow && errors.Is(err, context.Canceled):
		return nil // this is how one stops following
	case err == nil && !seen && !f.all():
		t.Say(wordsNoSuchEntry)
	}
	return err
}
