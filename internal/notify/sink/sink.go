// Package sink sends one message to one receiver, once. It says whether another try can help. Neither its errors nor its
// answers have a secret in them.
package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	"gated/internal/notify/message"
	"gated/internal/notify/settings"
)

// Sink sends messages to one receiver. Send returns the receiver's answer, cleaned and cut. Its error is a *Failure. Send
// ends with ctx.
type Sink interface {
	Send(ctx context.Context, m message.Message, now time.Time) (answer string, err error)
}

// Failure says why a message was not taken.
type Failure struct {
	Why     string        // one line, without secrets
	Refused bool          // the receiver would refuse the same message again
	After   time.Duration // the receiver asks to wait so long; 0: it does not say
}

func (f *Failure) Error() string { return f.Why }

// minSecret is the least bytes of a secret that is taken out of a text. A shorter one is part of many words.
const minSecret = 4

// maxWhy is the most runes of a failure's reason, and of an answer.
const maxWhy = 300

// Open returns the sink of its settings.
func Open(s settings.Sink) (Sink, error) {
	var inner Sink
	var err error
	switch {
	case s.Webhook != nil:
		inner, err = newWebhook(*s.Webhook)
	case s.Ntfy != nil:
		inner, err = newNtfy(*s.Ntfy)
	case s.SMTP != nil:
		inner, err = newMail(*s.SMTP)
	case s.Exec != nil:
		inner = program{argv: s.Exec.Argv}
	default:
		err = errors.New("the sink has no receiver")
	}
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.Name, err)
	}
	return guarded{inner, s.Timeout, s.Secrets()}, nil
}

// guarded bounds a try in time, and takes secrets out of what is said about it.
type guarded struct {
	Sink
	timeout time.Duration
	secrets []string
}

func (g guarded) Send(ctx context.Context, m message.Message, now time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	answer, err := g.Sink.Send(ctx, m, now)
	if err == nil {
		return g.said(answer), nil
	}
	f := &Failure{}
	if !errors.As(err, &f) {
		f = &Failure{Why: plain(err)}
	}
	if ctx.Err() != nil && !f.Refused {
		f = &Failure{Why: fmt.Sprintf("no answer within %s: %s", g.timeout, f.Why)}
	}
	return "", &Failure{Why: g.said(f.Why), Refused: f.Refused, After: f.After}
}

// said returns text of a receiver as it may be logged. Secrets are taken out of the clean text, because cleaning could
// join the parts of one, and before the text is cut, because the cut could leave a part of one.
func (g guarded) said(s string) string {
	return message.Clean(g.without(message.Clean(g.without(s), math.MaxInt)), maxWhy)
}

// without returns a text without the secrets.
func (g guarded) without(s string) string {
	for _, secret := range g.secrets {
		if len(secret) >= minSecret {
			s = strings.ReplaceAll(s, secret, "(secret)")
		}
	}
	return s
}

// plain returns an error without the address that was called, because the address may be a secret.
func plain(err error) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the name of the host is not known: " + dns.Err
	}
	return err.Error()
}
