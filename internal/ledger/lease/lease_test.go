package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/ledger"
	"gated/internal/ledger/lease"
	"gated/internal/ledger/memory"
)

const length = 15 * time.Second

// bootTime is a clock that a test moves.
type bootTime struct{ at time.Duration }

func (b *bootTime) now() time.Duration { return b.at }

func TestTheLeaseEndsTenSecondsAfterTheLastAnswer(t *testing.T) {
	clock := &bootTime{at: time.Hour}
	member := memory.New().Member()
	l := lease.New(member, length, clock.now)
	require.ErrorIs(t, l.Held(), refusal.Unavailable, "before an era")
	_, err := l.Take(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, l.Held())
	clock.at += 10*time.Second - 1
	require.NoError(t, l.Held())
	clock.at++
	require.ErrorIs(t, l.Held(), refusal.Unavailable)
	require.NoError(t, l.Append(ledger.Group{Number: 1, Era: 1}))
	require.NoError(t, l.Held(), "an append renews it")
}

func TestTheLeaseCountsFromTheSendingOfWhatWasAcknowledged(t *testing.T) {
	clock := &bootTime{}
	slow := &slowEngine{Engine: memory.New().Member(), clock: clock}
	l := lease.New(slow, length, clock.now)
	_, err := l.Take(t.Context(), 0)
	require.NoError(t, err)
	slow.by = 11 * time.Second
	require.NoError(t, l.Append(ledger.Group{Number: 1, Era: 1}))
	require.ErrorIs(t, l.Held(), refusal.Unavailable, "the answer took longer than the lease allows")
}

// slowEngine lets time pass within an append.
type slowEngine struct {
	ledger.Engine
	clock *bootTime
	by    time.Duration
}

func (s *slowEngine) Append(g ledger.Group) error {
	err := s.Engine.Append(g)
	s.clock.at += s.by
	return err
}

func TestALeaseThatWasTakenEndsForGood(t *testing.T) {
	clock, of := &bootTime{}, memory.New()
	l := lease.New(of.Member(), length, clock.now)
	_, err := l.Take(t.Context(), 0)
	require.NoError(t, err)
	_, err = of.Member().Take(t.Context(), 1)
	require.NoError(t, err)
	require.ErrorIs(t, l.Append(ledger.Group{Number: 1, Era: 1}), ledger.ErrFenced)
	require.ErrorIs(t, l.Held(), refusal.Unavailable)
	require.ErrorIs(t, l.Run(context.Background()), ledger.ErrFenced)
}

// However two members beat, append, stand still and look, no effect of the old one may start after the other took over.
func TestNoEffectAfterATakeover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock, of := &bootTime{}, memory.New()
		old := lease.New(of.Member(), length, clock.now)
		if _, err := old.Take(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		standby, watch := of.Member(), lease.Watch{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock.at += time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				_ = old.Append(ledger.Group{Number: uint64(len(of.Groups()) + 1), Era: 1})
			case 1, 2, 3:
				asked := clock.at
				p, err := standby.Position(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				clock.at += time.Duration(rapid.IntRange(0, 2000).Draw(t, "answer")) * time.Millisecond
				if watch.Look(p, asked, clock.at) >= length && old.Held() == nil {
					t.Fatal("both members may act")
				}
			}
		}
	})
}
