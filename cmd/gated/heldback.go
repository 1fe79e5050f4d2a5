package main

import (
	"context"
	"time"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

// heldLook is how often a job that is waited for is asked why it does not go on:
// no event tells of a step that could not begin.
const heldLook = 2 * time.Second

// sayHeld says, once each time that it changes, why a step of a job is held back,
// until the function that it returns is called.
func (t *tool) sayHeld(ctx context.Context, cl *client.Client, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heldLook)
		defer tick.Stop()
		said := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if j, err := cl.Job(ctx, id); err == nil {
				said = t.sayHeldOf(j, said)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// sayHeldOf says why the first step that is held back is, unless that is what was
// said, and returns the reason; what was said if nothing is held back.
func (t *tool) sayHeldOf(j api.Job, said string) string {
	for _, s := range j.Steps {
		if s.RetryAt == nil || s.Error == nil {
			continue
		}
		if s.Error.Detail != said {
			t.Say(wordsStepHeld, op.Shown(s.ID), op.Shown(s.Op), op.Shown(s.Target), op.Shown(s.Error.Detail))
		}
		return s.Error.Detail
	}
	return said
}
