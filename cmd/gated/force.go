package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

// Taking a reservation away from somebody is a step like any other that
// destroys: it is asked for here, and somebody signs it with opsign.

func (t *tool) releaseAllCommand() *cobra.Command {
	var scope, reason string
	var wait bool
	c := t.Command(cli.Words{
		Use:   "release-all --scope DIR",
		Short: "Ask for every reservation of a directory to be taken away",
		Long: `Waits for a signature: exit code 3, or with --wait=signed 0 when the step is done. A directory below that is a scope
of its own is not part of it. The request is for the reservations that are there when it is made: if one comes or
goes, it becomes another request.`,
		Example: "  gated reservation release-all --scope . --reason \"the agents are gone\"",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !c.Flags().Changed("scope") {
			return cli.Usage("say with --scope of which directory")
		}
		at, err := place(c, scope)
		if err != nil {
			return err
		}
		return t.takeAway(c, reason, wait, func(ctx context.Context, cl *client.Client) (op.Ask, error) {
			s, err := t.somethingIn(ctx, cl, at)
			return op.Ask{Op: op.ReleaseAll, Target: op.Target{Kind: op.KindScope, Name: s.ID}}, err
		})
	})
	scopeFlag(c, &scope)
	takeAwayFlags(c, &reason, &wait)
	return c
}

const wordsNoReceiver = "say with --to which agent gets it"

func (t *tool) forceTransferCommand() *cobra.Command {
	var to, reason string
	var wait bool
	c := t.Command(cli.Words{
		Use:   "force-transfer ID --to AGENT",
		Short: "Ask for a reservation to be taken from its holder and given to another agent",
		Long: `Waits for a signature: exit code 3, or with --wait=signed 0 when the step is done. The agent that gets it must be
registered. A reservation that overlaps another one of its holder cannot be taken alone: two agents would then have
the same paths.`,
		Example: "  gated reservation force-transfer r12 --to reviewer --reason \"builder does not answer\"",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		id, err := op.ParseReservationID(args[0])
		if err != nil {
			return err
		}
		if to == "" {
			return cli.Usage(wordsNoReceiver)
		}
		return t.takeAway(c, reason, wait, func(ctx context.Context, cl *client.Client) (op.Ask, error) {
			r, err := reservation(ctx, cl, id)
			return op.Ask{Op: op.ForceTransfer, Target: op.Target{Kind: op.KindScope, Name: r.ScopeID},
				Params: op.Params{"reservation": id.String(), "to": to}}, err
		})
	})
	t.receiverFlag(c, &to)
	takeAwayFlags(c, &reason, &wait)
	c.ValidArgsFunction = t.completeReservation(false)
	return c
}

const flagReason = "why, for the operator who is asked to sign"

// takeAwayFlags adds what both have.
func takeAwayFlags(c *cobra.Command, reason *string, wait *bool) {
	c.Flags().StringVar(reason, "reason", "", flagReason)
	waitSignedFlag(c, wait)
}

// takeAway submits one step and says how to sign it.
func (t *tool) takeAway(c *cobra.Command, reason string, wait bool, about func(context.Context, *client.Client) (op.Ask, error)) error {
	if err := op.CheckText("reason", reason); err != nil {
		return err
	}
	return t.With(func(cl *client.Client) error {
		ask, err := about(c.Context(), cl)
		if err != nil {
			return err
		}
		job, err := submitted(c.Context(), cl, convert.SubmitOf(reason, ask))
		if err != nil {
			return err
		}
		if wait && job.Pending() {
			t.sayWaits(job, false)
			if job, err = awaited(c.Context(), cl, job, api.UntilEnded); err != nil {
				return err
			}
		}
		return t.jobEnd(job)
	})
}

// reservation finds one by its id.
func reservation(ctx context.Context, cl *client.Client, id op.ReservationID) (api.Reservation, error) {
	q := client.ReservationQuery{Limit: 1}
	if id > 1 {
		q.After = (id - 1).String()
	}
	page, err := cl.Reservations(ctx, q)
	if err != nil {
		return api.Reservation{}, err
	}
	for _, r := range page.Reservations {
		if r.ID == id.String() {
			return r, nil
		}
	}
	return api.Reservation{}, noReservation(id)
}

func noReservation(id op.ReservationID) error {
	return refusal.New(refusal.UnknownTarget, "there is no reservation %s", id).
		WithHint("gated reservation list --all shows them")
}

// What nobody could carry out is refused before somebody is asked to sign it.
// What changes after that is the gate's to see.

// somethingIn returns the scope of a directory in which something is reserved.
// What is reserved in scopes below is no part of it, and is named.
func (t *tool) somethingIn(ctx context.Context, cl *client.Client, at api.Place) (api.Scope, error) {
	all, err := cl.AllReservations(ctx, client.ReservationQuery{Scope: at.Path})
	if err != nil {
		return api.Scope{}, err
	}
	var here []api.Reservation
	var below []string
	for _, r := range all {
		if r.Scope == at.Path {
			here = append(here, r)
		} else if !slices.Contains(below, r.Scope) {
			below = append(below, r.Scope)
		}
	}
	slices.Sort(below)
	if len(here) == 0 {
		return api.Scope{}, nothingReserved(at.Path, below)
	}
	s, err := cl.RegisterScope(ctx, at)
	if err != nil {
		return s, err
	}
	if !slices.ContainsFunc(here, func(r api.Reservation) bool { return r.ScopeID == s.ID }) {
		return s, reservedBefore(at.Path, here)
	}
	for _, path := range below[:min(len(below), mostNamed)] {
		t.Say("note: this leaves the reservations in %s alone: gated reservation release-all --scope %s\n",
			cli.Inline(path), argument(path))
	}
	return s, nil
}

// mostNamed is how many scopes are named of those that are no part of one.
const mostNamed = 10

// nothingReserved refuses to ask for nothing.
func nothingReserved(path string, below []string) error {
	refused := refusal.New(refusal.UnknownTarget, "nothing is reserved in %s", path)
	if len(below) == 0 {
		return refused.WithHint("gated reservation list --all shows all reservations")
	}
	shown := below[:min(len(below), mostNamed)]
	lines := make([]string, len(shown))
	for i, path := range shown {
		lines[i] = "gated reservation release-all --scope " + argument(path)
	}
	text := strings.Join(lines, "; ")
	if n := len(below) - len(shown); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return refused.WithHint("scopes below it have reservations: %s", text)
}

// reservedBefore says that what is reserved is of a directory that is gone.
func reservedBefore(path string, of []api.Reservation) error {
	names := make([]string, len(of))
	for i, r := range of {
		names[i] = r.ID
	}
	return refusal.New(refusal.UnknownTarget,
		"nothing is reserved in %s as it is now: %s is of another directory that was "+
			"there before", path,
		strings.Join(names, ", ")).WithHint("it ends by its time, or its holder releases it")
}

// argument writes a path as a shell takes it.
func argument(path string) string {
	if shown := cli.Inline(path); shown != path {
		return shown // for the eyes alone
	}
	return op.ShellWords(path)
}
