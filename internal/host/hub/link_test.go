package hub_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/reconcile"
)

func TestAHubsWishesBecomeTrueAndAreReported(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[{name: a, state: running}, {name: b, state: stopped}]")
	w.round()
	w.eventually(func() bool { return w.has("a") && w.has("b") }, "they are made")
	w.eventually(func() bool { w.round(); return w.place.last(t).Sets[0].Converged == 2 }, "it is reported")
	r := w.place.last(t)
	require.Equal(t, "r1", r.Revision)
	require.Equal(t, testHost, r.Host)
	require.Equal(t, w.gate.ID(), r.Gate)
	require.Empty(t, r.Guests)
	require.Nil(t, r.Error)

	// What destroys waits, and the hub is told since when.
	w.place.wish("r2", "[{name: a, state: absent}, {name: b, state: stopped}]")
	w.round()
	w.eventually(func() bool { return len(w.pending()) == 1 }, "it waits")
	w.round()
	r = w.place.last(t)
	require.Equal(t, "r2", r.Revision)
	require.Equal(t, 1, r.Sets[0].Waiting)
	require.Equal(t, "a", r.Guests[0].Name)
	require.Equal(t, reconcile.WishWaiting, r.Guests[0].State)
	require.Equal(t, w.pending()[0].ID.String(), r.Guests[0].Request)
	require.NotNil(t, r.Guests[0].Since)
	require.True(t, w.has("a"))
	require.Equal(t, "r2", w.link.Status().Revision)
}

// TestAWeekWithoutAHub: nothing is lost, nothing is destroyed, nothing is
// withdrawn, also after a restart.
func TestAWeekWithoutAHub(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[{name: a, state: absent}, {name: b, state: stopped}]")
	w.guests.Put("a", op.Params{})
	w.round()
	w.eventually(func() bool { return len(w.pending()) == 1 && w.has("b") }, "a waits, b is made")
	id := w.pending()[0].ID
	away := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
	w.place.on(hub.PathDesired, away)
	w.place.on(hub.PathOperations, away)
	w.place.on(hub.PathReport, away)
	polls := w.place.count(hub.PathDesired)
	posts := w.place.count(hub.PathReport)
	for i := range 7 * 12 {
		w.pass(2 * time.Hour)
		w.round()
		if i == 40 {
			w.restart() // with the hub away
		}
	}
	asked := w.place.count(hub.PathDesired) - polls
	require.GreaterOrEqual(t, asked, 7*12, "it is asked each time")
	require.LessOrEqual(t, asked, 7*12+1, "and perhaps once by the read at the start, if that comes first")
	require.Equal(t, 7*12, w.place.count(hub.PathReport)-posts, "two hours are longer than the longest back-off")
	require.Equal(t, []op.RequestID{id}, []op.RequestID{w.pending()[0].ID}, "what waits goes on waiting")
	require.True(t, w.has("a"))
	require.True(t, w.has("b"))
	s := w.link.Status()
	require.ErrorIs(t, s.Err, refusal.Unavailable)
	require.ErrorIs(t, s.RelayErr, refusal.Unavailable)
	require.ErrorIs(t, s.ReportErr, refusal.Unavailable)
	w.eventually(func() bool { return w.r.Status().Sources[0].Error != "" }, "status says so")

	// It comes back, and everything goes on.
	w.place.wish("r1", "[{name: a, state: absent}, {name: b, state: running}]")
	w.place.relay()
	w.place.on(hub.PathReport, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) })
	w.pass(time.Hour)
	w.round()
	w.eventually(func() bool {
		o, err := w.guests.Observe(w.ctx, op.At(guest("b")))
		return err == nil && o.Running == "running" && len(w.pending()) == 1
	}, "wishes act again")
	require.NoError(t, w.link.Status().Err)
	require.NoError(t, w.link.Status().ReportErr)
}

// TestAReadAtTheStart: what was withdrawn while the daemon was down is known
// before anything runs.
func TestAReadAtTheStart(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[{name: a, state: absent}]")
	w.guests.Put("a", op.Params{})
	w.round()
	w.eventually(func() bool { return len(w.pending()) == 1 }, "it waits")
	w.place.wish("r2", "[{name: b, state: stopped}]")
	w.restart() // no round of the link
	w.eventually(func() bool { return len(w.pending()) == 0 && w.has("b") }, "the wish is taken back")
	require.True(t, w.has("a"))
}

func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(int64(time.Second), int64(24*time.Hour)).Draw(t, "d"))
		got := hub.Jitter(d, rapid.Float64Range(0, 0.9999999).Draw(t, "random"))
		require.GreaterOrEqual(t, got, d*3/4)
		require.LessOrEqual(t, got, d*5/4)
	})
	require.Less(t, hub.Jitter(time.Minute, 0), hub.Jitter(time.Minute, 0.9), "it spreads")
}

// TestRun polls at once and then when its time has come, until it is told to stop.
func TestRun(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	fire, waits := make(chan func(), 1), make(chan time.Duration, 1)
	w.link.After = func(d time.Duration, f func()) func() { waits <- d; fire <- f; return func() {} }
	ended := make(chan struct{})
	ctx, cancel := contextOf(t)
	before := w.place.count(hub.PathOperations)
	go func() { _ = w.link.Run(ctx); close(ended) }()
	for i := 1; i <= 3; i++ {
		require.Equal(t, 30*time.Second, <-waits, "half of the jitter")
		require.Equal(t, before+i, w.place.count(hub.PathOperations))
		require.Equal(t, w.now().Add(30*time.Second), w.link.Status().NextAt)
		(<-fire)()
	}
	<-waits
	cancel()
	<-ended
}
