package nonce_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/nonce"
)

const day = 24 * time.Hour

// trustedHost is a host whose clock was trusted, with the mark on disk.
func trustedHost(t *testing.T) (*host, time.Time) {
	h := newHost(t, newStore(t))
	first := h.trusted(t)
	require.NoError(t, h.commit())
	return h, first
}

func TestAJumpShowsAfterARestart(t *testing.T) {
	for name, by := range map[string]time.Duration{
		"70 years":          70 * 365 * day,
		"29 days":           29 * day,
		"more than an hour": nonce.MaxJump + time.Nanosecond,
		"back by 70 years":  -70 * 365 * day,
		"back by two hours": -2 * time.Hour,
	} {
		for when, jumpFirst := range map[string]bool{"seen by the daemon": true, "while it did not run": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				h, first := trustedHost(t)
				if jumpFirst {
					h.step(by)
					h.doubted(t)
					require.NoError(t, h.commit())
					h.boot()
				} else {
					h.step(by)
					h.boot()
				}
				require.Equal(t, first, h.doubted(t))
				h.pass(5 * time.Hour)
				require.Equal(t, first.Add(5*time.Hour), h.doubted(t), "by the time since boot")
				h.step(-by)
				require.Equal(t, first.Add(5*time.Hour), h.trusted(t), "no operator has to accept it")
			})
		}
	}
}

func TestARestartBelievesWhatARunningDaemonWould(t *testing.T) {
	for name, by := range map[string]time.Duration{"an hour ahead": nonce.MaxJump, "a minute back": -nonce.MaxBehind, "none": 0} {
		t.Run(name, func(t *testing.T) {
			h, first := trustedHost(t)
			h.step(by)
			h.boot()
			require.False(t, h.trusted(t).Before(first))
		})
	}
}

func TestALongStopOfTheDaemonIsNoJump(t *testing.T) {
	h, first := trustedHost(t)
	h.pass(90 * day) // the machine ran or slept
	h.boot()
	require.Equal(t, first.Add(90*day), h.trusted(t))
}

func TestWholeSecondsOfTheMarkAreNoJump(t *testing.T) {
	h := newHost(t, newStore(t))
	h.step(999 * time.Millisecond)
	h.trusted(t)
	require.NoError(t, h.commit())
	h.boot()
	h.step(nonce.MaxJump)
	h.trusted(t)
	h.boot()
	h.step(time.Nanosecond)
	h.doubted(t)
}

// TestABootForgetsTheTimeSinceBoot: after a boot only the 30 days can show a jump.
func TestABootForgetsTheTimeSinceBoot(t *testing.T) {
	for name, c := range map[string]struct {
		boot    string
		elapsed time.Duration
	}{
		"another boot":                        {"second", time.Hour},
		"a boot without an id":                {"", time.Hour},
		"a snapshot with its memory, same id": {"first", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			h, first := trustedHost(t)
			h.now = nonce.Reading{Wall: first.Add(29 * day), Elapsed: c.elapsed, Boot: c.boot}
			h.boot()
			require.Equal(t, first.Add(29*day), h.trusted(t))
			h.step(2 * day)
			h.doubted(t)
			require.NoError(t, h.commit())
			h.boot()
			if c.boot == "" {
				return // two starts without a boot id always count as two boots
			}
			h.step(-2 * day)
			h.trusted(t)
			require.NoError(t, h.commit())
			h.boot()
			h.step(2 * day)
			h.doubted(t)
		})
	}
}

// A machine may boot within the second of the mark, or with a clock a little behind
// it. After a restart, the gate still notices a jump in that boot.
func TestAJumpAfterABootBehindTheMark(t *testing.T) {
	for _, behind := range []time.Duration{0, time.Second, nonce.MaxBehind} {
		for name, boot := range map[string]nonce.Reading{
			"another boot":                        {Boot: "second", Elapsed: time.Hour},
			"a snapshot with its memory, same id": {Boot: "first", Elapsed: time.Second},
		} {
			h, first := trustedHost(t)
			boot.Wall = first.Add(-behind)
			h.now = boot
			h.boot()
			h.trusted(t)
			require.NoError(t, h.commit())
			h.boot()
			h.trusted(t)
			h.step(40 * time.Hour)
			h.boot()
			require.Equal(t, first, h.doubted(t), "%s, %s behind", name, behind)
		}
	}
}

func TestStepsOfADayCountTogether(t *testing.T) {
	h, first := trustedHost(t)
	h.step(40 * time.Minute)
	h.trusted(t)
	h.pass(23 * time.Hour)
	h.step(21 * time.Minute)
	require.Equal(t, first.Add(23*time.Hour+40*time.Minute), h.doubted(t))
	h.step(-time.Minute)
	h.trusted(t)

	h.pass(time.Hour) // a day has passed
	h.trusted(t)
	h.step(40 * time.Minute)
	h.trusted(t)
}

func TestATimeSinceBootThatCannotBeRead(t *testing.T) {
	h, first := trustedHost(t)
	h.now.Elapsed, h.now.Blind = 0, true
	require.Equal(t, first, h.doubted(t))
	h.boot()
	require.Equal(t, first, h.doubted(t))
	h.now = nonce.Reading{Wall: first.Add(time.Minute), Elapsed: 2 * time.Minute, Boot: "first"}
	require.Equal(t, first.Add(time.Minute), h.trusted(t))

	blind := newHost(t, newStore(t))
	blind.now.Blind = true
	require.NoError(t, blind.store.Update(t.Context(), func(tx *store.Tx) error { return nonce.SetMark(tx, blind.now) }))
	require.NoError(t, blind.store.View(t.Context(), func(tx *store.Tx) error {
		mark, ok, err := nonce.ReadMark(tx)
		require.True(t, ok)
		require.Empty(t, mark.Boot, "no start goes on from it")
		return err
	}))
}

// TestLeapSeconds: leap seconds are steps of a second, or are spread. Summer time
// moves neither clock.
func TestLeapSeconds(t *testing.T) {
	h, first := trustedHost(t)
	h.step(-time.Second)
	require.Equal(t, first, h.trusted(t), "it waits for the second to be over")
	h.pass(2 * time.Second)
	require.Equal(t, first.Add(time.Second), h.trusted(t))
	for range 24 {
		h.pass(time.Hour)
		h.step(-time.Second / 24)
		h.trusted(t)
	}
}

func TestSystemReadsBothClocks(t *testing.T) {
	a, b := nonce.System(), nonce.System()
	require.False(t, a.Blind)
	require.NotEmpty(t, a.Boot)
	require.Equal(t, a.Boot, b.Boot)
	require.Positive(t, a.Elapsed)
	require.GreaterOrEqual(t, b.Elapsed, a.Elapsed)
}

// TestTimeThatPassesAfterABoot: a clock may be read late. What counts is how far
// ahead it was at the start.
func TestTimeThatPassesAfterABoot(t *testing.T) {
	for ahead, trusted := range map[time.Duration]bool{-time.Second: true, 0: true, time.Second: false} {
		h, first := trustedHost(t)
		h.now = nonce.Reading{Wall: first.Add(nonce.MaxAway + ahead), Elapsed: time.Minute, Boot: "second"}
		h.boot()
		h.pass(2 * day)
		if !trusted {
			require.Equal(t, first, h.doubted(t))
			continue
		}
		require.Equal(t, first.Add(nonce.MaxAway+ahead+2*day), h.trusted(t))
	}
}
