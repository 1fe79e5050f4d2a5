package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

func (t *tool) eventsCommand() *cobra.Command {
	var follow bool
	var holder string
	var c *cobra.Command
	c = t.entriesCommand("events", func(ctx context.Context, cl *client.Client, after int64) error {
		if holder == "" && c.Flags().Changed("for") {
			return cli.Usage(wordsEmptyHolder)
		}
		err := cl.EventsFor(ctx, holder, after, follow, t.showEntry)
		if follow && errors.Is(err, context.Canceled) {
			return nil // this is how one stops following
		}
		return err
	})
	c.Flags().BoolVar(&follow, "follow", false, flagFollow)
	c.Flags().StringVar(&holder, "for", "", flagFor)
	_ = c.RegisterFlagCompletionFunc("for", t.completeAgent) // the flag was just added
	return c
}

// showEntry prints one entry of the audit log.
func (t *tool) showEntry(e api.Entry) error {
	if t.JSON {
		return t.Emit(e)
	}
	about := e.Step
	if about == "" {
		about = e.Job
	}
	text := op.Shown(e.Detail)
	if e.Code != "" {
		text = op.Shown(string(e.Code)) + ": " + text
	}
	if e.Count > 1 {
		text += times(e.Count)
	}
	t.Print("%d %s %s", e.Seq, cli.Moment(e.Time), op.Shown(e.Kind))
	for _, part := range []string{e.By, about, e.Op, e.Target, string(e.Class)} {
		if part != "" {
			t.Print(" %s", op.Shown(part))
		}
	}
	t.showClaim(e)
	if text != "" {
		t.Print("  %s", text)
	}
	t.Print("\n")
	for _, who := range e.Signers {
		t.Print(wordsSigner, op.Shown(who))
	}
	for _, key := range e.Keys {
		t.Print(wordsKey, op.Shown(key))
	}
	return nil
}

// showClaim prints what an entry says of a reservation.
func (t *tool) showClaim(e api.Entry) {
	if e.Reservation == "" {
		return
	}
	t.Print(" %s %s", cli.Inline(e.Reservation), list(e.Patterns))
	if e.Holder != "" {
		t.Print(wordsEntryHolder, cli.Inline(e.Holder))
	}
	if !e.Until.IsZero() {
		t.Print(wordsEntryUntil, cli.Moment(e.Until))
	}
}
