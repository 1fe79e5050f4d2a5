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

// listed is what one known gate answered.
type listed struct {
	Address  client.Address `json:"address"`
	Host     string         `json:"host"`
	Gate     op.GateID      `json:"gate"`
	Requests []api.Request  `json:"requests"`
	Error    *cli.Problem   `json:"error"` // null if it answered

	err  error
	said bytes.Buffer // beside the answer
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
	answers := make([]listed, len(gates))
	atOnce(len(gates), func(i int) {
		answers[i] = listed{Address: gates[i].Address, Host: gates[i].Host, Gate: gates[i].Gate, Requests: []api.Request{}}
		t.ask(ctx, where, &answers[i], all)
	})
	worst := api.ExitDone
	for i := range answers {
		worst = worse(worst, api.Exit(answers[i].err))
		if err := t.sayListed(&answers[i]); err != nil {
			return err
		}
	}
	return cli.Ended(worst)
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

// ask asks one gate, and keeps what it says.
func (t *tool) ask(ctx context.Context, where client.Options, a *listed, all bool) {
	_, a.err = t.asking(ctx, where, []client.Address{a.Address}, &a.said, func(ctx context.Context, one *tool, cl *client.Client) error {
		requests, _, err := one.open(ctx, cl, all)
		if len(requests) > 0 {
			a.Requests = requests
		}
		return err
	})
	if a.err != nil {
		a.Error = cli.ProblemOf(a.err)
	}
}

// handedIn is an error after a gate was asked for a change, or perhaps was. No other address is then asked for it again.
type handedIn struct{ error }

func (h handedIn) Unwrap() error { return h.error }

// asking calls a gate, as a tool of its own, at the first of its addresses that answers, and returns that address. An
// answer that refuses is one, too. What it says beside the answer goes to said, and nobody is asked anything.
func (t *tool) asking(ctx context.Context, where client.Options, addresses []client.Address, said *bytes.Buffer,
	call func(ctx context.Context, one *tool, cl *client.Client) error) (at client.Address, err error) {
	for _, at = range addresses {
		said.Reset()
		err = t.askingAt(ctx, where, at, said, call)
		if gone := new(client.Unreachable); !errors.As(err, &gone) || errors.As(err, new(handedIn)) {
			break
		}
	}
	return at, err
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
