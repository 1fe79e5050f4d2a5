package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// alike returns the items that wait for signatures and ask for the same operation with the same parameters as one of them, that one
// first. A rotation is like no other.
func (r *review) alike(it *item) []*item {
	out := []*item{it}
	for _, other := range r.items {
		a, b := it.request, other.request
		open := other.decision == undecided || other.decision == skipped
		if other != it && open && b.State == op.StatePending && a.State == op.StatePending && a.Op == b.Op && a.Op != op.Rotate &&
			a.Params.Equal(b.Params) {
			out = append(out, other)
		}
	}
	return out
}

// pressGroup shows all that are like an item once, and signs each of them after one confirmation.
func (r *review) pressGroup(ctx context.Context, it *item) (moved, quit bool, err error) {
	var items []*item
	for _, like := range r.alike(it) {
		_, err := r.refresh(ctx, like)
		if err == nil {
			err = question.Answered(like.shown.Request)
		}
		if err != nil {
			like.decision, like.marked = skipped, false
			if err := r.failed(like, err); err != nil {
				return true, false, err
			}
			continue
		}
		items = append(items, like)
	}
	if len(items) < 2 {
		r.message += "no other request that waits is like it\n"
		return true, false, nil
	}
	quit, err = r.together(ctx, items, allText(items, r.view(false), wholeText))
	return true, quit, err
}

// allText shows items, each with its headline and a body. What like ones have in common stands once.
func allText(items []*item, v question.View, body func(*item, question.View) string) string {
	bodies := make([][]string, len(items))
	for i, it := range items {
		bodies[i] = slices.Collect(strings.Lines(body(it, v)))
	}
	text, common := "", common(items, bodies)
	if len(common) > 0 {
		text = fmt.Sprintf("the same for each of these %d:\n%s", len(items), strings.Join(common, ""))
	}
	for i, it := range items {
		text += fmt.Sprintf("%s: %s\n", it.label(), it.shown.Headline(v.Dash))
		for _, line := range bodies[i] {
			if !slices.Contains(common, line) {
				text += line
			}
		}
	}
	return text
}

// common returns the lines that all bodies have, in the order of the first one. There are none if the items ask for different
// operations, or if a program printed some of the lines, which belong together.
func common(items []*item, bodies [][]string) []string {
	first := items[0].shown.Payload
	if len(items) < 2 || slices.ContainsFunc(items, func(it *item) bool {
		p := it.shown.Payload
		return p.Op != first.Op || p.Op == op.Run || p.Op == op.Rotate || !p.Params.Equal(first.Params)
	}) {
		return nil
	}
	var out []string
	for _, line := range bodies[0] {
		n := count(bodies[0], line)
		if !slices.ContainsFunc(bodies, func(b []string) bool { return count(b, line) != n }) {
			out = append(out, line)
		}
	}
	return out
}

func count(lines []string, of string) (n int) {
	for _, line := range lines {
		if line == of {
			n++
		}
	}
	return n
}

// wholeText shows an item as its own screen does, below its headline: it was perhaps not on that screen.
func wholeText(it *item, v question.View) string {
	_, rest, _ := strings.Cut(it.shown.Text(v), "\n")
	return rest
}

// bodyText shows an item in short below its headline, from its bytes, and what it would lose.
func bodyText(it *item, v question.View) string {
	p := it.shown.Payload
	text := fmt.Sprintf("  asked by %s\n", cli.Requesters(it.shown.Request.RequestedBy, it.shown.Request.Users, ", "))
	if p.Op == op.Rotate {
		text += question.RotationText(p, it.shown.Request.Facts)
	} else if len(p.Params) > 0 {
		text += fmt.Sprintf("  params: %s\n", cli.Inline(string(p.Params.Canonical())))
	}
	if p.Reason != "" || len(it.shown.Request.Reasons) > 1 {
		text += cli.Reasons("  ", p.Reason, it.shown.Request.Reasons, it.shown.Request.Users)
	}
	text += cli.Rejections("  ", it.shown.Request, false)
	text += it.shown.LostText(v)
	if others := it.shown.OtherFacts(); others != "" {
		text += fmt.Sprintf("  on the screen of the request: %s of other operations\n", others)
	}
	return text
}
