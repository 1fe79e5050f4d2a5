// Package lease says when a daemon may act for a gate whose ledger several daemons know. A ledger fences what an earlier
// daemon decides. It does not reach the machine on which a step runs, and for that there is the lease.
//
// Times are readings of CLOCK_BOOTTIME, which goes on while a machine sleeps and which nobody sets.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/ledger"
)

// Lease is the engine of an active daemon, and knows until when the daemon may act. Each append, beat and era that the
// ledger acknowledged renews it, from the moment when it was sent.
type Lease struct {
	ledger.Engine
	length time.Duration
	clock  func() time.Duration

	mu    sync.Mutex
	taken ledger.Position // the era that this daemon began
	begun bool
	sent  time.Duration // of the newest call that was acknowledged
	lost  chan struct{} // closed if another daemon took over
}

// New returns a lease that is not held. Length is what a standby waits. Clock reads the time since boot.
func New(e ledger.Engine, length time.Duration, clock func() time.Duration) *Lease {
	return &Lease{Engine: e, length: length, clock: clock, lost: make(chan struct{})}
}

// Effects is how long after a call that was acknowledged an effect may start: two thirds of the lease. The last third is
// for the effect to arrive, and for clocks that differ in speed.
func Effects(length time.Duration) time.Duration { return length * 2 / 3 }

// Take begins an era, and the lease with it.
func (l *Lease) Take(ctx context.Context, from uint64) (ledger.Position, error) {
	sent := l.clock()
	p, err := l.Engine.Take(ctx, from)
	if err == nil {
		l.mu.Lock()
		l.taken, l.begun, l.sent = p, true, sent
		l.mu.Unlock()
	}
	return p, err
}

// Append renews the lease with a group that was kept.
func (l *Lease) Append(g ledger.Group) error {
	sent := l.clock()
	return l.heard(sent, l.Engine.Append(g))
}

// Settle ends the lease if the ledger has a later era. It does not renew it, because the group was sent long before.
func (l *Lease) Settle(era, number uint64) (bool, error) {
	kept, err := l.Engine.Settle(era, number)
	if errors.Is(err, ledger.ErrFenced) {
		l.end()
	}
	return kept, err
}

// heard takes the answer to a call into account.
func (l *Lease) heard(sent time.Duration, err error) error {
	switch {
	case err == nil:
		l.mu.Lock()
		l.sent = max(l.sent, sent)
		l.mu.Unlock()
	case errors.Is(err, ledger.ErrFenced):
		l.end()
	}
	return err
}

// end ends the lease for good.
func (l *Lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = false
	select {
	case <-l.lost:
	default:
		close(l.lost)
	}
}

// Era returns the era that this daemon began, 0 before that.
func (l *Lease) Era() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken.Era
}

// Taken returns how far the ledger was when this daemon began its era.
func (l *Lease) Taken() ledger.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// Held returns nil if an effect may start now, and Unavailable with the reason if not.
func (l *Lease) Held() error {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch age := now - l.sent; {
	case !l.begun:
		return refusal.New(refusal.Unavailable, "this member is not the active one")
	case age >= Effects(l.length):
		return refusal.New(refusal.Unavailable, "the ledger has not answered for %s, so another member may have taken over", age.Round(time.Second)).
			WithHint("it goes on when the ledger answers; gated member ledger status says how it is")
	}
	return nil
}

// Run beats until ctx ends, so that the lease is renewed without decisions. It returns an error if another daemon took
// over. A ledger that is away is asked again.
func (l *Lease) Run(ctx context.Context) error {
	tick := time.NewTicker(l.length / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.lost:
			return fmt.Errorf("this member is not the active one any more: %w", ledger.ErrFenced)
		case <-tick.C:
			sent := l.clock()
			_ = l.heard(sent, l.Beat(l.Era())) // what failed, Held says after a while
		}
	}
}

// Wait beats for as long as the lease of the member before is, or until ctx ends. After that a member from before the era
// starts no effect, even if it has not heard of the era yet. It returns an error if another daemon took over.
func (l *Lease) Wait(ctx context.Context, before time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, before)
	defer cancel()
	return l.Run(ctx)
}
