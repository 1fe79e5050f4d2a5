package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// reached is one gate of a batch. It is asked who it is once for each look at its requests, because a gate with many
// guests answers that slowly. Each request is compared with that answer.
type reached struct {
	cl     *client.Client
	status api.Status
	known  bool  // status is of this look
	err    error // why the gate is not asked any more in this run
}

// meet asks the gate who it is, as knownGate does, unless it did in this look.
func (g *reached) meet(ctx context.Context, t *tool) error {
	if g.err != nil || g.known {
		return g.err
	}
	g.status, g.err = t.knownGate(ctx, g.cl)
	g.known = g.err == nil
	return g.err
}

// question asks for a request as the tool's question does.
func (g *reached) question(ctx context.Context, t *tool, id string) (question, error) {
	if err := g.meet(ctx, t); err != nil {
		return question{}, err
	}
	q, err := questionAt(ctx, g.cl, g.status, id)
	g.lost(err)
	return q, err
}

// lost notes that the gate does not answer. Its other requests would wait for as long, one after the other.
func (g *reached) lost(err error) {
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		g.err = &client.Unreachable{Tried: gone.Tried} // the others were not asked for
	}
}

// handIn gives a gate its part, and notes the answer.
func (it *batched) handIn(ctx context.Context, t *tool, e api.Envelope) {
	if it.err = it.at.meet(ctx, t); it.err != nil {
		it.err = cli.Unanswered(it.err, wordsNotHandedIn, "")
		return
	}
	r, err := it.at.cl.Approve(ctx, it.ID, e)
	it.at.lost(err)
	it.State, it.Missing, it.err = r.State, r.Missing, cli.Unanswered(err, wordsNotHandedIn, maybeCounted(it.ID))
}

const wordsNotHandedIn = "the approval was not handed in"

// lookAgain has each gate asked anew who it is.
func (b *batch) lookAgain() {
	for _, g := range b.gates {
		g.known = false
	}
}

func (b *batch) end() {
	for _, g := range b.gates {
		g.cl.Close()
	}
}

// gate returns a gate by its host or address, that of the flags for an empty name.
func (b *batch) gate(name string) (*reached, error) {
	if g, ok := b.gates[name]; ok {
		return g, nil
	}
	where, err := b.Where()
	if err != nil {
		return nil, err
	}
	if name != "" {
		k, err := b.knownAs(name)
		if err != nil {
			return nil, err
		}
		if where, err = where.At(k.Address); err != nil {
			return nil, err
		}
	}
	return b.reach(name, where)
}

// gateAt returns the gate of an address that a file names. It refuses, as NotAllowed, a remote one that no operator has
// met, because the file is not signed, and ssh would go wherever it says.
func (b *batch) gateAt(where client.Options, address client.Address) (*reached, error) {
	if g, ok := b.gates[string(address)]; ok {
		return g, nil
	}
	where, err := where.At(address)
	if err != nil {
		return nil, err
	}
	gates, err := client.KnownGatesOf(b.Getenv).List()
	if err != nil {
		return nil, err
	}
	if address.Remote() && !slices.ContainsFunc(gates, func(k client.KnownGate) bool { return k.Address == address }) {
		return nil, refusal.New(refusal.NotAllowed, "the file beside the batch names %s, which is no known gate: nothing was handed in",
			op.Shown(string(address))).WithHint("if it is one of yours, meet it first: opsign list -H ADDRESS")
	}
	return b.reach(string(address), where)
}

func (b *batch) reach(name string, where client.Options) (*reached, error) {
	cl, err := client.New(where)
	if err != nil {
		return nil, err
	}
	if b.gates == nil {
		b.gates = map[string]*reached{}
	}
	b.gates[name] = &reached{cl: cl}
	return b.gates[name], nil
}

// knownAs returns the known gate of that host, or at that address. Of several addresses of one gate it is the first.
func (t *tool) knownAs(name string) (client.KnownGate, error) {
	gates, err := client.KnownGatesOf(t.Getenv).List()
	gates = slices.DeleteFunc(gates, func(k client.KnownGate) bool { return k.Host != name && string(k.Address) != name })
	switch {
	case err != nil:
		return client.KnownGate{}, err
	case len(gates) == 0:
		return client.KnownGate{}, cli.Usage(fmt.Sprintf("no known gate is %s; opsign known lists them, and opsign list -H ADDRESS meets another",
			op.Shown(name)))
	case slices.ContainsFunc(gates, func(k client.KnownGate) bool { return k.Gate != gates[0].Gate }):
		return client.KnownGate{}, cli.Usage(fmt.Sprintf("several known gates are of the host %s: say the address, as opsign known lists it", op.Shown(name)))
	}
	return gates[0], nil
}
