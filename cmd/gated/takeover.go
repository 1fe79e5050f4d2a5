package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

func (t *tool) takeoverCommand() *cobra.Command {
	var timeout time.Duration
	c := t.Asking(cli.Words{
		Use:   "takeover",
		Short: "Have this standby become the active member of its gate",
		Long: `For admins, on a gate with a ledger. The member that decided so far is fenced off at once and ends. Then this
one waits as long as the lease is, because that member may not know it yet, and decides. If the active member is gone, a
standby takes over by itself; this is for an upgrade or a move. Waits until the member decides.`,
		Example: "  gated member takeover",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		if err := cl.TakeOver(c.Context()); err != nil {
			return err
		}
		t.Say("the member takes over; it decides when the lease of the one before is over\n")
		m, err := untilActive(c.Context(), cl, timeout)
		if err != nil {
			return err
		}
		return t.Answer(m, "member %s decides, era %d\n", op.Shown(m.Name), m.Era)
	})
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "wait no longer than `TIME` for that")
	return c
}

// untilActive waits until the member decides. Between its two roles it answers nothing.
func untilActive(ctx context.Context, cl *client.Client, timeout time.Duration) (api.Member, error) {
	limit := time.After(timeout)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := cl.Status(ctx)
		if err == nil && s.Member != nil && s.Member.Role == api.RoleActive {
			return *s.Member, nil
		}
		select {
		case <-ctx.Done():
			return api.Member{}, ctx.Err()
		case <-limit:
			return api.Member{}, refusal.New(refusal.Unavailable, "the member does not decide after %s", timeout).
				WithHint("gated status and the daemon's log say why")
		case <-tick.C:
		}
	}
}
