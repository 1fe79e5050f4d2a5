package hubpg_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubpg"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// refused checks that an error is Unavailable, so that a gate tries again, and says what is wrong and what to do.
func refused(t testing.TB, err error, sentence, hint string) {
	t.Helper()
	require.ErrorIs(t, err, refusal.Unavailable)
	r := refusal.As(err)
	require.Contains(t, r.Detail, sentence)
	require.Contains(t, r.Hint, hint)
	require.NotContains(t, r.Detail+r.Hint, "hunter2")
}

func at(seq int64) hub.Report {
	return hub.Report{Gate: "g", StartedAt: statetest.Noon, Seq: seq}
}

func created(t testing.TB, c *postgres.Cluster) *hubpg.Store {
	t.Helper()
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}))
	s := must.Get(hubpg.Open(t.Context(), hubpg.Settings{Connection: c.DSN(), Limit: 90 * time.Second}))(t)
	t.Cleanup(s.Close)
	know(t, s, "pve1")
	return s
}

// TestServersThatCannotKeep: whatever is wrong with the database, the caller hears a sentence, nothing is acknowledged, and
// the same hub goes on when it is mended.
func TestServersThatCannotKeep(t *testing.T) {
	c := postgres.Primary(t)
	try := func(dsn string) error {
		s, err := hubpg.Open(t.Context(), hubpg.Settings{Connection: dsn, Limit: 90 * time.Second})
		if err == nil {
			s.Close()
		}
		return err
	}
	refused(t, try(c.DSN()), "the hub's database has no tables of a hub", "gated hub create")
	s := created(t, c)
	must.Get(Put(t, s, 1))(t)

	refused(t, try(c.DSN()+" dbname=nowhere"), "does not exist", "createdb")
	refused(t, try(strings.Replace(c.DSN(), fmt.Sprint(c.Port), "1", 1)+" password=hunter2"), "cannot be reached", "look whether the server runs")
	err := try("host='hunter2")
	require.ErrorIs(t, err, refusal.BadParams)
	require.NotContains(t, err.Error(), "hunter2")
	c.Exec(t, `CREATE ROLE reader LOGIN PASSWORD 'x'`)
	refused(t, try(c.DSN()+" user=reader"), "refuses this to the role", "grant the role")

	c.Exec(t, `ALTER ROLE gated SET default_transaction_read_only = on`)
	refused(t, try(c.DSN()), "is read-only", "name the primary")
	c.Exec(t, `BEGIN READ WRITE; ALTER ROLE gated RESET default_transaction_read_only; COMMIT`)
	c.Exec(t, `ALTER ROLE gated SET synchronous_commit = 'off'`)
	refused(t, try(c.DSN()), "synchronous_commit=off", "set synchronous_commit = on")
	c.Exec(t, `ALTER ROLE gated RESET synchronous_commit`)
	c.Exec(t, `UPDATE gatedhub.version SET version = 2`)
	refused(t, try(c.DSN()), "tables of another version", "use the version of gated")
	c.Exec(t, `UPDATE gatedhub.version SET version = 1`)

	c.Stop(t)
	must.Fail(Put(t, s, 2))(t, refusal.Unavailable)
	must.Fail(s.Queue(t.Context(), hubstate.Query{Limit: 1}))(t, refusal.Unavailable)
	c.Start(t)
	eventually(t, func() bool { _, err := Put(t, s, 2); return err == nil })
	require.Equal(t, int64(2), must.Get(s.Report(t.Context(), "pve1"))(t).Report.Seq)
}

// Put keeps a report of pve1.
func Put(t testing.TB, s *hubpg.Store, seq int64) (hubstate.Outcome, error) {
	t.Helper()
	return statetest.Put(t, s, "pve1", at(seq))
}

// eventually tries again until it works: connections that broke are made anew one by one.
func eventually(t testing.TB, works func() bool) {
	t.Helper()
	require.Eventually(t, works, 30*time.Second, 20*time.Millisecond)
}

// TestAStandbyTakesNothing: a hub that finds its server read-only says so, and goes to the one that takes writes.
func TestAStandbyTakesNothing(t *testing.T) {
	pair := postgres.NewPair(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: pair.DSN()}))
	must.Fail(hubpg.Open(t.Context(), hubpg.Settings{Connection: pair.Second.DSN(), Limit: 3 * time.Second}))(t, refusal.Unavailable)
	s := must.Get(hubpg.Open(t.Context(), hubpg.Settings{Connection: pair.DSN(), Limit: 90 * time.Second}))(t)
	t.Cleanup(s.Close)
	know(t, s, "pve1")
	must.Get(Put(t, s, 1))(t)
	c := pair.First
	c.Exec(t, `ALTER SYSTEM SET default_transaction_read_only = on`)
	c.Exec(t, `SELECT pg_reload_conf()`)
	c.Until(t, `SELECT current_setting('default_transaction_read_only') = 'on'`)
	_, err := Put(t, s, 2)
	refused(t, err, "is read-only", "name the primary")
	require.Equal(t, int64(1), kept(t, c), "nothing was kept")

	c.Kill(t)
	pair.Second.Promote(t)
	pair.Second.Exec(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	pair.Second.Exec(t, `SELECT pg_reload_conf()`)
	eventually(t, func() bool { _, err := Put(t, s, 3); return err == nil })
	require.Equal(t, int64(3), kept(t, pair.Second))
}

func kept(t testing.TB, c *postgres.Cluster) (seq int64) {
	t.Helper()
	rows := c.Exec(t, `SELECT seq FROM gatedhub.reports`)
	require.Len(t, rows, 1)
	_ = must.Get(fmt.Sscan(rows[0][0], &seq))(t)
	return seq
}

// TestACancelledWaitIsNoAcknowledgement: PostgreSQL says that a commit is done if an administrator cancels its wait for the
// standby. The hub does not.
func TestACancelledWaitIsNoAcknowledgement(t *testing.T) {
	pair := postgres.NewPair(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: pair.First.DSN()}))
	s := must.Get(hubpg.Open(t.Context(), hubpg.Settings{Connection: pair.First.DSN(), Limit: 20 * time.Second}))(t)
	t.Cleanup(s.Close)
	know(t, s, "pve1")
	pair.Link.Partition(true)
	done := make(chan error, 1)
	go func() {
		_, err := Put(t, s, 1)
		done <- err
	}()
	pair.First.Until(t, `SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	pair.First.Exec(t, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	refused(t, <-done, "the hub's database warned: canceling wait for synchronous replication", "")
	pair.Link.Partition(false)
	eventually(t, func() bool { _, err := Put(t, s, 1); return err == nil })
}

// TestAHeadThatIsSeenIsNotYetKept: a head whose first sending was not acknowledged can be seen, and the standby may lack it.
// Sent again, it is acknowledged only with the standby.
func TestAHeadThatIsSeenIsNotYetKept(t *testing.T) {
	pair := postgres.NewPair(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: pair.First.DSN()}))
	s := must.Get(hubpg.Open(t.Context(), hubpg.Settings{Connection: pair.First.DSN(), Limit: 6 * time.Second}))(t)
	t.Cleanup(s.Close)
	l := statetest.NewLog(t, statetest.GateID)
	l.Add(t, "one")
	send := func() error {
		_, err := hubstate.TakeHead(t.Context(), s, l.Head(t, "pve1", 0), statetest.Noon)
		return err
	}
	pair.Link.Partition(true)
	require.ErrorIs(t, send(), refusal.Unavailable)
	// It can be seen once the server has given the wait up.
	eventually(t, func() bool { return must.Get(s.Head(t.Context(), statetest.GateID))(t) != nil })
	require.ErrorIs(t, send(), refusal.Unavailable)
	pair.Link.Partition(false)
	eventually(t, func() bool { return send() == nil })
}

// TestAFullDisk: a report for which the database has no room is refused with a sentence, the old one stays, and the hub goes
// on once there is room.
func TestAFullDisk(t *testing.T) {
	dir := postgres.SmallDisk(t, 90)
	c := postgres.PrimaryOn(t, dir, "max_wal_size = 32MB", "min_wal_size = 32MB", "wal_keep_size = 0")
	s := created(t, c)
	must.Get(Put(t, s, 1))(t)
	ballast := dir + "/ballast"
	f := must.Get(os.Create(ballast))(t)
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	require.NoError(t, f.Close())
	var err error
	r, seq := at(1), int64(2)
	for ; err == nil && seq < 200; seq++ {
		r = at(seq)
		r.Guests = []hub.GuestReport{{Why: noise(2<<20, seq)}}
		_, err = statetest.Put(t, s, "pve1", r)
	}
	require.ErrorIs(t, err, refusal.Unavailable)
	require.NoError(t, os.Remove(ballast))
	if !strings.Contains(refusal.As(err).Detail, "no room") { // a full disk of the log of changes ends the server
		c.Stop(t)
		c.Start(t)
	}
	eventually(t, func() bool { _, err := statetest.Put(t, s, "pve1", at(seq)); return err == nil })
	require.Equal(t, seq, must.Get(s.Report(t.Context(), "pve1"))(t).Report.Seq)
}

// noise is text that does not compress.
func noise(n int, seed int64) string {
	var b strings.Builder
	for x := uint64(seed)*2654435761 + 1; b.Len() < n; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()
}

// TestSessionsThatEndInTheMiddle: the server ends sessions while reports arrive. What was acknowledged is kept, with the
// rows of its requests, and none of a report that was not kept.
func TestSessionsThatEndInTheMiddle(t *testing.T) {
	c := postgres.Primary(t)
	s := created(t, c)
	stop, done := make(chan struct{}), make(chan [2]int64, 1)
	go func() {
		var seq, acknowledged int64
		for {
			select {
			case <-stop:
				done <- [2]int64{seq, acknowledged}
				return
			default:
			}
			seq++
			r := at(seq)
			r.Requests = []api.FleetRequest{statetest.Request(0, fmt.Sprintf("j%d.1", seq), "guest.destroy"), statetest.Request(1, fmt.Sprintf("j%d.2", seq), "guest.stop")}
			if _, err := statetest.Put(t, s, "pve1", r); err == nil {
				acknowledged = seq
			} else if !errors.Is(err, refusal.Unavailable) {
				t.Errorf("report %d: %v", seq, err)
			}
		}
	}()
	for range 60 {
		c.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	}
	close(stop)
	last := <-done
	require.Positive(t, last[1])
	var kept *hubstate.Told
	var page api.FleetQueue
	eventually(t, func() bool { // the server may have ended the session that the call is the first to use again
		var err error
		kept, err = s.Report(t.Context(), "pve1")
		return err == nil
	})
	eventually(t, func() bool {
		var err error
		page, err = s.Queue(t.Context(), hubstate.Query{Limit: 10})
		return err == nil
	})
	is := kept.Report.Seq
	require.GreaterOrEqual(t, is, last[1], "what was acknowledged is kept")
	require.Len(t, page.Requests, 2)
	require.Equal(t, fmt.Sprintf("j%d.1", is), page.Requests[0].Request)
	require.Equal(t, fmt.Sprintf("j%d.2", is), page.Requests[1].Request)
}

// TestACallerThatIsGone: its report is kept or not, and the connection stays usable.
func TestACallerThatIsGone(t *testing.T) {
	s := created(t, postgres.Primary(t))
	for i := range int64(50) {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		r := at(i + 1)
		r.Host = "pve1"
		_, err := s.Put(ctx, hubstate.Arrived{Host: "pve1", Report: r, Body: []byte(`{"host":"pve1"}`), At: statetest.Noon})
		require.True(t, err == nil || strings.Contains(err.Error(), "the caller is gone"), "%v", err)
	}
	must.Get(Put(t, s, 100))(t)
}

// TestForgettingWhileAReportArrives: a report whose transaction is not over when its host is forgotten is forgotten too, and
// one that comes later is not kept. Otherwise its requests would stay in the queue for ever.
func TestForgettingWhileAReportArrives(t *testing.T) {
	c := postgres.Primary(t)
	s := created(t, c)
	arriving := must.Get(pgconn.Connect(t.Context(), c.DSN()))(t)
	defer func() { _ = arriving.Close(context.WithoutCancel(t.Context())) }()
	say := func(sql string) { t.Helper(); must.Get(arriving.Exec(t.Context(), sql).ReadAll())(t) }
	say(`BEGIN; INSERT INTO gatedhub.reports VALUES ('pve1', 'g', 1, 1, 1, 1, false, 0, '', '');
		INSERT INTO gatedhub.requests VALUES ('pve1', 'j1.1', 1, 'guest.destroy', '{}')`)
	forgotten := make(chan error, 1)
	go func() {
		_, err := s.Forget(t.Context(), "pve1")
		forgotten <- err
	}()
	c.Until(t, `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted`)
	late := make(chan error, 1)
	go func() {
		_, err := Put(t, s, 2)
		late <- err
	}()
	c.Until(t, `SELECT count(*) > 1 FROM pg_locks WHERE NOT granted`)
	say(`COMMIT`)
	require.NoError(t, <-forgotten)
	require.ErrorIs(t, <-late, refusal.UnknownTarget)
	require.Nil(t, must.Get(s.Report(t.Context(), "pve1"))(t))
	require.Equal(t, [][]string{{"0", "0"}}, c.Exec(t, `SELECT (SELECT count(*) FROM gatedhub.reports), (SELECT count(*) FROM gatedhub.requests)`))
}

// TestAPlantedHead: the owner of the database cannot change a kept head without a word.
func TestAPlantedHead(t *testing.T) {
	c := postgres.Primary(t)
	s := created(t, c)
	l := statetest.NewLog(t, statetest.GateID)
	l.Add(t, "one", "two")
	must.Get(hubstate.TakeHead(t.Context(), s, l.Head(t, "pve1", 0), statetest.Noon))(t)
	c.Exec(t, `UPDATE gatedhub.heads SET record = convert_to(replace(convert_from(record, 'UTF8'), '\n2\n', '\n1\n'), 'UTF8')`)
	_, err := s.Head(t.Context(), statetest.GateID)
	require.ErrorIs(t, err, refusal.Internal)
	require.ErrorContains(t, err, "a head in the hub's database was changed there")
	l.Add(t, "three")
	must.Fail(hubstate.TakeHead(t.Context(), s, l.Head(t, "pve1", 2), statetest.Noon))(t, refusal.Internal)
}
