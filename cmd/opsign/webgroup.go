package main

import (
	"context"
	"errors"
	"fmt"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/page"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// together are like requests that a page asks for, as this terminal shows them.
type together struct {
	items []*item
	ways  []approval // to the gate of each
	as    op.Role
}

// Together implements page.Terminal.
func (w *webTerminal) Together(ctx context.Context, named []page.Named, rejection string) ([]api.Request, error) {
	defer w.beside.ask()()
	done, err := w.together(ctx, named, rejection)
	text := fmt.Sprintf("%d of %d signed\n", len(done), len(named))
	if err != nil {
		text += cli.Inline(refusal.As(err).Sentence()) + "\n"
	}
	return done, errors.Join(err, w.asks.show(text))
}

func (w *webTerminal) together(ctx context.Context, named []page.Named, rejection string) (done []api.Request, err error) {
	t, err := w.looked(ctx, named, rejection)
	if err != nil {
		return nil, err
	}
	text := wordsFromPage + allText(t.items, w.asks.view(false), wholeText)
	words := "Sign %s of %s as %s, each by itself? Type yes:"
	if rejection != "" {
		text += "  your reason: " + cli.Quoted(rejection) + "\n"
		words = "Reject %s of %s as %s, each by itself? Type yes:"
	}
	if err := w.asks.write(text, w.asks.painted); err != nil {
		return nil, err
	}
	if err := w.asks.confirm(words, t.items[0].shown.Payload.Op, cli.Count(len(named), "target"), t.as); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, refusal.New(refusal.Cancelled, "the page in the browser was closed before the answer, and nothing was signed").
			WithHint("ask again on the page, or use opsign review")
	}
	for i, it := range t.items {
		t.ways[i].signer = w.signer
		r, err := t.ways[i].decide(w.ends, it.shown, t.as, rejection)
		w.signer = t.ways[i].signer // its passphrase is asked for once
		if err != nil {
			return done, err
		}
		if err := w.asks.show(fmt.Sprintf(wordsReviewOutcome, it.label(), "signed; it is "+cli.Inline(string(r.State)))); err != nil {
			return append(done, r), err
		}
		done = append(done, r)
	}
	return done, nil
}

// looked asks the gates for each request. It refuses, as StaleTarget, one with another payload than the page showed, any that is decided, and
// what add refuses.
func (w *webTerminal) looked(ctx context.Context, named []page.Named, rejection string) (t together, err error) {
	for _, n := range named {
		a, q, err := w.asked(ctx, n.Gate, n.ID, n.PayloadSHA256, "")
		if err == nil {
			err = question.Answered(q.Request)
		}
		may := usefulRoles(q.Request, a.keys)
		if err == nil && rejection != "" {
			may = q.Request.Roles
			_, err = q.Rejection(rejection, a.now()) // a reason that none can have is said before anybody is asked
		}
		if err != nil {
			return t, err
		}
		as, err := a.keys.roleFor(may)
		if err != nil {
			return t, err
		}
		it := &item{id: n.ID, host: q.Payload.Host, shown: q, request: q.Request}
		if err := t.add(it, a, as); err != nil {
			return t, err
		}
	}
	return t, nil
}

// add takes one more request. It refuses, as StaleTarget, one that is not like the first, and as RoleDenied one that asks for another role.
func (t *together) add(it *item, way approval, as op.Role) error {
	p := it.shown.Payload
	first := p
	if len(t.items) > 0 {
		first = t.items[0].shown.Payload
	}
	switch {
	case p.Op == op.Rotate || p.Op != first.Op || !p.Params.Equal(first.Params):
		return refusal.New(refusal.StaleTarget, "%s is not like the others, and nothing was signed", it.id).
			WithHint("load the page again, and read it")
	case len(t.items) > 0 && as != t.as:
		return refusal.New(refusal.RoleDenied, "%s asks for a signature as %s, and the others as %s", it.id, as, t.as).
			WithHint("decide on it by itself")
	}
	t.items, t.ways, t.as = append(t.items, it), append(t.ways, way), as
	return nil
}

// decide approves or rejects what was shown, if it still is what the gate has. An empty rejection approves.
func (a *approval) decide(ctx context.Context, q question.Question, as op.Role, rejection string) (api.Request, error) {
	if rejection == "" {
		return a.signShown(ctx, q, as)
	}
	payload, err := q.Rejection(rejection, a.now())
	if err != nil {
		return q.Request, err
	}
	signer, err := a.key(ctx)
	if err != nil {
		return q.Request, err
	}
	armor, err := signer.Sign(ctx, as, payload)
	if err != nil {
		return q.Request, err
	}
	return a.client.Reject(ctx, q.Request.ID, api.EnvelopeOf(payload, armor))
}
