package reserve

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// What has lapsed counts for nothing, whether or not anybody swept.
func TestWhatHasLapsedIsGoneAtOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	c := claim(a, "x")
	c.TTL = MinTTL
	g := w.reserve(c)
	w.pass(MinTTL - 1)
	w.refused(claim(b, "x"), refusal.Conflict)
	w.pass(1)
	require.Empty(t, w.all())
	require.Empty(t, w.view("s1").Reservations)
	conflicts, _, err := w.Check(t.Context(), b, repo, []string{"x"}, Exclusive)
	require.NoError(t, err)
	require.Empty(t, conflicts)
	_, err = w.Renew(t.Context(), a, g.ID, 0)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	require.False(t, w.reserve(claim(b, "x")).Renewed)
	lapsed := w.entries(audit.Lapsed)
	require.Len(t, lapsed, 1)
	require.Equal(t, "gate", lapsed[0].By)
	require.Equal(t, []string{"a"}, lapsed[0].For)
}

// After a crash the reservations are there, and what lapsed meanwhile is swept
// before anybody is answered.
func TestReservationsOutliveTheDaemon(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	long := claim(a, "long")
	long.TTL = time.Hour
	kept := w.reserve(long)
	for i := range 3 * Batch {
		c := claim(w.register(fmt.Sprintf("b%d", i), 1), fmt.Sprintf("f%d", i))
		c.TTL = MinTTL
		w.reserve(c)
	}
	w.close()
	w.pass(time.Minute)
	w.open(w.clock)
	require.NoError(t, w.Sweep(t.Context()))
	require.Equal(t, []Reservation{kept.Reservation}, w.all())
	require.Len(t, w.entries(audit.Lapsed), 3*Batch)
	require.Equal(t, 1, w.rows())
	require.Greater(t, w.reserve(claim(a, "new")).ID, op.ReservationID(3*Batch), "no id is used again")
	w.sound()
}

func (w *world) rows() (n int) {
	require.NoError(w.t, w.cfg.Store.View(w.t.Context(), func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM reservation_patterns`).Scan(&n)
	}))
	return n
}

func (w *world) runs(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
	}
}

func TestRunAnnouncesOnceForEachEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		stop := w.runs(t)
		defer stop()
		began := time.Now()
		a := w.register("a", 1)
		c := claim(a, "x")
		c.TTL = 20 * time.Second
		g := w.reserve(c)
		<-time.After(15*time.Second - 1)
		synctest.Wait()
		require.Empty(t, w.entries(audit.Lapsing))
		<-time.After(time.Second)
		synctest.Wait()
		require.Len(t, w.entries(audit.Lapsing), 1, "a quarter is left")
		_, err := w.Renew(t.Context(), a, g.ID, time.Hour)
		require.NoError(t, err)
		<-time.After(59 * time.Minute)
		synctest.Wait()
		lapsing := w.entries(audit.Lapsing)
		require.Len(t, lapsing, 2, "a minute is left")
		require.Equal(t, 59*time.Minute+16*time.Second-1, lapsing[1].Time.Sub(began))
		require.Equal(t, []string{"a"}, lapsing[1].For)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Len(t, w.entries(audit.Lapsing), 2)
		lapsed := w.entries(audit.Lapsed)
		require.Len(t, lapsed, 1)
		require.Equal(t, time.Hour+16*time.Second-1, lapsed[0].Time.Sub(began), "at its time")
		require.Equal(t, 0, w.rows())
	})
}

// A failure is tried again, not at once and not never.
func TestRunTriesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var attempts []time.Time
		appends := w.cfg.Append
		w.cfg.Append = func(tx *store.Tx, e ...audit.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			if e[0].Kind == audit.Lapsing {
				if n := len(attempts); n == 0 || attempts[n-1] != time.Now() { // else the store runs it again
					attempts = append(attempts, time.Now())
				}
				if len(attempts) < 12 {
					return fmt.Errorf("no")
				}
			}
			return appends(tx, e...)
		}
		c := claim(w.register("a", 1), "x")
		c.TTL = time.Hour
		w.reserve(c)
		stop := w.runs(t)
		<-time.After(time.Hour - time.Nanosecond)
		synctest.Wait()
		stop()
		require.Len(t, attempts, 12)
		require.Equal(t, firstPause, attempts[1].Sub(attempts[0]))
		require.Equal(t, 2*firstPause, attempts[2].Sub(attempts[1]))
		require.Equal(t, lastPause, attempts[11].Sub(attempts[10]))
		require.Len(t, w.entries(audit.Lapsing), 1)
	})
}

func TestTheEndOfARegistration(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	w.reserve(claim(a, "x"))
	kept := claim(a, "kept")
	kept.Keep = true
	w.reserve(kept)
	short := claim(a, "short")
	short.TTL = MinTTL
	w.reserve(short)
	bare := op.Requester{Source: op.SourceAPI, UID: 1}
	w.reserve(claim(bare, "bare"))
	w.reserve(claim(b, "b"))
	w.pass(MinTTL)

	later := w.register("a", 1) // the next process of the name
	w.ends(a)
	var left []string
	for _, r := range w.all() {
		left = append(left, r.Patterns[0])
	}
	require.Equal(t, []string{"kept", "bare", "b"}, left)
	require.Len(t, w.entries(audit.Orphaned), 1)
	require.Len(t, w.entries(audit.Lapsed), 1)
	// What was kept belongs to the name, and may be bound to its next process.
	g := w.reserve(claim(later, "kept"))
	require.True(t, g.Renewed)
	require.False(t, g.Keep)
	w.ends(later)
	require.Len(t, w.all(), 2)

	// Of a bare uid no process is known.
	after, err := func() (after func(), err error) {
		err = w.cfg.Store.Update(t.Context(), func(tx *store.Tx) (err error) {
			after, err = w.EndOf(tx, Holder{UID: 1})
			return err
		})
		return after, err
	}()
	require.NoError(t, err)
	after()
	require.Len(t, w.all(), 2)
	w.sound()
}

// One transaction ends only so much of what is due; the rest counts for nothing
// all the same.
func TestWhatIsDueAndWaitsForItsTurn(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	w.others(repo, 3*Batch, func(i int) string { return fmt.Sprintf("other%d", i) })
	c := claim(a, "x")
	c.TTL = MaxTTL
	g := w.reserve(c)
	w.pass(MaxTTL)
	_, err := w.Renew(t.Context(), a, g.ID, 0)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	_, err = w.Transfer(t.Context(), a, g.ID, "b")
	require.ErrorIs(t, err, refusal.UnknownTarget)
	require.Greater(t, w.rows(), 1)
	require.Empty(t, w.all())
	w.sound()
	require.False(t, w.reserve(claim(b, "x")).Renewed)
	require.Len(t, w.all(), 1)
	require.NoError(t, w.Sweep(t.Context()))
	require.Equal(t, 1, w.rows())
	require.Len(t, w.entries(audit.Lapsed), 3*Batch+1)
}
