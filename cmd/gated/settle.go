package main

import (
	"context"
	"time"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

// quiet is how long nothing may happen to a document's guests while there is
// something left to do and nothing runs, before that is called a failure.
const quiet = 30 * time.Second

// settling watches one document until what it wishes is true, waits for
// signatures, or has failed.
type settling struct {
	cl      *client.Client
	doc     document
	by      string // how the set is called as a requester
	targets map[string]bool
	failed  map[string]api.Error // by target
}

// settle waits for a document that was put after the entry numbered since.
func settle(ctx context.Context, cl *client.Client, d document, since int64, out *applied) error {
	s := settling{cl: cl, doc: d, by: op.Requester{Source: op.SourceDesired, Set: d.set}.String(),
		targets: map[string]bool{}, failed: map[string]api.Error{}}
	for _, g := range d.Guests {
		s.targets[g.Target().String()] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entries, broken := s.follow(ctx, since)
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		done, err := s.look(ctx, out)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case e := <-entries:
			if err := s.note(ctx, e); err != nil {
				return err
			}
			for len(entries) > 0 { // one look is enough for all of them
				if err := s.note(ctx, <-entries); err != nil {
					return err
				}
			}
			silence.Reset(quiet)
		case <-silence.C:
			if err := s.stuck(ctx, out); err != nil {
				return err
			}
			silence.Reset(quiet)
		}
	}
}

// follow sends the entries about the document's guests until ctx ends.
func (s settling) follow(ctx context.Context, since int64) (<-chan api.Entry, <-chan error) {
	entries, broken := make(chan api.Entry, 256), make(chan error, 1)
	go func() {
		broken <- s.cl.Events(ctx, since, true, func(e api.Entry) error {
			if !s.targets[e.Target] {
				return nil
			}
			select {
			case entries <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return entries, broken
}

// note remembers how a job of the set's ended, and forgets it when the same
// guest is asked for again.
func (s settling) note(ctx context.Context, e api.Entry) error {
	if e.Job == "" {
		if e.Code != "" && e.By == s.by {
			s.failed[e.Target] = api.Error{Code: e.Code, Detail: e.Detail}
		}
		return nil
	}
	j, err := s.cl.Job(ctx, e.Job)
	if err != nil {
		return err
	}
	mine := false
	for _, by := range j.RequestedBy {
		mine = mine || by == s.by
	}
	switch {
	case !mine:
	case j.State.Open(), j.State == op.StateSucceeded:
		delete(s.failed, e.Target)
	case j.State != op.StateSuperseded && j.State != op.StateCancelled && j.Error != nil:
		s.failed[e.Target] = *j.Error
	}
	return nil
}

// look compares the document with how things are. It is done when nothing is
// left that gated could do by itself.
func (s settling) look(ctx context.Context, out *applied) (done bool, err error) {
	plan, err := s.cl.Plan(ctx, s.doc.body)
	if err != nil {
		return false, err
	}
	pending, err := s.cl.Requests(ctx, op.StatePending)
	if err != nil {
		return false, err
	}
	request := map[string]string{}
	for _, r := range pending {
		request[r.Target] = r.ID
	}
	out.Plan, out.Waiting, out.Failed = &plan, []string{}, []failedGuest{}
	open := 0
	for _, g := range plan.Guests {
		target := op.Target{Kind: "guest", Name: g.Name}.String()
		failure, failed := s.failed[target]
		switch {
		case g.Action == api.ActionNone:
		case g.Action == api.ActionWaits && request[target] != "":
			out.Waiting = append(out.Waiting, request[target])
		case failed:
			out.Failed = append(out.Failed, failedGuest{target, failure})
		case g.Action == api.ActionError && g.Error != nil:
			out.Failed = append(out.Failed, failedGuest{target, *g.Error})
		default:
			open++
		}
	}
	return open == 0, nil
}

// stuck gives up on guests that nothing is done about, unless the daemon is at
// work.
func (s settling) stuck(ctx context.Context, out *applied) error {
	status, err := s.cl.Status(ctx)
	if err != nil || status.Running > 0 {
		return err
	}
	for _, g := range out.Plan.Guests {
		target := op.Target{Kind: "guest", Name: g.Name}.String()
		if _, known := s.failed[target]; !known && g.Action != api.ActionNone {
			s.failed[target] = api.Error{Code: op.Unavailable, Detail: wordsStuck}
		}
	}
	return nil
}
