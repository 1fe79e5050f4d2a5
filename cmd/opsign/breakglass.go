package main

import (
	"fmt"
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// alone refuses break-glass where several requests are signed, or a page asks: each is decided on for itself.
func (k keyFlags) alone() error {
	if op.Role(k.role) != op.BreakGlass {
		return nil
	}
	return cli.Usage("--role breakglass is for one request: opsign approve ID --role breakglass --reason TEXT")
}

const wordsBreakGlass = "\nBREAK-GLASS: no operator decides on this. After the last signature the step waits %s, and any operator can stop it.\n" +
	"Every sink of notifications hears of it. The health of the gate is bad until an operator has reviewed what was done.\n"

// breaksGlass says what a signature as breakglass means, before the question and before a key is touched. It refuses one
// without a reason, which the review shows later. With it the holder of a new key only proves that somebody has it, where
// the role does not count.
func (a *approval) breaksGlass(q question.Question, role op.Role) error {
	if role != op.BreakGlass || !slices.Contains(q.Request.Roles, role) {
		return nil
	}
	if a.reason == "" {
		return cli.Usage("--role breakglass needs --reason TEXT: the operators read it when they review what was done")
	}
	return a.show(fmt.Sprintf(wordsBreakGlass, cli.Span(delayOf(q.Request))))
}

// delayOf returns how long a step waits after break-glass.
func delayOf(r api.Request) time.Duration {
	longest := r.CoolOff
	for _, d := range r.Demands {
		if d.Way == op.WayBreakGlass {
			longest = max(longest, d.Delay)
		}
	}
	return time.Duration(longest) * time.Second
}
