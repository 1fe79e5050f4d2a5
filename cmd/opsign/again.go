package main

import (
	"bytes"
	"context"
	"regexp"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// changed is the refusal to sign a request that is not as it was shown.
type changed struct {
	error
	now  question
	what string // what differs, for people; a line for each part, with its end
}

func (c *changed) Unwrap() error { return c.error }

// again asks for a request once more, right before it is signed. It refuses, as
// StaleTarget, with *changed, one whose bytes or facts are not those that were
// shown, and one that is decided as the gate would.
func (t *tool) again(ctx context.Context, cl *client.Client, shown question) error {
	now, err := t.question(ctx, cl, shown.request.ID)
	if err != nil {
		return err
	}
	if err := answered(now.request); err != nil {
		return err
	}
	if what := now.since(shown); what != "" {
		return &changed{changedRefusal(shown.request.ID), now, what}
	}
	return nil
}

// since says how a look differs from what was shown before, and notes whether that
// is in counters alone.
func (q *question) since(shown question) string {
	what := differs(shown, *q)
	q.moving = shown.moving
	if what != "" {
		q.moving = moves(shown, *q)
	}
	return what
}

// diskMoves are the parts of a fact about a disk that change while a guest writes.
var diskMoves = regexp.MustCompile(`\([0-9.]+ [KMGTPE]?i?B allocated\)|last write [0-9TZ:-]+`)

// counters reports whether two facts differ in nothing but what a guest that writes
// changes all the time: how much data it has, and when it wrote last.
func counters(a, b op.Fact) bool {
	switch {
	case a.Name != b.Name:
		return false
	case a.Name == "files", a.Name == "bytes", a.Name == "last write":
		return true
	}
	return diskMoves.ReplaceAllString(a.Text, "") == diskMoves.ReplaceAllString(b.Text, "")
}

// moves reports whether two looks differ in nothing but counters.
func moves(was, now question) bool {
	was.moving = true
	return differs(was, now) == ""
}

const wordsIs = "now "

// differs says what of a request is not as it was shown: what the signature would
// bind, the facts, the target's labels, and why it waits. It is empty if all of it
// is the same, but for counters of which the operator knows that they move.
func differs(was, now question) string {
	tolerant := was.moving && bytes.Equal(was.bytes, now.bytes)
	gone, come := unlike(was.facts(), now.facts(), func(a, b op.Fact) bool {
		return sameFact(a, was.request.FactsAt, b, now.request.FactsAt) || tolerant && counters(a, b)
	})
	if len(gone) == 0 && len(come) == 0 {
		// The parts of a payload are all that its bytes say (op.DecodePayload).
		return ""
	}
	var rows []op.Fact
	row := func(mark string, f op.Fact) { rows = append(rows, op.Fact{Name: mark + f.Name, Text: f.Text}) }
	for _, f := range gone {
		row("was ", f)
		for i := 0; i < len(come); i++ {
			if come[i].Name == f.Name {
				row(wordsIs, come[i])
				come = slices.Delete(come, i, i+1)
				i--
			}
		}
	}
	for _, f := range come {
		row(wordsIs, f)
	}
	return cli.Facts("  ", rows)
}

const wordsLabels = "labels of the target"

// facts are all parts of a question that people are shown before they sign, but
// for limits, which lose nothing.
func (q question) facts() []op.Fact {
	out := slices.Concat(payloadFacts(q.payload), slices.DeleteFunc(slices.Clone(q.request.Facts), op.Fact.OnLimits))
	if text := labelsText(q.request.Labels); text != "" {
		out = append(out, op.Fact{Name: wordsLabels, Text: text})
	}
	return append(out, op.Fact{Name: "why it waits", Text: q.request.Why})
}

// unlike returns what only the first list has, and what only the second has.
func unlike(a, b []op.Fact, same func(x, y op.Fact) bool) (gone, come []op.Fact) {
	come = slices.Clone(b)
	for _, x := range a {
		i := slices.IndexFunc(come, func(y op.Fact) bool { return same(x, y) })
		if i < 0 {
			gone = append(gone, x)
			continue
		}
		come = slices.Delete(come, i, i+1)
	}
	return gone, come
}

func changedRefusal(id string) error {
	return refusal.New(refusal.StaleTarget, "%s changed after it was shown, and was not signed", id).
		WithHint("read it again: opsign review, or opsign approve %s", id)
}
