package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
)

const (
	// maxEvent is the longest line of an event stream, in bytes.
	maxEvent = 4 << 20
	// resumeTries is how often in a row a broken stream is opened again. The pauses double from resumePause: about half
	// a minute in all.
	resumeTries = 8
	resumePause = 100 * time.Millisecond
)

// Events calls fn with every event after number after, in order and once each, until ctx ends or fn returns an error.
// It returns that error. If follow is false, it returns nil when there are no more for now. If a stream breaks, because
// the daemon restarts, Events continues it at the same place, also over starts that fail. If that fails for half a minute, the error is
// Unreachable, or the refusal of a daemon that cannot start. A client that never connected gets Unreachable at once: if there was no daemon, none is likely to
// return.
func (c *Client) Events(ctx context.Context, after int64, follow bool, fn func(api.Entry) error) error {
	return c.EventsFor(ctx, "", after, follow, fn)
}

// EventsFor is Events with only what concerns one holder, an agent's name or uid:1000; "" means everything.
func (c *Client) EventsFor(ctx context.Context, holder string, after int64, follow bool, fn func(api.Entry) error) error {
	r := resumption{c: c, pause: resumePause}
	for {
		open := false
		last, err := c.stream(ctx, holder, after, follow, func() { open = true; r.opened() }, fn)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !follow:
			return nil
		case err != nil && !c.resumable(err) && (open || !r.restarts(err)):
			return err
		}
		if last > after || err == nil {
			r.begin()
			after = last
		}
		if err := r.again(ctx, err); err != nil {
			return err
		}
	}
}

// resumption counts how often in a row something that lasts was begun again, and says so to the client's owner.
type resumption struct {
	c     *Client
	pause time.Duration
	tries int
	lost  bool
	heard bool // a daemon has answered
}

// begin forgets the tries, because the last one brought something.
func (r *resumption) begin() { r.pause, r.tries = resumePause, 0 }

// opened says that a daemon answers again.
func (r *resumption) opened() {
	if r.lost {
		r.c.back()
	}
	r.lost, r.heard = false, true
}

// restarts reports whether an answer is that of a daemon which stops or cannot start, in the place of one that answered before.
// The next one may start.
func (r *resumption) restarts(err error) bool { return r.heard && errors.Is(err, refusal.Unavailable) }

// again returns after a pause, when it is time for another try. After too many tries it returns err. err is nil if the
// daemon ended the last one.
func (r *resumption) again(ctx context.Context, err error) error {
	if err != nil && !r.lost {
		r.c.lost()
		r.lost = true
	}
	if r.tries++; r.tries > resumeTries {
		return err
	}
	if err := rest(ctx, r.pause); err != nil {
		return err
	}
	r.pause *= 2
	return nil
}

// resumable reports whether an error is a broken connection to a daemon that answered before. The daemon's refusals and
// fn's errors are not.
func (c *Client) resumable(err error) bool {
	var gone *Unreachable
	return errors.As(err, &gone) && c.last.Load() != nil
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// stream reads the events of one connection, after it has called opened. It returns the number of the last event that
// fn took. The error is nil if the daemon ended the stream.
func (c *Client) stream(ctx context.Context, holder string, after int64, follow bool, opened func(), fn func(api.Entry) error) (int64, error) {
	v := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if !follow {
		v.Set("follow", "false")
	}
	if holder != "" {
		v.Set("for", holder)
	}
	in := call{method: http.MethodGet, path: "/v1/events", query: v, header: map[string]string{"Accept": "text/event-stream"}, lasts: true}
	resp, err := c.send(ctx, in)
	if err != nil {
		return after, err
	}
	defer func() { _ = resp.Body.Close() }()
	opened()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		// Each event is one data line: the daemon's JSON has no line breaks.
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		e, err := api.ParseEntry(data)
		if err != nil {
			return after, refusal.New(refusal.Internal, "the daemon's event is not understood: %v", err)
		}
		if e.Seq <= after {
			continue
		}
		if err := fn(e); err != nil {
			return after, err
		}
		after = e.Seq
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return after, refusal.New(refusal.Oversized, "an event has more than %d bytes", maxEvent)
	}
	if err := lines.Err(); err != nil {
		return after, c.broken(ctx, fmt.Errorf("event stream: %w", err))
	}
	return after, ctx.Err()
}

// errDone ends AwaitJob's stream. io.EOF would not do, because a broken connection has it too.
var errDone = errors.New("done")

// AwaitJob returns the job as soon as done accepts it. It reads the job again at each of its events, so it does not
// poll. When ctx ends, it returns the job as last read, with ctx's error.
func (c *Client) AwaitJob(ctx context.Context, id string, done func(api.Job) bool) (api.Job, error) {
	head, err := c.AuditHead(ctx)
	if err != nil {
		return api.Job{}, err
	}
	job, err := c.Job(ctx, id)
	if err != nil || done(job) {
		return job, err
	}
	err = c.Events(ctx, head.Seq, true, func(e api.Entry) error {
		if e.Job != id {
			return nil
		}
		now, err := c.Job(ctx, id)
		if err != nil {
			return err
		}
		if job = now; done(job) {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) {
		err = nil
	}
	return job, err
}
