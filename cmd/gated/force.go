package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

// Taking a reservation away from somebody is a step like any other that
// destroys: it is asked for here, and somebody signs it with opsign.

func (t *tool) releaseAllCommand() *cobra.Command {
	var scope, reason string
	var wait bool
	c := t.command("release-all", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !c.Flags().Changed("scope") {
			return cli.Usage(wordsNoScope)
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

func (t *tool) forceTransferCommand() *cobra.Command {
	var to, reason string
	var wait bool
	c := t.command("force-transfer", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		id, err := op.ParseReservationID(args[0])
		if err != nil {
			return err
		}
		if to == "" {
			return cli.Usage(wordsNoReceiver)
		}
		return t.takeAway(c, reason, wait, func(ctx context.Context, cl *client.Client) (op.Ask, error) {
			r, err := reservation(ctx, cl, id)
			if err == nil {
				err = canBeTaken(ctx, cl, r, to)
			}
			return op.Ask{Op: op.ForceTransfer, Target: op.Target{Kind: op.KindScope, Name: r.ScopeID},
				Params: op.Params{"reservation": id.String(), "to": to}}, err
		})
	})
	t.receiverFlag(c, &to)
	takeAwayFlags(c, &reason, &wait)
	c.ValidArgsFunction = t.completeReservation(false)
	return c
}

// takeAwayFlags adds what both have.
func takeAwayFlags(c *cobra.Command, reason *string, wait *bool) {
	c.Flags().StringVar(reason, "reason", "", flagReason)
	c.Flags().BoolVar(wait, "wait", false, flagTakeAwayWait)
}

// takeAway submits one step and says how to sign it.
func (t *tool) takeAway(c *cobra.Command, reason string, wait bool, about func(context.Context, *client.Client) (op.Ask, error)) error {
	if err := op.CheckText("reason", reason); err != nil {
		return err
	}
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ask, err := about(c.Context(), cl)
	if err != nil {
		return err
	}
	job, err := submitted(c.Context(), cl, api.SubmitOf(reason, ask))
	if err != nil {
		return err
	}
	if wait && waits(job) {
		t.sayWaits(job)
		if job, err = awaited(c.Context(), cl, job, func(j api.Job) bool { return !j.State.Open() }); err != nil {
			return err
		}
	}
	return t.jobEnd(job)
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
