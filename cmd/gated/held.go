package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

const flagTTL = "how long it holds, `D` from 10s to 24h (default 15m)"

func (t *tool) renewCommand() *cobra.Command {
	var ttl time.Duration
	c := t.Command(cli.Words{
		Use:     "renew ID",
		Short:   "Give a reservation of yours more time",
		Example: "  gated reservation renew r12 --ttl 30m",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if _, err := seconds(c, "ttl", ttl, minTTL); err != nil {
			return err
		}
		return t.changeHeld(c, "%s %s: %s's until %s\n",
			func(ctx context.Context, cl *client.Client) (api.Reservation, error) {
				return cl.Renew(ctx, args[0], ttl)
			})
	})
	c.Flags().DurationVar(&ttl, "ttl", 0, flagTTL)
	c.ValidArgsFunction = t.completeReservation(true)
	return c
}

const wordsReleased = "%[1]s %[2]s: released\n" // what it takes beside has no number

func (t *tool) releaseCommand() *cobra.Command {
	var mine bool
	c := t.Command(cli.Words{
		Use:   "release ID|--mine",
		Short: "Give back a reservation of yours, or all of them",
		Example: "  gated reservation release r12\n" +
			"  gated reservation release --mine",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		if mine == (len(args) == 1) {
			return cli.Usage("give the id of a reservation, or --mine")
		}
		if mine {
			return t.releaseMine(c)
		}
		return t.changeHeld(c, wordsReleased, func(ctx context.Context, cl *client.Client) (api.Reservation, error) {
			return cl.Release(ctx, args[0])
		})
	})
	c.Flags().BoolVar(&mine, "mine", false, "all that you have, in every directory")
	c.ValidArgsFunction = t.completeReservation(true)
	return c
}

func (t *tool) releaseMine(c *cobra.Command) error {
	return t.With(func(cl *client.Client) error {
		all, err := cl.ReleaseMine(c.Context())
		if err != nil {
			return err
		}
		for _, r := range all {
			if err := t.showHeld(wordsReleased, r); err != nil {
				return err
			}
		}
		if len(all) == 0 && !t.JSON {
			t.Print("you have nothing reserved\n")
		}
		return nil
	})
}

func (t *tool) transferCommand() *cobra.Command {
	var to string
	c := t.Command(cli.Words{
		Use:     "transfer ID --to AGENT",
		Short:   "Hand a reservation of yours on to another agent",
		Long:    "The other one has to be registered. Its time stays as it is.",
		Example: "  gated reservation transfer r12 --to reviewer",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if to == "" {
			return cli.Usage(wordsNoReceiver)
		}
		return t.changeHeld(c, "%s %s: %s's until %s\n",
			func(ctx context.Context, cl *client.Client) (api.Reservation, error) {
				return cl.Transfer(ctx, args[0], to)
			})
	})
	t.receiverFlag(c, &to)
	c.ValidArgsFunction = t.completeReservation(true)
	return c
}

// receiverFlag adds --to.
func (t *tool) receiverFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "to", "", "the `AGENT` that gets it")
	_ = c.RegisterFlagCompletionFunc("to", t.completeAgent) // the flag was just added
}

// changeHeld changes one reservation and says in words how it is then. A
// refusal may name who is in the way.
func (t *tool) changeHeld(c *cobra.Command, words string, change func(context.Context, *client.Client) (api.Reservation, error)) error {
	return t.With(func(cl *client.Client) error {
		r, err := change(c.Context(), cl)
		if err != nil {
			return t.inTheWay(err, "")
		}
		return t.showHeld(words, r)
	})
}

// showHeld prints a reservation in words that take its id, patterns, holder and
// end.
func (t *tool) showHeld(words string, r api.Reservation) error {
	return t.Answer(r, words, cli.Inline(r.ID), list(r.Patterns), cli.Inline(r.Agent), cli.Moment(r.ExpiresAt))
}

func (t *tool) reservationsCommand() *cobra.Command {
	var scope, holder string
	var all bool
	c := t.Command(cli.Words{
		Use:   "list",
		Short: "List reservations and their holders",
		Long: "Of the git top level around the working directory and of all below it, unless --scope or --all says " +
			"otherwise.",
		Example: "  gated reservation list\n" +
			"  gated reservation list --all --agent builder --json",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		q := client.ReservationQuery{Agent: holder}
		if all && c.Flags().Changed("scope") {
			return cli.Usage("--scope is one directory and --all is every one: say one")
		}
		if holder == "" && c.Flags().Changed("agent") {
			return cli.Usage(wordsEmptyHolder)
		}
		if !all {
			p, err := place(c, scope)
			if err != nil {
				return err
			}
			q.Scope = p.Path
		}
		return t.With(func(cl *client.Client) error { return t.listReservations(c.Context(), cl, q) })
	})
	scopeFlag(c, &scope)
	c.Flags().StringVar(&holder, "agent", "", "only those of this `AGENT`, or uid:1000")
	c.Flags().BoolVar(&all, "all", false, "of every directory")
	_ = c.RegisterFlagCompletionFunc("agent", t.completeAgent) // the flag was just added
	return c
}

func (t *tool) listReservations(ctx context.Context, cl *client.Client, q client.ReservationQuery) error {
	var rows [][]string
	none := true
	err := eachReservation(ctx, cl, q, func(r api.Reservation) error {
		none = false
		if t.JSON {
			return t.Emit(r)
		}
		rows = append(rows, []string{r.ID, r.Agent, holder(r), r.Mode, list(r.Patterns), cli.Moment(r.CreatedAt),
			cli.Moment(r.ExpiresAt), r.Scope, r.Reason})
		return nil
	})
	if err == nil && none && q.Agent != "" && !bare(q.Agent) {
		var known bool
		if known, err = registered(ctx, cl, q.Agent); err == nil && !known {
			t.Say("note: no agent %s is registered, and nothing is reserved here under that name\n", cli.Inline(q.Agent))
		}
	}
	if err != nil || t.JSON {
		return err
	}
	return t.List([]cli.Column{{Head: "ID"}, {Head: "AGENT"}, {Head: "ALIVE", Rank: 1}, {Head: "MODE", Rank: 1, Once: "each is"}, {Head: "PATTERNS"},
		{Head: "SINCE", Rank: 4, Least: 20}, {Head: "UNTIL", Rank: 2, Least: 20}, {Head: "SCOPE", Rank: 5, Once: "all are in"}, {Head: "REASON", Rank: 3}}, rows)
}

// eachReservation reads reservations page by page.
func eachReservation(ctx context.Context, cl *client.Client, q client.ReservationQuery, fn func(api.Reservation) error) error {
	for {
		page, err := cl.Reservations(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Reservations {
			if err := fn(r); err != nil {
				return err
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = *page.Next
	}
}

// scopeFlag adds --scope.
func scopeFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "scope", "",
		"the `DIR` that patterns are relative to (default the git top level around the working directory)")
	_ = c.MarkFlagDirname("scope") // the flag was just added
}

// place returns the directory that --scope names, else the git top level around
// the working directory. An empty --scope, as of a variable that is not set, is
// a usage error: it is not the wish for another directory.
func place(c *cobra.Command, scope string) (api.Place, error) {
	find, dir := checkout.Top, "."
	if c.Flags().Changed("scope") {
		find, dir = checkout.At, scope
	}
	if dir == "" {
		return api.Place{}, cli.Usage("--scope is empty: name the directory, or leave the flag away")
	}
	p, err := find(dir)
	return p, unlessRefused(err)
}

// unlessRefused makes a usage error of one of the file system.
func unlessRefused(err error) error {
	var refused *refusal.Refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return cli.Usage(err.Error())
}

// patterns are those of a command line, as the gate is asked for them.
type patterns struct {
	in   api.Place
	sent []string
	read []checkout.Reading
}

// patterns reads the arguments of a command. What the gate would refuse is
// refused here, in its words.
func (t *tool) patterns(in api.Place, args []string) (patterns, error) {
	out := patterns{in: in}
	relative := false
	for _, arg := range args {
		r, err := checkout.Read(in, arg, cli.Inline)
		if err != nil {
			return patterns{}, unlessRefused(err)
		}
		if absolute := strings.HasPrefix(arg, "/"); !absolute && r.Note == "" && r.Sent[0] != arg {
			t.Say("%s leads to %s\n", cli.Inline(arg), cli.Inline(r.Sent[0]))
		} else if !absolute {
			relative = true
		}
		out.sent, out.read = append(out.sent, r.Sent...), append(out.read, r)
	}
	if here, err := checkout.At("."); relative && (err != nil || here.Path != in.Path) {
		t.Say("patterns are relative to %s\n", cli.Inline(in.Path))
	}
	return out, nil
}

// warnings says what the caller may not expect of the patterns, on standard
// error and in what it returns.
func (t *tool) warnings(p patterns) []string {
	out := checkout.Warnings(p.in, p.read, cli.Inline)
	for _, text := range out {
		t.Say(wordsWarning, text)
	}
	return out
}

func (t *tool) warned(list []string, text string) []string {
	t.Say(wordsWarning, text)
	return append(list, text)
}
