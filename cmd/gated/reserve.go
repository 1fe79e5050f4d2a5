package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

// patience is when a command that waits says so, if it cannot say for whom.
const patience = time.Second

func (t *tool) reserveCommand() *cobra.Command {
	var scope, reason string
	var shared, keep bool
	var ttl, wait time.Duration
	c := t.command("reserve", cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		if err := op.CheckText("reason", reason); err != nil {
			return err
		}
		in := api.Reserve{Mode: mode(shared), Reason: reason, Keep: keep}
		var err error
		if in.TTLSeconds, err = seconds(c, "ttl", ttl, minTTL); err != nil {
			return err
		}
		if in.WaitSeconds, err = seconds(c, "wait", wait, 0); err != nil {
			return err
		}
		if in.Scope, err = place(c, scope); err != nil {
			return err
		}
		p, err := t.patterns(in.Scope, args)
		if err != nil {
			return err
		}
		in.Patterns = p.sent
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return t.reserve(c.Context(), cl, in, p)
	})
	scopeFlag(c, &scope)
	c.Flags().BoolVar(&shared, "shared", false, flagShared)
	c.Flags().DurationVar(&ttl, "ttl", 0, flagTTL)
	c.Flags().BoolVar(&keep, "keep", false, flagKeep)
	c.Flags().DurationVar(&wait, "wait", 0, flagReserveWait)
	c.Flags().StringVar(&reason, "reason", "", flagReserveReason)
	c.ValidArgsFunction = nil // patterns are paths
	return c
}

func mode(shared bool) string {
	if shared {
		return api.Shared
	}
	return api.Exclusive
}

// What a reservation may last, and how long one may be waited for.
const (
	minTTL  = 10 * time.Second
	maxTime = api.MaxSeconds * time.Second
)

// seconds returns what a flag says in whole seconds, rounded up; 0 where it was
// not given. It is a usage error if that is not above 0, below least or more
// than a day.
func seconds(c *cobra.Command, flag string, d, least time.Duration) (int64, error) {
	if !c.Flags().Changed(flag) {
		return 0, nil
	}
	if d <= 0 || d < least || d > maxTime {
		return 0, cli.Usage(notATime(flag, d, least))
	}
	return int64((d + time.Second - 1) / time.Second), nil
}

// reserved is the answer of gated reserve.
type reserved struct {
	api.Reservation
	Warnings []string `json:"warnings"`
}

func (t *tool) reserve(ctx context.Context, cl *client.Client, in api.Reserve, p patterns) error {
	r, err := t.obtain(ctx, cl, in)
	if err != nil {
		return t.inTheWay(err, in.Scope.Path)
	}
	warnings := t.warnings(p)
	if bare(r.Agent) {
		warnings = t.warned(warnings, holdsWithoutName(r.Agent))
	}
	if t.JSON {
		return t.Emit(reserved{r, warnings})
	}
	text := wordsReserved
	if r.Renewed {
		text = wordsReservedAgain
	}
	t.Print(text, cli.Inline(r.ID), list(r.Patterns), cli.Inline(r.Mode), cli.Inline(r.Agent), cli.Moment(r.ExpiresAt))
	return nil
}

// obtain asks for a reservation, and says for whom it waits.
func (t *tool) obtain(ctx context.Context, cl *client.Client, in api.Reserve) (api.Reservation, error) {
	if in.WaitSeconds == 0 {
		return cl.Reserve(ctx, in)
	}
	var r api.Reservation
	answer := make(chan error, 1)
	go func() {
		var err error
		r, err = cl.Reserve(ctx, in)
		answer <- err
	}()
	now, err := cl.Check(ctx, api.Check{Scope: in.Scope, Patterns: in.Patterns, Mode: in.Mode})
	known := err == nil && len(now.Conflicts) > 0
	pause := time.Duration(0)
	if !known {
		pause = patience // it is granted now, or waits for somebody who waits
	}
	late := time.NewTimer(pause)
	defer late.Stop()
	select {
	case err := <-answer:
		return r, err
	case <-late.C:
		t.sayWaiting(in.WaitSeconds, now)
	}
	return r, <-answer
}

// sayWaiting says for whom, or in line behind whom.
func (t *tool) sayWaiting(most int64, now api.Checked) {
	limit := cli.Span(time.Duration(most) * time.Second)
	if len(now.Conflicts) == 0 {
		t.Say(wordsWaitsInLine, limit)
		return
	}
	for i, held := range each(now.Conflicts) {
		text := wordsWaitsFor
		if i > 0 {
			text = wordsAndFor
		}
		t.Say(text, limit, cli.Inline(held.ID), cli.Inline(held.Agent), list(held.Patterns))
	}
}

// checked is the answer of gated check.
type checked struct {
	api.Checked
	Warnings []string `json:"warnings"`
}

func (t *tool) checkCommand() *cobra.Command {
	var scope string
	var shared bool
	c := t.command("check", cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		in, err := place(c, scope)
		if err != nil {
			return err
		}
		p, err := t.patterns(in, args)
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		out, err := cl.Check(c.Context(), api.Check{Scope: in, Patterns: p.sent, Mode: mode(shared)})
		if err != nil {
			return err
		}
		return t.showChecked(checked{out, t.warnings(p)}, p)
	})
	scopeFlag(c, &scope)
	c.Flags().BoolVar(&shared, "shared", false, flagCheckShared)
	c.ValidArgsFunction = nil // patterns are paths
	return c
}

func (t *tool) showChecked(out checked, p patterns) error {
	if t.JSON {
		if err := t.Emit(out); err != nil {
			return err
		}
	} else if len(out.Conflicts) == 0 {
		t.Print(wordsFree, list(p.sent))
	}
	if len(out.Conflicts) == 0 {
		return nil
	}
	if !t.JSON {
		for _, c := range out.Conflicts {
			t.Print("%s", conflict(c, p.in.Path))
		}
		if out.More {
			t.Print(wordsMoreConflicts)
		}
	}
	return cli.Ended(api.ExitRefused)
}
