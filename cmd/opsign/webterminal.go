package main

import (
	"context"
	"errors"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/web/gates"
	"gated/internal/web/page"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// webTerminal signs in this terminal what a page asks for. It implements page.Terminal, which asks one question at a time.
type webTerminal struct {
	asks   *asker
	gates  *gates.Set
	keys   keyFlags
	beside *aside
	ends   context.Context // ends with the program
	signer sign.Signer     // nil before the first signature
}

var _ page.Terminal = (*webTerminal)(nil)

const wordsFromPage = "\nThe page in the browser asks in your name. What stands here is what counts.\n"

// Approve implements page.Terminal.
func (w *webTerminal) Approve(ctx context.Context, gate, id, payloadSHA256 string, role op.Role) (api.Request, error) {
	return w.answer(func() (api.Request, error) {
		a, q, err := w.shown(ctx, gate, id, payloadSHA256, role)
		if err != nil {
			return q.Request, err
		}
		as, err := a.keys.roleFor(usefulRoles(q.Request, a.keys))
		if err != nil {
			return q.Request, err
		}
		if err := w.confirmed(ctx, wordsConfirmApprove, q, as); err != nil {
			return q.Request, err
		}
		r, err := a.signShown(w.ends, q, as)
		w.signer = a.signer // its passphrase is asked for once
		return r, err
	})
}

// Reject implements page.Terminal.
func (w *webTerminal) Reject(ctx context.Context, gate, id, payloadSHA256, reason string, role op.Role) (api.Request, error) {
	return w.answer(func() (api.Request, error) {
		a, q, err := w.shown(ctx, gate, id, payloadSHA256, role)
		if err != nil {
			return q.Request, err
		}
		if _, err := q.Rejection(reason, w.asks.now()); err != nil {
			return q.Request, err
		}
		as, err := a.keys.roleFor(q.Request.Roles)
		if err != nil {
			return q.Request, err
		}
		if err := w.asks.show("  your reason: " + cli.Quoted(reason) + "\n"); err != nil {
			return q.Request, err
		}
		if err := w.confirmed(ctx, wordsConfirmReject, q, as); err != nil {
			return q.Request, err
		}
		r, err := a.decide(w.ends, q, as, reason)
		w.signer = a.signer
		return r, err
	})
}

// answer holds back what is said beside a question, and says in the terminal how it ended.
func (w *webTerminal) answer(ask func() (api.Request, error)) (api.Request, error) {
	defer w.beside.ask()()
	r, err := ask()
	text := ""
	switch {
	case err != nil:
		text = cli.Inline(refusal.As(err).Sentence()) + "\n"
	case r.State == op.StatePending:
		text = missingText(r, w.asks.now())
	default:
		text = cli.Inline(r.ID) + " is " + cli.Inline(string(r.State)) + "\n"
	}
	return r, errors.Join(err, w.asks.show(text))
}

// asked asks a gate for a request, and refuses, as StaleTarget, one that the page showed with another payload.
func (w *webTerminal) asked(ctx context.Context, gate, id, payloadSHA256 string, role op.Role) (approval, question.Question, error) {
	cl, ok := w.gates.Client(gate)
	if !ok {
		return approval{}, question.Question{}, gates.Unknown(gate)
	}
	a := approval{asker: w.asks, client: cl, keys: w.keys, signer: w.signer}
	if role != "" {
		a.keys.role = string(role)
	}
	q, err := w.asks.question(ctx, cl, id)
	if err == nil && op.SHA256(q.Bytes) != payloadSHA256 {
		err = refusal.New(refusal.StaleTarget, "%s has another payload now than the page showed, and nothing was signed", id).
			WithHint("load the page again, and read it")
	}
	return a, q, err
}

// shown shows a request in the terminal.
func (w *webTerminal) shown(ctx context.Context, gate, id, payloadSHA256 string, role op.Role) (approval, question.Question, error) {
	a, q, err := w.asked(ctx, gate, id, payloadSHA256, role)
	if err != nil {
		return a, q, err
	}
	if err := w.asks.show(wordsFromPage); err != nil {
		return a, q, err
	}
	if err := w.asks.showRequest(q, false); err != nil {
		return a, q, err
	}
	return a, q, question.Answered(q.Request)
}

// confirmed asks in the terminal. Whoever closed the page meanwhile does not want it any more.
func (w *webTerminal) confirmed(ctx context.Context, words string, q question.Question, as op.Role) error {
	if err := w.asks.confirm(words, q.Payload.Op, q.Payload.Target.String(), as); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return refusal.New(refusal.Cancelled, "the page in the browser was closed before the answer, and nothing was signed").
			WithHint("ask again on the page, or use opsign approve %s", q.Request.ID)
	}
	return nil
}
