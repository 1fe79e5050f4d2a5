package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// OnFailure says what happens to a call that a hook cannot judge.
type OnFailure string

// The values of OnFailure.
const (
	Warn  OnFailure = "warn"  // it goes on, and the user sees a warning
	Block OnFailure = "block" // it is refused
)

// Kind says why a hook could not judge a call.
type Kind string

// The kinds. Only the daemon's own failures count for the circuit. An unreadable or refused call says nothing about the
// next one: otherwise an agent could open the circuit for all by sending five of them.
const (
	KindInput       Kind = "input"       // the call cannot be read
	KindPath        Kind = "path"        // the changed path cannot be found out
	KindUnreachable Kind = "unreachable" // no daemon; counts
	KindTimeout     Kind = "timeout"     // no answer before the deadline; counts
	KindBroken      Kind = "broken"      // the daemon could not decide; counts
	KindRefused     Kind = "refused"     // the daemon refused to say
	KindOpen        Kind = "open"        // not asked: the circuit is open
	KindInternal    Kind = "internal"    // the hook itself
)

// counts reports whether the failure counts for the circuit.
func (k Kind) counts() bool { return k == KindUnreachable || k == KindTimeout || k == KindBroken }

// Failure says why a hook could not judge a call. It is never a conflict.
type Failure struct {
	Kind Kind
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Guard asks the daemon for a hook, within a deadline, and records failures.
type Guard struct {
	Hook      string // pre-tool-use, pre-commit, pre-push
	Check     func(context.Context, api.Check) (api.Checked, error)
	OnFailure OnFailure
	Deadline  time.Duration // for each wait; above 0
	Now       func() time.Time
	Home      Home
}

// Ask asks which reservations a change conflicts with. It returns before or soon after the deadline, whatever the
// daemon does. The error is a *Failure, which was recorded.
func (g Guard) Ask(ctx context.Context, what api.Check) (api.Checked, error) {
	socket := g.Home.socket() // read before the question, so that a socket that is made meanwhile differs
	ask, probe := g.Home.enter(g.Now(), g.Deadline)
	if !ask {
		return api.Checked{}, g.Failed(KindOpen, errOpen)
	}
	answer, err := within(ctx, g.Deadline, func(ctx context.Context) (api.Checked, error) { return g.Check(ctx, what) })
	if err != nil {
		return api.Checked{}, g.failed(kindOf(err), err, socket)
	}
	if probe {
		_ = g.Home.reached() // if that fails, the next hook tries again
	}
	return answer, nil
}

// refuses reports whether a call that could not be judged is refused, and why, for people. If the daemon says that it
// cannot tell, because so much is reserved, the call is always refused. Otherwise an agent could switch hooks off for
// others by reserving enough.
func (g Guard) refuses(err error) (because string, refused bool) {
	switch {
	case errors.Is(err, refusal.TooComplex):
		return wordsTooMuch, true
	case g.OnFailure == Block:
		return wordsBlocked, true
	}
	return "", false
}

// Failed records that a hook could not do its work, and returns that as a *Failure. If it cannot be recorded, the hook
// still goes on.
func (g Guard) Failed(kind Kind, err error) error { return g.failed(kind, err, g.Home.socket()) }

func (g Guard) failed(kind Kind, err error, socket string) error {
	now := g.Now()
	_ = g.Home.note(Record{Time: now.UTC(), Hook: g.Hook, Kind: kind, Then: g.OnFailure, Detail: err.Error()})
	if kind.counts() {
		_ = g.Home.locked(func() error { return g.Home.keep(g.Home.circuit().fail(now, socket)) })
	}
	return &Failure{Kind: kind, Err: err}
}

// kindOf returns the kind of an error of the daemon's client.
func kindOf(err error) Kind {
	var r *refusal.Refusal
	var panicked *panicError
	switch {
	case errors.As(err, &panicked) || errors.Is(err, context.Canceled):
		return KindInternal
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	case !errors.As(err, &r):
		return KindUnreachable
	case r.Code == refusal.Unavailable || r.Code == refusal.Internal || r.Code == refusal.SchemaTooNew:
		return KindBroken
	default:
		return KindRefused
	}
}

// panicError is a fault of this program. A hook that panics would end with exit code 2, which means a refusal.
type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprintf("the hook has a fault: %v", p.value) }

// within calls fn and waits for it no longer than limit, even if fn ignores its context, as a read of standard input
// does.
func within[T any](ctx context.Context, limit time.Duration, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = &panicError{p}
			}
			done <- r
		}()
		r.value, r.err = fn(ctx)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("no answer within %s: %w", limit, ctx.Err())
	}
}

// readAll reads at most limit bytes. More are Oversized.
func readAll(in io.Reader, limit int64, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = refusal.New(refusal.Oversized, "%s has more than %d bytes", what, limit)
	}
	return b, err
}
