package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// patience is when a command that waits says so, if it cannot say for whom.
const patience = time.Second

func (t *tool) reserveCommand() *cobra.Command {
	var scope, reason string
	var shared, keep bool
	var ttl, wait time.Duration
	c := t.Command(cli.Words{
		Use:   "reserve PATTERN...",
		Short: "Reserve paths of a directory, all of them or none",
		Long: `Patterns are relative to the scope: the git top level around the working directory, or --scope. A pattern is
a literal path, or has *, ?, [...], ** and {a,b}; "dir/" is everything under it. Quote patterns, so that the shell
leaves them alone. If you have reserved the same already, this renews it. If another agent is in the way, it exits 1
and names that agent; with --wait-for it waits in line.`,
		Example: "  gated reservation reserve 'src/parser/**' docs/grammar.md --reason \"new grammar\"\n" +
			"  gated reservation reserve go.mod --ttl 1m --wait-for 10m\n" +
			"  gated reservation reserve 'docs/**' --shared",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		if err := op.CheckText("reason", reason); err != nil {
			return err
		}
		in := api.Reserve{Mode: mode(shared), Reason: reason, Keep: keep}
		var err error
		if in.TTLSeconds, err = seconds(c, "ttl", ttl, minTTL); err != nil {
			return err
		}
		if in.WaitSeconds, err = seconds(c, "wait-for", wait, 0); err != nil {
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
		return t.With(func(cl *client.Client) error { return t.reserve(c.Context(), cl, in, p) })
	})
	scopeFlag(c, &scope)
	c.Flags().BoolVar(&shared, "shared", false, "other agents may reserve the same, if shared as well")
	c.Flags().DurationVar(&ttl, "ttl", 0, flagTTL)
	c.Flags().BoolVar(&keep, "keep", false, "keep it to its end, also when this agent's process ends before")
	c.Flags().DurationVar(&wait, "wait-for", 0, "wait up to `D` for agents that are in the way")
	cli.Renamed(c, "wait", "wait-for")
	c.Flags().StringVar(&reason, "reason", "", "why, for agents that meet it")
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

// reserved is the answer of gated reservation reserve.
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
	text := "%s %s: %s, %s's until %s\n"
	if r.Renewed {
		text = "%s %s: %s, %s's already, now until %s\n"
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
		t.Say("waiting up to %s, behind other agents\n", limit)
		return
	}
	for i, held := range each(now.Conflicts) {
		text := "waiting up to %s for %s of %s: %s\n"
		if i > 0 {
			text = "  and for %[2]s of %[3]s: %[4]s\n"
		}
		t.Say(text, limit, cli.Inline(held.ID), cli.Inline(held.Agent), list(held.Patterns))
	}
}

// checked is the answer of gated reservation check.
type checked struct {
	api.Checked
	Warnings []string `json:"warnings"`
}

func (t *tool) checkCommand() *cobra.Command {
	var scope string
	var shared bool
	c := t.Command(cli.Words{
		Use:   "check PATTERN...",
		Short: "Say which agents have reserved paths that these overlap",
		Long:  "Exit code 1 if another agent has, else 0. Changes nothing. Patterns are as in gated reservation reserve.",
		Example: "  gated reservation check src/parser/lex.go && $EDITOR src/parser/lex.go\n" +
			"  gated reservation check 'src/**' --json",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		in, err := place(c, scope)
		if err != nil {
			return err
		}
		p, err := t.patterns(in, args)
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			out, err := cl.Check(c.Context(), api.Check{Scope: in, Patterns: p.sent, Mode: mode(shared)})
			if err != nil {
				return err
			}
			return t.showChecked(checked{out, t.warnings(p)}, p)
		})
	})
	scopeFlag(c, &scope)
	c.Flags().BoolVar(&shared, "shared", false, "ask as for a shared reservation")
	c.ValidArgsFunction = nil // patterns are paths
	return c
}

func (t *tool) showChecked(out checked, p patterns) error {
	if t.JSON {
		if err := t.Emit(out); err != nil {
			return err
		}
	} else if len(out.Conflicts) == 0 {
		t.Print("no other agent has reserved %s\n", list(p.sent))
	}
	if len(out.Conflicts) == 0 {
		return nil
	}
	if !t.JSON {
		for _, c := range out.Conflicts {
			t.Print("%s", conflict(c, p.in.Path))
		}
		if out.More {
			t.Print("there are more\n")
		}
	}
	return cli.Ended(api.ExitRefused)
}

func holdsWithoutName(holder string) string {
	return cli.Inline(holder) + " is no registered agent: every process of that uid has this reservation, and only " +
		"its time ends it: gated agent register NAME"
}

// notATime says which times a flag takes.
func notATime(flag string, d, least time.Duration) string {
	if least > 0 {
		return fmt.Sprintf("--%s is %s, not %s to 24h", flag, d, least)
	}
	return fmt.Sprintf("--%s is %s, not above 0 and at most 24h", flag, d)
}

// refused is how a program sees who is in the way.
type refused struct {
	Error struct {
		Code      refusal.Code   `json:"code"`
		Detail    string         `json:"detail"`
		Hint      string         `json:"hint,omitempty"`
		Conflicts []api.Conflict `json:"conflicts"`
	} `json:"error"`
}

// mostTold is how many conflicts the gate tells of at most.
const mostTold = 20

const wordsInTheWay = "%s: %s" // the latter ends its line

// inTheWay says who holds what was asked for, where an error has that: once, in
// the words of gated reservation check. Any other error is returned as it is.
func (t *tool) inTheWay(err error, scope string) error {
	var other *client.Conflicted
	if !errors.As(err, &other) || len(other.Conflicts) == 0 {
		return err
	}
	r := refusal.As(err)
	for _, c := range other.Conflicts {
		t.Say(wordsInTheWay, op.Shown(string(r.Code)), conflict(c, scope))
	}
	if len(other.Conflicts) >= mostTold {
		t.Say("there may be more\n")
	}
	if r.Hint != "" {
		t.Say("  hint: %s\n", cli.Lines(r.Hint))
	}
	if t.JSON {
		var out refused
		out.Error.Code, out.Error.Detail, out.Error.Hint, out.Error.Conflicts = r.Code, r.Detail, r.Hint, other.Conflicts
		if err := t.Emit(out); err != nil {
			return err
		}
	}
	return cli.Ended(api.Exit(err))
}

// each returns the reservations of conflicts, each once.
func each(conflicts []api.Conflict) []api.Reservation {
	var out []api.Reservation
	seen := map[string]bool{}
	for _, c := range conflicts {
		if !seen[c.Reservation.ID] {
			seen[c.Reservation.ID] = true
			out = append(out, c.Reservation)
		}
	}
	return out
}

// holder says of who has a reservation whether that one is still there.
func holder(r api.Reservation) string {
	switch {
	case bare(r.Agent):
		return "no process"
	case !r.HolderAlive:
		return "ended"
	default:
		return "alive"
	}
}

// conflict says who is in the way, since when, until when and why. What others
// wrote is quoted.
func conflict(c api.Conflict, scope string) string {
	r, where := c.Reservation, ""
	if r.Scope != scope {
		where = fmt.Sprintf(" in %s", cli.Inline(r.Scope))
	}
	text := fmt.Sprintf("%s: %s of %s (%s) has reserved %s%s, %s, since %s until %s\n",
		cli.Inline(c.Pattern), cli.Inline(r.ID), cli.Inline(r.Agent), holder(r), cli.Inline(c.Overlaps), where,
		cli.Inline(r.Mode), cli.Moment(r.CreatedAt), cli.Moment(r.ExpiresAt))
	if r.Reason != "" {
		text += fmt.Sprintf("    their reason: %s\n", cli.Quoted(r.Reason))
	}
	return text
}
