package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// hookContextCommand returns the hook that an agent's harness runs at the start of a session and at each prompt.
func (t *tool) hookContextCommand() *cobra.Command {
	var deadline time.Duration
	var product string
	c := t.Command(cli.Words{
		Use:   "context",
		Short: "Say what became of this agent's requests since it last looked",
		Long: `For a product that adds what a hook prints to the agent's context, at the start of a session and at each
prompt: gated hook install --context. It prints at most 2 KiB: which destructive steps of this agent were approved,
rejected or ended since the last such hook. Others' words stand in a frame. It prints nothing if there is no news, or if
the daemon does not answer.`,
		Example: "  gated hook context --for gemini",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if deadline <= 0 || deadline > hook.MaxDeadline {
			return cli.Usage("--deadline is not above 0 and at most 1m")
		}
		d, err := hook.DialectOf(product)
		if err != nil {
			return cli.Usage(err.Error())
		}
		h := hook.ContextHook{For: d, Guard: t.guard("context", hookFlags{onFailure: string(hook.Warn), deadline: deadline})}
		cl, err := t.Client()
		if err != nil {
			_ = h.Failed(hook.KindRefused, err)
			return nil
		}
		defer cl.Close()
		h.Self = func(ctx context.Context) (string, error) { return self(ctx, cl) }
		h.Head = func(ctx context.Context) (int64, error) {
			head, err := cl.AuditHead(ctx)
			return head.Seq, err
		}
		h.Requesters = func(ctx context.Context, job string) ([]string, error) {
			j, err := cl.Job(ctx, job)
			return j.RequestedBy, err
		}
		h.Events = func(ctx context.Context, holder string, after int64, fn func(api.Entry) error) error {
			return cl.EventsFor(ctx, holder, after, false, fn)
		}
		o, said := h.Run(c.Context())
		if err := t.end(o); err != nil {
			return err
		}
		said()
		return nil
	})
	addCaller(c, &product)
	c.Flags().DurationVar(&deadline, "deadline", hook.ToolDeadline, "how long to wait for the daemon")
	return c
}

// self names the caller: the agent's registration, builder#7, or uid:1000@node2.
func self(ctx context.Context, cl *client.Client) (string, error) {
	me, err := cl.Self(ctx)
	switch {
	case err != nil:
		return "", err
	case me.Agent != nil:
		return me.Agent.ID, op.CheckName(op.AgentName(me.Agent.ID))
	default:
		return op.Requester{Source: op.SourceAPI, UID: me.UID, Set: me.Member}.String(), nil
	}
}
