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
	c := t.entriesCommand("events", func(ctx context.Context, cl *client.Client, after int64) error {
		err := cl.Events(ctx, after, follow, t.showEntry)
		if follow && errors.Is(err, context.Canceled) {
			return nil // this is how one stops following
		}
		return err
	})
	c.Flags().BoolVar(&follow, "follow", false, flagFollow)
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
