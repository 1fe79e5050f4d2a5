package nonce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/nonce"
	"gated/internal/store"
)

// host is both clocks of a machine, and a daemon that may be started again.
type host struct {
	t     testing.TB
	store *store.Store
	clock *nonce.Clock
	now   nonce.Reading
}

func newHost(t testing.TB, s *store.Store) *host {
	h := &host{t: t, store: s, now: nonce.Reading{Wall: start, Elapsed: time.Minute}}
	s.OnGroup(func(tx *store.Tx) error { return h.clock.Seal(tx) })
	s.OnCommit(func() { h.clock.Sealed() })
	h.boot()
	return h
}

// boot is a start of the daemon: it knows no more than what is stored.
func (h *host) boot() {
	require.NoError(h.t, h.store.View(h.t.Context(), func(tx *store.Tx) (err error) {
		h.clock, err = nonce.LoadClock(tx, func() nonce.Reading { return h.now })
		return err
	}))
}

func (h *host) pass(d time.Duration) {
	h.now = nonce.Reading{Wall: h.now.Wall.Add(d), Elapsed: h.now.Elapsed + d}
}
func (h *host) step(d time.Duration) { h.now.Wall = h.now.Wall.Add(d) }

// commit is any decision: its group seals the mark.
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
			require.Equal(t, first, h.trusted(t), "it is believed again once it is right")
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
	h.pass(72 * time.Hour) // the time since boot goes on during suspend
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
			h.now = nonce.Reading{Wall: first.Add(c.away), Elapsed: time.Second} // the machine was started again
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

// TestGuessThenABelievedClockBehindIt: what was shown while the clock was in
// doubt may be ahead of the clock that is believed next.
func TestGuessThenABelievedClockBehindIt(t *testing.T) {
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

// TestMarkOfALostGroupIsWrittenByTheNext: the disk is full for one group, and
// the next one, in the same second, may be the one that prunes.
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
	h.step(-24 * time.Hour) // a crash, and the clock is set back
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

// pruneMargin is the gate's: what expired so long ago is forgotten.
const pruneMargin = time.Hour

// model checks what a clock shows against what was promised before.
type model struct {
	*host
	rt        *rapid.T
	shown     time.Time // the latest time since the daemon's start
	believed  time.Time // the latest that was believed since then
	durable   time.Time // what was believed at the last commit, ever
	forgotten time.Time // nonces of payloads that expired before this are pruned
}

func (m *model) look() nonce.Moment {
	now := m.clock.Now()
	switch {
	case now.Now.Before(m.shown):
		m.rt.Fatalf("the time went back from %s to %s", m.shown, now.Now)
	case now.Now.Before(m.durable):
		m.rt.Fatalf("the time %s is before the durable mark %s", now.Now, m.durable)
	case !m.forgotten.IsZero() && !now.Now.After(m.forgotten.Add(time.Minute)):
		m.rt.Fatalf("at %s a payload that expired at %s would count again", now.Now, m.forgotten)
	}
	m.shown = now.Now
	if now.Trusted {
		m.believed = now.Now
	}
	return now
}

func (m *model) decide() nonce.Moment {
	now := m.look()
	if err := m.commit(); err != nil {
		m.rt.Fatal(err)
	}
	if mark := m.believed.Truncate(time.Second); mark.After(m.durable) {
		m.durable = mark // it is stored in whole seconds
	}
	return now
}

// restart forgets what only the process knew.
func (m *model) restart() {
	m.boot()
	m.shown, m.believed = time.Time{}, time.Time{}
}

// TestClockProperty drives both clocks, decisions and restarts at random.
func TestClockProperty(t *testing.T) {
	s := newStore(t)
	h := newHost(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		if err := s.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(`DELETE FROM time_mark`); return err }); err != nil {
			rt.Fatal(err)
		}
		h.now = nonce.Reading{Wall: start, Elapsed: time.Minute}
		m := &model{host: h, rt: rt}
		m.restart()
		ms := func(lo, hi int64) time.Duration {
			return time.Duration(rapid.Int64Range(lo, hi).Draw(rt, "ms")) * time.Millisecond
		}
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(*rapid.T) { h.pass(ms(0, 7_200_000)) },
			"suspend":     func(*rapid.T) { h.pass(ms(0, 864_000_000)) },
			"ntp":         func(*rapid.T) { h.step(ms(-500, 500)) },
			"jump":        func(*rapid.T) { h.step(ms(-1e12, 1e12)) },
			"set right":   func(*rapid.T) { h.now.Wall = m.look().Now },
			"decide":      func(*rapid.T) { m.decide() },
			"prune": func(*rapid.T) {
				if now := m.decide(); now.Trusted {
					m.forgotten = now.Now.Add(-pruneMargin)
				}
			},
			"a small step is believed": func(*rapid.T) {
				if !m.look().Trusted {
					return
				}
				h.step(ms(0, 1000))
				if now := m.look(); !now.Trusted {
					rt.Fatal(now.Why)
				}
			},
			"a jump is not believed": func(*rapid.T) {
				if !m.look().Trusted {
					return
				}
				by := nonce.MaxJump + time.Millisecond + ms(0, 1e12)
				h.step(by)
				if m.look().Trusted {
					rt.Fatalf("a jump by %s is believed", by)
				}
				h.step(-by)
				if now := m.look(); !now.Trusted {
					rt.Fatalf("the clock is right again: %s", now.Why)
				}
			},
			"restart":         func(*rapid.T) { m.restart() },
			"machine restart": func(*rapid.T) { h.now.Elapsed = ms(0, 60_000); m.restart() },
			"away too long": func(*rapid.T) {
				if m.durable.IsZero() {
					return
				}
				was := h.now.Wall
				m.restart()
				h.now.Wall = m.durable.Add(nonce.MaxAway + time.Second)
				if m.look().Trusted {
					rt.Fatal("more than 30 days away are believed")
				}
				h.now.Wall = was
			},
			"": func(*rapid.T) { m.look() },
		})
	})
}
