package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/op"
)

func (t *tool) eventsCommand() *cobra.Command {
	var after int64
	var follow bool
	c := t.command("events", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if after < 0 {
			return usageError{wordsAfterNegative}
		}
		cl, err := t.client()
		if err != nil {
			return err
		}
		defer cl.Close()
		// A stream that breaks is resumed for a while; a daemon that is not
		// there is said at once.
		if _, err := cl.AuditHead(c.Context()); err != nil {
			return err
		}
		err = cl.Events(c.Context(), after, follow, t.showEntry)
		if follow && errors.Is(err, context.Canceled) {
			return nil // this is how one stops following
		}
		return err
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	c.Flags().BoolVar(&follow, "follow", false, flagFollow)
	return c
}

// showEntry prints one entry of the audit log.
func (t *tool) showEntry(e api.Entry) error {
	if t.json {
		return t.emit(e)
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
	t.print("%d %s %s", e.Seq, moment(e.Time), op.Shown(e.Kind))
	for _, part := range []string{e.By, about, e.Op, e.Target, string(e.Class)} {
		if part != "" {
			t.print(" %s", op.Shown(part))
		}
	}
	if text != "" {
		t.print("  %s", text)
	}
	t.print("\n")
	return nil
}
