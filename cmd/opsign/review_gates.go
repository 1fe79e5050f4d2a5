package main

import (
	"context"

	"gated/client"
	"gated/client/api"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// gather takes what waits at the one gate of the flags.
func (r *review) gather(ctx context.Context) error {
	cl, err := r.Client()
	if err != nil {
		return err
	}
	g := &reached{cl: cl}
	r.gates = append(r.gates, g)
	if err := g.meet(ctx, r.tool); err != nil {
		return err
	}
	requests, err := cl.Requests(ctx, "")
	if err != nil {
		return err
	}
	for _, q := range requests {
		if r.decidable(q) {
			r.items = append(r.items, &item{id: q.ID, at: g, shown: question.Question{Request: q}, request: q})
		}
	}
	return nil
}

// gatherAll takes what waits at every known gate, gate by gate in the order of the file. It says which one does not answer, and goes on.
func (r *review) gatherAll(ctx context.Context) error {
	answers, where, err := r.askGates(ctx, false)
	if err != nil {
		return err
	}
	for i := range answers {
		a := &answers[i]
		if _, err := a.said.WriteTo(r.Stderr); err != nil {
			return err
		}
		if a.err != nil {
			r.worst = worse(r.worst, api.Exit(a.err))
			r.Say("%s  %s: %s\n", cli.Inline(string(a.Address)), cli.Inline(a.Host), a.silence())
			continue
		}
		if len(a.Requests) == 0 {
			continue
		}
		at, err := where.At(a.Address)
		if err != nil {
			return err
		}
		cl, err := client.New(at)
		if err != nil {
			return err
		}
		g := &reached{cl: cl}
		r.gates = append(r.gates, g)
		for _, q := range a.Requests {
			r.items = append(r.items, &item{id: q.ID, at: g, host: a.Host, shown: question.Question{Request: q}, request: q})
		}
	}
	return nil
}
