package nonce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/nonce"
)

// host is both clocks of a machine, and a daemon that a test can restart.
type host struct {
	t     testing.TB
	store *store.Store
	clock *nonce.Clock
	now   nonce.Reading
}

func newHost(t testing.TB, s *store.Store) *host {
	h := &host{t: t, store: s, now: nonce.Reading{Wall: start, Elapsed: time.Minute, Boot: "first"}}
	s.OnGroup(func(tx *store.Tx) error { return h.clock.Seal(tx) })
	s.OnCommit(func() { h.clock.Sealed() })
	h.boot()
	return h
}

// boot starts the daemon, which knows only what is stored.
func (h *host) boot() {
	require.NoError(h.t, h.store.View(h.t.Context(), func(tx *store.Tx) (err error) {
		h.clock, err = nonce.LoadClock(tx, func() nonce.Reading { return h.now })
		return err
	}))
}

func (h *host) pass(d time.Duration) { h.now.Wall, h.now.Elapsed = h.now.Wall.Add(d), h.now.Elapsed+d }

// step moves the wall clock alone.
func (h *host) step(d time.Duration) { h.now.Wall = h.now.Wall.Add(d) }

// commit is any decision, because its group seals the mark.
func (h *host) commit() error {
	return h.store.Update(h.t.Context(), func(*store.Tx) error { return nil })
}

func (h *host) trusted(t *testing.T) time.Time {
	t.Helper()
	m := h.clock.Now()
	require.True(t, m.Trusted, m.Why)
	require.Empty(t, m.Why)
	return m.Now
}

func (h *host) doubted(t *testing.T) time.Time {
	t.Helper()
	m := h.clock.Now()
	require.False(t, m.Trusted)
	require.NotEmpty(t, m.Why)
	return m.Now
}

func TestClockLimits(t *testing.T) {
	for name, c := range map[string]struct {
		step    time.Duration
		trusted bool
	}{
		"an hour ahead":        {nonce.MaxJump, true},
		"more than that":       {nonce.MaxJump + 1, false},
		"a minute behind":      {-nonce.MaxBehind, true},
		"more than that, back": {-nonce.MaxBehind - 1, false},
		"70 years":             {70 * 365 * 24 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, newStore(t))
			first := h.trusted(t)
			h.step(c.step)
			if c.trusted {
				require.False(t, h.trusted(t).Before(first))
				return
			}
			require.Equal(t, first, h.doubted(t))
			h.step(-c.step)
			require.Equal(t, first, h.trusted(t), "the gate trusts it again once it is right")
		})
	}
}

func TestTimeGoesOnWhileTheClockIsWrong(t *testing.T) {
	for _, wrong := range []time.Duration{70 * 365 * 24 * time.Hour, -70 * 365 * 24 * time.Hour} {
		h := newHost(t, newStore(t))
		first := h.trusted(t)
		h.step(wrong)
		h.pass(time.Hour)
		require.Equal(t, first.Add(time.Hour), h.doubted(t), "by the time since boot")
		h.step(-wrong)
		require.Equal(t, first.Add(time.Hour), h.trusted(t))
	}
}

func TestSuspendIsNoJump(t *testing.T) {
	h := newHost(t, newStore(t))
	first := h.trusted(t)
	h.pass(72 * time.Hour) // the time since boot continues during suspend
	require.Equal(t, first.Add(72*time.Hour), h.trusted(t))
}

func TestClockAtStart(t *testing.T) {
	for name, c := range map[string]struct {
		away    time.Duration
		trusted bool
	}{
		"at once":           {0, true},
		"a minute back":     {-nonce.MaxBehind, true},
		"more":              {-nonce.MaxBehind - time.Second, false},
		"30 days":           {nonce.MaxAway, true},
		"more than 30 days": {nonce.MaxAway + time.Second, false},
		"no battery: 1970":  {time.Unix(0, 0).Sub(start), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, newStore(t))
			first := h.trusted(t)
			require.NoError(t, h.commit())
			h.now = nonce.Reading{Wall: first.Add(c.away), Elapsed: time.Second, Boot: "second"} // the machine was booted again
			h.boot()
			if c.trusted {
				require.False(t, h.trusted(t).Before(first))
				return
			}
			require.Equal(t, first, h.doubted(t))
			h.now.Wall = first.Add(time.Minute)
			require.Equal(t, first.Add(time.Minute), h.trusted(t), "it recovers when the clock is set right")
		})
	}
}

// TestATrustedClockBehindTheGuess: a guess while the gate did not trust its clock
// may be ahead of the next trusted clock.
func TestATrustedClockBehindTheGuess(t *testing.T) {
	h := newHost(t, newStore(t))
	h.trusted(t)
	h.step(50 * 365 * 24 * time.Hour)
	h.pass(3 * time.Hour)
	guess := h.doubted(t)
	h.now.Wall = guess.Add(-50 * time.Minute)
	require.Equal(t, guess, h.trusted(t), "it waits for the wall clock rather than go back")
	h.pass(time.Hour)
	require.Equal(t, guess.Add(10*time.Minute), h.trusted(t))
}

// TestTheMarkIsTheLastTrustedTime: after a crash the gate continues from the mark,
// so old records are deleted by the mark and not by Now.
func TestTheMarkIsTheLastTrustedTime(t *testing.T) {
	h := newHost(t, newStore(t))
	first := h.trusted(t)
	h.step(50 * 365 * 24 * time.Hour)
	h.pass(3 * time.Hour)
	require.Equal(t, nonce.Moment{Now: first.Add(3 * time.Hour), Mark: first, Why: h.clock.Now().Why}, h.clock.Now())
	h.now.Wall = first.Add(2 * time.Hour)
	require.Equal(t, nonce.Moment{Now: first.Add(3 * time.Hour), Mark: first.Add(2 * time.Hour), Trusted: true}, h.clock.Now())
	require.NoError(t, h.commit())
	h.boot()
	require.Equal(t, first.Add(2*time.Hour), h.trusted(t))
}

// TestMarkOfALostGroupIsWrittenByTheNext: one group fails on a full disk. The next
// one, in the same second, may delete nonces.
func TestMarkOfALostGroupIsWrittenByTheNext(t *testing.T) {
	s := newStore(t)
	h := newHost(t, s)
	h.trusted(t)
	require.NoError(t, h.commit())
	lose := false
	s.OnGroup(func(*store.Tx) error {
		if lose {
			return errors.New("the disk is full")
		}
		return nil
	})
	h.pass(24 * time.Hour)
	later := h.trusted(t)
	lose = true
	require.ErrorIs(t, h.commit(), store.ErrUnavailable)
	lose = false
	require.NoError(t, h.commit())
	h.step(-24 * time.Hour) // a crash; then the clock is set back
	h.boot()
	require.Equal(t, later, h.doubted(t))
}

func TestMarkIsSetByHand(t *testing.T) {
	h := newHost(t, newStore(t))
	h.trusted(t)
	require.NoError(t, h.commit())
	h.now.Wall = start.Add(-24 * time.Hour)
	h.boot()
	h.doubted(t)
	require.NoError(t, h.store.Update(t.Context(), func(tx *store.Tx) error { return nonce.SetMark(tx, h.now) }))
	h.boot()
	require.Equal(t, h.now.Wall, h.trusted(t))
}
