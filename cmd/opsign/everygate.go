package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// Of all known gates, so many are asked at the same time, and each has so long to answer.
const (
	gatesAtOnce = 4
	gateTime    = 20 * time.Second
)

// answer is what one known gate answered, whatever it was asked.
type answer struct {
	Address client.Address `json:"address"`
	Host    string         `json:"host"`
	Gate    op.GateID      `json:"gate"`

	err  error
	said bytes.Buffer // beside the answer
}

// listed is what one known gate says that waits.
type listed struct {
	answer
	Requests []api.Request `json:"requests"`
	Error    *cli.Problem  `json:"error"` // null if it answered
}

// listGates lists what waits at every known gate, in the order of the file, and ends with the worst exit code.
func (t *tool) listGates(ctx context.Context, all bool) error {
	where, gates, err := t.allKnown()
	if err != nil {
		return err
	}
	if len(gates) == 0 && !t.JSON {
		t.Print("no gate is known yet\n")
	}
	answers := make([]*listed, len(gates))
	atOnce(len(gates), func(i int) {
		k := gates[i]
		a := &listed{answer: answer{Host: k.Host, Gate: k.Gate}, Requests: []api.Request{}}
		answers[i] = a
		t.asking(ctx, where, []client.Address{k.Address}, &a.answer, func(ctx context.Context, one *tool, cl *client.Client) error {
			requests, _, err := one.open(ctx, cl, all)
			if len(requests) > 0 {
				a.Requests = requests
			}
			return err
		})
	})
	return endsWorst(answers, func(a *listed) (int, error) { return api.Exit(a.err), t.sayListed(a) })
}

// allKnown returns the known gates, and the options to ask them. A command line that names one gate is a usage error.
func (t *tool) allKnown() (client.Options, []client.KnownGate, error) {
	where, err := t.Where()
	if err == nil && (where.Socket != "" || where.Remote != "") {
		err = cli.Usage("this asks known gates, and --socket, --remote or GATED_HOST name one: say one")
	}
	if err != nil {
		return where, nil, err
	}
	gates, err := client.KnownGatesOf(t.Getenv).List()
	return where, gates, err
}

// atOnce calls f for each of n gates, several at the same time, and returns when all calls have ended.
func atOnce(n int, f func(i int)) {
	places := make(chan struct{}, gatesAtOnce)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			f(i)
		})
	}
	running.Wait()
}

// asking calls a gate, as a tool of its own, at the first of its addresses that answers. An answer that refuses is one,
// too. What it says beside the answer is kept, and nobody is asked anything.
func (t *tool) asking(ctx context.Context, where client.Options, addresses []client.Address, a *answer,
	call func(ctx context.Context, one *tool, cl *client.Client) error) {
	for _, a.Address = range addresses {
		a.said.Reset()
		a.err = t.askingAt(ctx, where, a.Address, &a.said, call)
		if !errors.As(a.err, new(*client.Unreachable)) {
			return
		}
	}
}

func (t *tool) askingAt(ctx context.Context, where client.Options, at client.Address, said io.Writer,
	call func(ctx context.Context, one *tool, cl *client.Client) error) error {
	ctx, stop := context.WithTimeout(ctx, t.gateTime)
	defer stop()
	one := *t
	one.Stderr, one.Stdout, one.said, one.unasked = said, io.Discard, nil, true
	where.Unattended = true
	where, err := where.At(at)
	if err != nil {
		return err
	}
	cl, err := client.New(where)
	if err != nil {
		return err
	}
	defer cl.Close()
	return call(ctx, &one, cl)
}

// sayListed prints what one gate answered.
func (t *tool) sayListed(a *listed) error {
	if _, err := a.said.WriteTo(t.Stderr); err != nil {
		return err
	}
	a.Error = cli.ProblemOf(a.err)
	if t.JSON {
		return t.Emit(a)
	}
	t.Print("%s  %s\n", cli.Inline(string(a.Address)), cli.Inline(a.Host))
	if a.err != nil {
		t.Print("  no answer: %s: %s\n", cli.Inline(string(a.Error.Code)), cli.Inline(a.Error.Detail))
		return nil
	}
	return t.listRequests(a.Requests)
}
