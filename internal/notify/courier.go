package notify

import (
	"context"
	"errors"
	"time"

	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
)

// The pauses between tries, before the part that is random: they double from firstPause on.
const (
	firstPause = 2 * time.Second
	// maxPause is the longest between two tries of one message.
	maxPause = 10 * time.Minute
	// maxSinkPause is the longest between two tries of any messages of one sink that cannot be reached.
	maxSinkPause = 2 * time.Minute
	// maxRefused is how many answers that another try will not change make a dead letter.
	maxRefused = 3
)

// deliver sends the messages of one sink until ctx ends. Each sink has a goroutine of its own, so a slow one delays
// neither others nor the reading of events.
func (n *Notifier) deliver(ctx context.Context, name string) {
	for ctx.Err() == nil {
		next, err := n.Try(ctx, name)
		if err != nil {
			n.note("the outbox", err)
			next = n.now().Add(firstPause)
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, next.Sub(n.now()))
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-n.wake[name]:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Try sends the first message of a sink if it is due. It returns when the next try is due; the zero time if nothing
// waits. Its error is the outbox's.
func (n *Notifier) Try(ctx context.Context, name string) (next time.Time, err error) {
	s, due, ok, err := n.box.Next(ctx, name)
	if err != nil || !ok {
		return time.Time{}, err
	}
	n.mu.Lock()
	if p := n.paused[name]; p.After(due) {
		due = p
	}
	n.mu.Unlock()
	now := n.now()
	if due.After(now) {
		return due, nil
	}
	_, err = n.sinks[name].Send(ctx, s.Message, now)
	if ctx.Err() != nil && err != nil {
		return time.Time{}, nil // this process ends: the try does not count
	}
	if err == nil {
		return n.now(), n.delivered(ctx, name, s)
	}
	f := &sink.Failure{Why: err.Error()}
	errors.As(err, &f)
	return n.failed(ctx, name, s, f)
}

func (n *Notifier) delivered(ctx context.Context, name string, s outbox.Stored) error {
	n.mu.Lock()
	n.failing[name] = 0
	delete(n.paused, name)
	n.mu.Unlock()
	// The sink has it: what follows is written also if this process is to end.
	ctx = context.WithoutCancel(ctx)
	if err := n.box.Delivered(ctx, s, name, n.now()); err != nil {
		return err
	}
	n.log.Info("delivered", "sink", name, "message", s.Message.ID, "kind", string(s.Message.Kind), "tries", s.Tries+1)
	return n.lower(ctx, deadOf+name, "the sink "+name+" takes messages again")
}

// failed decides what follows a try that failed: another one later, or none.
func (n *Notifier) failed(ctx context.Context, name string, s outbox.Stored, f *sink.Failure) (time.Time, error) {
	now := n.now()
	pause := max(n.pause(s.Tries, maxPause), f.After)
	of := n.is.Find(name)
	n.log.Warn("not delivered", "sink", name, "message", s.Message.ID, "try", s.Tries+1, "why", f.Why)
	if f.Refused && s.Refused+1 >= maxRefused || now.Sub(s.Since)+pause > of.GiveUp {
		return n.now(), n.giveUp(ctx, name, s, f.Why)
	}
	n.mu.Lock()
	rests := now
	if !f.Refused {
		rests = now.Add(max(n.pause(n.failing[name], maxSinkPause), f.After))
		n.paused[name] = rests
		n.failing[name]++
	}
	n.mu.Unlock()
	if err := n.box.Failed(ctx, s, name, now.Add(pause), rests, f.Refused, f.Why); err != nil {
		return time.Time{}, err
	}
	return n.now(), nil
}

func (n *Notifier) giveUp(ctx context.Context, name string, s outbox.Stored, why string) error {
	if err := n.box.GiveUp(ctx, s, n.now(), why); err != nil {
		return err
	}
	n.log.Error("a dead letter", "sink", name, "message", s.Message.ID, "why", why)
	return n.raise(ctx, alarm{deadOf + name, "the sink " + name + " does not take messages",
		"a message was given up: " + why + ". See gated notify status; gated notify replay sends it again"}, name)
}

// pause is the time before a further try, after so many tries: doubled each time, at most longest, and a quarter less or
// more, so that many gates do not call one receiver at the same moments.
func (n *Notifier) pause(tries int, longest time.Duration) time.Duration {
	d := longest
	if tries < 20 {
		d = min(longest, firstPause<<tries)
	}
	return time.Duration(float64(d) * (0.75 + n.rand()/2))
}

// TestMessage is a message that says that it is a test.
func TestMessage(s settings.Sink, host string, now func() time.Time) message.Message {
	at := now()
	return message.Message{ID: "test:" + at.UTC().Format("20060102T150405.000000000"), Thread: "test", Kind: message.Test, Host: host, At: at,
		Title: host + ": a test message of gated notify for the sink " + s.Name, Detail: "Nothing waits because of it."}.Bounded()
}
