package hub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// TestReports are sent when something changed, and from time to time.
func TestReports(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[{name: a, state: stopped}]")
	w.round()
	w.eventually(func() bool { w.round(); s := w.place.last(t).Sets; return len(s) == 1 && s[0].Converged == 1 }, "it converges")
	n, seq := w.place.told(), w.place.last(t).Seq
	require.Equal(t, int64(n), seq)
	w.pass(9 * time.Minute)
	w.round()
	require.Equal(t, n, w.place.told(), "nothing changed")
	w.pass(2 * time.Minute)
	w.round()
	require.Equal(t, n+1, w.place.told(), "it is told that the gate is there")
	require.Equal(t, seq, w.place.last(t).Seq, "the same report")
	require.Equal(t, w.now(), w.place.last(t).At)
	w.place.on(hub.PathDesired, status(500))
	w.round()
	r := w.place.last(t)
	require.Equal(t, seq+1, r.Seq)
	require.Equal(t, refusal.Unavailable, r.Error.Code)
	require.Equal(t, "r1", r.Revision, "the last that was read")
	w.restart()
	w.round()
	require.Equal(t, int64(1), w.place.last(t).Seq)
}

// TestAReportThatIsNotTaken is tried again, less and less often, and is the
// newest by then.
func TestAReportThatIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	w.place.on(hub.PathReport, status(503))
	for range 120 { // an hour
		w.round()
		w.pass(30 * time.Second)
	}
	tries := w.place.count(hub.PathReport)
	require.Greater(t, tries, 6)
	require.Less(t, tries, 16, "a back-off")
	require.ErrorIs(t, w.link.Status().ReportErr, refusal.Unavailable)
	w.place.wish("r2", "[]")
	w.place.on(hub.PathReport, status(200))
	w.pass(15 * time.Minute)
	w.round()
	require.Equal(t, "r2", w.place.last(t).Revision)
	require.NoError(t, w.link.Status().ReportErr)
	require.Equal(t, w.now(), w.link.Status().ReportedAt)

	// A clock that is set back does not put a report off for long.
	w.place.on(hub.PathReport, status(503))
	w.place.wish("r3", "[]")
	w.round()
	w.pass(-365 * 24 * time.Hour)
	w.place.on(hub.PathReport, status(204))
	w.round()
	require.Equal(t, "r3", w.place.last(t).Revision)
	require.NoError(t, w.link.Status().ReportErr)
}

// TestWhatAHubAnswersToAReportHasNoEffect, and costs nothing.
func TestWhatAHubAnswersToAReportHasNoEffect(t *testing.T) {
	w := newWorld(t)
	w.guests.Put("a", op.Params{})
	w.place.wish("r1", "[]")
	body := document("r9", map[string]string{"site": doc("[{name: a, state: absent}]")})
	for _, code := range []int{200, 201, 302, 400, 404, 500} {
		w.place.on(hub.PathReport, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", jsonType)
			rw.Header().Set("Location", "/v1/hosts/pve1/desired")
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, body)
		})
		w.pass(time.Hour)
		w.round()
		require.Equal(t, code >= 400 && code != 404 || code == 302, w.link.Status().ReportErr != nil, code)
	}
	require.Equal(t, "r1", w.link.Status().Revision)
	require.Empty(t, w.pending())
	require.True(t, w.has("a"))
}

func TestAHubWithoutReports(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	w.place.on(hub.PathReport, nil)
	w.eventually(func() bool { // once nothing changes any more
		w.round()
		n := w.place.count(hub.PathReport)
		w.round()
		return n == w.place.count(hub.PathReport)
	}, "it is not asked again at once")
	require.NoError(t, w.link.Status().ReportErr)
	require.Zero(t, w.link.Status().ReportedAt)
}

// TestTheLargestReport fits, whatever the words in it are.
func TestTheLargestReport(t *testing.T) {
	long := strings.Repeat("\x01", 10_000)
	var sets []reconcile.SetStanding
	for i := range hub.MaxSets {
		sets = append(sets, reconcile.SetStanding{Set: fmt.Sprintf("%0128d", i), Guests: 1 << 40, Counts: map[string]int{}})
	}
	var unmet []reconcile.WishStanding
	for i := range 2000 {
		unmet = append(unmet, reconcile.WishStanding{Set: fmt.Sprintf("%0128d", i), Target: guest(fmt.Sprintf("%0128d", i)),
			State: reconcile.WishUnknown, Why: long})
	}
	w := newWorld(t)
	w.place.wish("r1", "[]")
	list := make([]api.Envelope, 0, 600)
	for i := range cap(list) {
		list = append(list, garbage(i))
	}
	w.place.relay(list...)
	for range 20 {
		w.round()
	}
	w.link.Standing = func(_ map[op.Target]bool, limit int) ([]reconcile.SetStanding, []reconcile.WishStanding, int) {
		return sets, unmet[:limit], len(unmet) - limit
	}
	w.round()
	r := w.place.last(t)
	b := must.Get(api.Encode(r))(t)
	require.Less(t, len(b), hub.MaxReport)
	require.Len(t, r.Sets, hub.MaxSets)
	require.Len(t, r.Guests, 500)
	require.Equal(t, 1500, r.GuestsLeftOut)
	require.Len(t, r.Operations, 500)
	require.Equal(t, 100, r.OpsLeftOut)
	require.False(t, bytes.Contains(b, []byte(long)))
	for i := range 500 {
		odd := strings.Repeat("\x01", 200) + "…" // as long as what is cut becomes
		r.Requests = append(r.Requests, api.FleetRequest{Request: fmt.Sprintf("j9223372036854775%03d.64", i), Op: strings.Repeat("o", 64), Target: strings.Repeat("\"", 400),
			Reason: odd, RequestedBy: odd, CreatedAt: w.now(), ExpiresAt: w.now(), Missing: 64, PayloadSHA256: op.SHA256(nil)})
	}
	b = must.Get(api.Encode(r))(t)
	require.Less(t, len(b), hub.MaxReport)
	must.Get(hub.DecodeReport(b, testHost))(t)
	r.Requests = append(r.Requests, r.Requests[0])
	must.Fail(hub.DecodeReport(must.Get(api.Encode(r))(t), testHost))(t, refusal.Oversized)
}

// TestReportsOfNoGate: one gate's report cannot take a hub's memory, nor break what it shows of all.
func TestReportsOfNoGate(t *testing.T) {
	long := strings.Repeat("x", 1025)
	is := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	report := func(change func(*hub.Report)) error {
		r := hub.Report{Host: testHost, Requests: []api.FleetRequest{{Request: "j1.1", CreatedAt: is, ExpiresAt: is}}}
		change(&r)
		_, err := hub.DecodeReport(must.Get(api.Encode(r))(t), testHost)
		return err
	}
	require.NoError(t, report(func(r *hub.Report) { r.Version, r.RequestsLeftOut = long[:1024], 1<<31 }))
	for name, change := range map[string]func(*hub.Report){
		"gate":      func(r *hub.Report) { r.Gate = op.GateID(long) },
		"error":     func(r *hub.Report) { r.Error = &api.Error{Hint: long} },
		"set":       func(r *hub.Report) { r.Sets = []hub.SetReport{{Name: long}} },
		"guest":     func(r *hub.Report) { r.Guests = []hub.GuestReport{{Why: long}} },
		"operation": func(r *hub.Report) { r.Operations = []hub.OperationReport{{Detail: long}} },
		"request":   func(r *hub.Report) { r.Requests[0].Target = long },
		"id":        func(r *hub.Report) { r.Requests[0].Request = long[:65] },
	} {
		require.ErrorIs(t, report(change), refusal.Oversized, name)
	}
	for name, change := range map[string]func(*hub.Report){
		"too much is left out": func(r *hub.Report) { r.RequestsLeftOut = 1<<31 + 1 },
		"less than nothing":    func(r *hub.Report) { r.GuestsLeftOut = -1 },
		"twice":                func(r *hub.Report) { r.Requests = append(r.Requests, r.Requests[0]) },
	} {
		require.ErrorIs(t, report(change), refusal.Malformed, name)
	}
}

// TestAReportIsTriedAtOnceWhenTheHubIsBack, and not sooner: a token that was put
// right has ended both faults.
func TestAReportIsTriedAtOnceWhenTheHubIsBack(t *testing.T) {
	w := newWorld(t)
	w.place.on(hub.PathDesired, status(401))
	w.place.on(hub.PathOperations, status(401))
	w.place.on(hub.PathReport, status(401))
	for range 20 {
		w.round()
		w.pass(30 * time.Second)
	}
	s := w.link.Status()
	require.Equal(t, []time.Time{noon, noon, noon}, []time.Time{s.ErrSince, s.RelaySince, s.ReportSince}, "since the first time")
	require.Greater(t, s.ReportDue.Sub(w.now()), time.Minute)
	require.LessOrEqual(t, s.ReportDue.Sub(w.now()), 10*time.Minute)
	tries := w.place.count(hub.PathReport)
	w.place.on(hub.PathReport, status(204))
	w.round()
	require.Equal(t, tries, w.place.count(hub.PathReport), "it waits while nothing else works")
	w.place.wish("r1", "[]")
	w.place.relay()
	w.round()
	require.Equal(t, tries+1, w.place.count(hub.PathReport))
	s = w.link.Status()
	require.NoError(t, s.ReportErr)
	require.Equal(t, []time.Time{{}, {}, {}, {}}, []time.Time{s.ErrSince, s.RelaySince, s.ReportSince, s.ReportDue})
}
