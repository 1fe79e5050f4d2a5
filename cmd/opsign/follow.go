package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// follow lists what waits, and goes on with what the gate's events bring, until a signal. The events begin before the
// list, so that nothing falls between the two.
func (t *tool) follow(ctx context.Context, cl *client.Client, all bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := t.followUntil(ctx, cl, all)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // this is how one stops following
	}
	return err
}

func (t *tool) followUntil(ctx context.Context, cl *client.Client, all bool) error {
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return err
	}
	requests, gate, err := t.open(ctx, cl, all)
	if err != nil {
		return err
	}
	if err := t.listRequests(requests); err != nil {
		return err
	}
	f := following{tool: t, gate: gate.Gate, all: all, shown: map[string]op.State{}}
	for _, r := range requests {
		f.shown[r.ID] = r.State
	}
	return cl.Events(ctx, head.Seq, true, func(e api.Entry) error {
		if e.Step == "" {
			return nil
		}
		r, err := cl.Request(ctx, e.Step)
		if errors.Is(err, refusal.UnknownTarget) {
			return nil // a step that needs no signature
		}
		if err != nil {
			return err
		}
		return f.show(r)
	})
}

// following is what was printed of the requests of one gate.
type following struct {
	*tool
	gate  op.GateID
	all   bool
	shown map[string]op.State // of requests that are open
}

// show prints a request if it begins to be of interest, or if its state changed since it was printed.
func (f *following) show(r api.Request) error {
	if r.Gate != f.gate {
		return refusal.New(refusal.TargetMismatch, "another gate answers at this address now: %s", cli.Inline(string(r.Gate))).
			WithHint("opsign list says which gate is known here")
	}
	before, known := f.shown[r.ID]
	if r.State == before || !known && !f.decidable(r) && !(f.all && r.State.Open()) {
		return nil
	}
	if f.shown[r.ID] = r.State; !r.State.Open() {
		delete(f.shown, r.ID)
	}
	return f.Answer(r, "%s", cli.Told(f.line(r), f.Stdout))
}

// line says in a line what a request waits for, or what became of it.
func (f *following) line(r api.Request) string {
	what := cli.Inline(r.ID) + " " + cli.Inline(r.Op) + " " + cli.Inline(cli.Asked(r.Target, r.Params))
	switch {
	case f.decidable(r):
		needs := cli.Waiting(r, f.now())
		if r.State == op.StatePending {
			needs = "needs " + needs
		}
		return fmt.Sprintf("%s waits, asked for by %s: %s; %s\n", what, cli.Inline(strings.Join(r.RequestedBy, ",")),
			cli.Inline(needs), cli.Inline(cli.ReasonsInLine(r.Reason, r.Reasons)))
	case r.Error != nil:
		return fmt.Sprintf("%s: %s: %s\n", what, r.State, cli.Inline(r.Error.Detail))
	}
	return fmt.Sprintf("%s: %s\n", what, r.State)
}
