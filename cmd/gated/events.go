package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

const wordsEmptyHolder = "the agent's name is empty: say which agent, or leave the flag away for all"

func (t *tool) eventsCommand() *cobra.Command {
	var after int64
	var follow bool
	var holder string
	c := t.Command(cli.Words{
		Use:   "events",
		Short: "Print what was decided and done",
		Long:  `With --for, only what concerns one agent: its reservations, those that it waited for, and its own jobs.`,
		Example: "  gated events --after 120 --follow\n" +
			"  gated events --for builder --follow",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case after < 0:
			return cli.Usage(wordsAfterNegative)
		case holder == "" && c.Flags().Changed("for"):
			return cli.Usage(wordsEmptyHolder)
		}
		return t.With(func(cl *client.Client) error { return t.events(c.Context(), cl, holder, after, follow) })
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	c.Flags().BoolVar(&follow, "follow", false, flagFollow)
	c.Flags().StringVar(&holder, "for", "", "only what concerns this `AGENT`, uid:1000 or uid:1000@node2")
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
			t.Say("note: no agent %s is registered now\n", cli.Inline(holder))
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
		t.Say("note: no agent %s is registered, and nothing in the log concerns that name\n", cli.Inline(holder))
	}
	return err
}

// registered reports whether an agent of that name is.
func registered(ctx context.Context, cl *client.Client, name string) (bool, error) {
	agents, err := cl.Agents(ctx)
	return slices.ContainsFunc(agents, func(a api.Agent) bool { return a.Name == name }), err
}

// entries prints entries of the audit log. It knows which directories the
// scopes are that they speak of.
type entries struct {
	*tool
	scopes func() ([]api.Scope, error)
	paths  map[string]string // of scope/s1; empty for one that the gate does not have any more
}

func (t *tool) entries(ctx context.Context, cl *client.Client) *entries {
	return &entries{tool: t, scopes: func() ([]api.Scope, error) { return cl.Scopes(ctx) }, paths: map[string]string{}}
}

// entry prints one entry.
func (s *entries) entry(e api.Entry) error {
	if s.JSON {
		return s.Emit(e)
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
	s.Print("%d %s %s", e.Seq, cli.Moment(e.Time), op.Shown(e.Kind))
	for _, part := range []string{e.By, about, e.Op, e.Target} {
		if part != "" {
			s.Print(" %s", op.Shown(part))
		}
	}
	if dir := s.directory(e.Target); dir != "" {
		s.Print(" %s", cli.Inline(dir))
	}
	if e.Class != "" {
		s.Print(" %s", op.Shown(string(e.Class)))
	}
	s.claim(e)
	if text != "" {
		s.Print("  %s", text)
	}
	s.Print("\n")
	for _, who := range e.Signers {
		s.Print("    signed by %s\n", op.ShownName(who))
	}
	for _, key := range e.Keys {
		s.Print("    key %s\n", op.ShownName(key))
	}
	return nil
}

// directory returns the path of a scope, empty for any other target. Scopes are
// read again when one is new; where they cannot be, the entry goes without.
func (s *entries) directory(target string) string {
	if !strings.HasPrefix(target, op.KindScope+"/") {
		return ""
	}
	if path, ok := s.paths[target]; ok {
		return path
	}
	all, err := s.scopes()
	if err != nil {
		return ""
	}
	for _, one := range all {
		s.paths[op.KindScope+"/"+one.ID] = one.Path
	}
	path := s.paths[target]
	s.paths[target] = path // also if it is unknown, which it stays: ids are not used again
	return path
}

// claim prints what an entry says of a reservation.
func (s *entries) claim(e api.Entry) {
	if e.Reservation == "" {
		return
	}
	s.Print(" %s %s", cli.Inline(e.Reservation), list(e.Patterns))
	if more := e.Of - len(e.Patterns); more > 0 {
		s.Print(" (and %d more)", more)
	}
	switch from := giver(e); {
	case from != "":
		s.Print(" from %s to %s", cli.Inline(from), cli.Inline(e.Holder))
	case e.Holder != "":
		s.Print(" of %s", cli.Inline(e.Holder))
	}
	if !e.Until.IsZero() {
		s.Print(" until %s", cli.Moment(e.Until))
	}
}

// giver returns who had what was handed on: the other one whom such an entry
// concerns, or without a name the uid that handed it on. It is empty where the
// entry does not say.
func giver(e api.Entry) string {
	if e.Kind != "transferred" {
		return ""
	}
	if i := slices.IndexFunc(e.For, func(name string) bool { return name != e.Holder }); i >= 0 {
		return e.For[i]
	}
	if bare(e.By) && e.By != e.Holder {
		return e.By
	}
	return ""
}

func times(n int) string { return fmt.Sprintf(" (%d times)", n) }
