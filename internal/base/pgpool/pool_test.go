package pgpool_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/pgpool"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

func newPool(t testing.TB, dsn string, size int) *pgpool.Pool {
	t.Helper()
	p := must.Get(pgpool.New(pgpool.Settings{Connection: dsn, What: "the database", Made: "make them", Size: size, Limit: 6 * time.Second}))(t)
	t.Cleanup(p.Close)
	return p
}

// TestValues: each kind of value comes back as it was sent.
func TestValues(t *testing.T) {
	p := newPool(t, postgres.Primary(t).DSN(), 1)
	for _, n := range []int64{0, 1, -1, math.MinInt64, math.MaxInt64} {
		rows := must.Get(p.Ask(t.Context(), "SELECT $1::bigint, ($2::bigint[])[2]", pgpool.Int(n), pgpool.Ints([]int64{7, n})))(t)
		require.Equal(t, n, rows[0].Int(0))
		require.Equal(t, n, rows[0].Int(1))
	}
	odd := "a\x00\xff{\"}\\,'"
	rows := must.Get(p.Ask(t.Context(), "SELECT $1::bytea, ($2::bytea[])[2], $3::bytea, $4::boolean, $5::boolean, NULL::bigint, cardinality($6::bytea[])::bigint",
		pgpool.Text(odd), pgpool.Texts([]string{"", odd}), pgpool.Bytes(nil), pgpool.Bool(true), pgpool.Bool(false), pgpool.Texts(nil)))(t)
	require.Equal(t, odd, rows[0].Text(0))
	require.Equal(t, odd, rows[0].Text(1))
	require.Equal(t, []byte{}, rows[0][2], "it is no NULL")
	require.True(t, rows[0].Bool(3))
	require.False(t, rows[0].Bool(4))
	require.Zero(t, rows[0].Int(5))
	require.Zero(t, rows[0].Int(6))
}

// TestATransactionIsWhole: if one statement fails, none of the others has an effect, and the connection is used on.
func TestATransactionIsWhole(t *testing.T) {
	c := postgres.Primary(t)
	p := newPool(t, c.DSN(), 1)
	c.Exec(t, "CREATE TABLE t (n bigint PRIMARY KEY)")
	first := must.Get(p.Ask(t.Context(), "SELECT pg_backend_pid()::bigint"))(t)[0].Int(0)
	for _, wrong := range []string{"INSERT INTO t VALUES (1)", "INSERT INTO nowhere VALUES (1)", "nonsense", "SELECT 1/0"} {
		_, err := p.Transaction(t.Context(), pgpool.Say("INSERT INTO t VALUES (1)"), pgpool.Say(wrong), pgpool.Say("INSERT INTO t VALUES (2)"))
		require.ErrorIs(t, err, refusal.Unavailable, wrong)
		require.Equal(t, int64(0), must.Get(p.Ask(t.Context(), "SELECT count(*) FROM t"))(t)[0].Int(0), wrong)
	}
	_, err := p.Transaction(t.Context(), pgpool.Say("SELECT * FROM nowhere"))
	require.Equal(t, "make them", refusal.As(err).Hint)
	rows := must.Get(p.Transaction(t.Context(), pgpool.Say("INSERT INTO t VALUES (1)"), pgpool.Say("SELECT count(*) FROM t")))(t)
	require.Empty(t, rows[0])
	require.Equal(t, int64(1), rows[1][0].Int(0), "each statement sees those before")
	require.Equal(t, first, must.Get(p.Ask(t.Context(), "SELECT pg_backend_pid()::bigint"))(t)[0].Int(0))
}

// TestWaits: a call that finds no connection is refused in time, one that takes too long too, and then others go on.
func TestWaits(t *testing.T) {
	c := postgres.Primary(t)
	p := newPool(t, c.DSN(), 1)
	c.Exec(t, "CREATE TABLE t (n bigint PRIMARY KEY); INSERT INTO t VALUES (1)")
	held, done := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- p.Do(t.Context(), func(context.Context, *pgpool.Conn) error { close(held); <-done; return nil })
	}()
	<-held
	_, err := p.Transaction(t.Context(), pgpool.Say("SELECT 1"))
	require.ErrorContains(t, err, "all 1 connections to the database are in use")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Transaction(gone, pgpool.Say("SELECT 1"))
	require.ErrorContains(t, err, "the caller is gone")
	close(done)
	require.NoError(t, <-ended)

	blocker := newPool(t, c.DSN(), 1)
	require.NoError(t, blocker.Do(t.Context(), func(ctx context.Context, b *pgpool.Conn) error {
		if _, err := b.Exec(ctx, "BEGIN; LOCK TABLE t").ReadAll(); err != nil {
			return err
		}
		_, err := p.Transaction(t.Context(), pgpool.Say("INSERT INTO t VALUES (2)"))
		require.ErrorContains(t, err, "the database did not answer within 6s")
		return nil
	}))
	blocker.Close()
	require.Eventually(t, func() bool {
		_, err := p.Transaction(t.Context(), pgpool.Say("INSERT INTO t VALUES (3)"))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
}

// TestConnectionsAreMadeAgain: after the server ended them, a question is asked again on a new one.
func TestConnectionsAreMadeAgain(t *testing.T) {
	c := postgres.Primary(t)
	p := newPool(t, c.DSN(), 1)
	must.Get(p.Ask(t.Context(), "SELECT 1::bigint"))(t)
	c.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	require.Equal(t, int64(2), must.Get(p.Ask(t.Context(), "SELECT 2::bigint"))(t)[0].Int(0))
}

// TestAWarningAtTheConnection: what the server says of itself to each new session is no fault of a transaction. After an
// upgrade of the C library, PostgreSQL warns so of the database's collation.
func TestAWarningAtTheConnection(t *testing.T) {
	c := postgres.Primary(t)
	c.Exec(t, "UPDATE pg_database SET datcollversion = '0'")
	accepted := false
	p := must.Get(pgpool.New(pgpool.Settings{Connection: c.DSN(), What: "the database", Size: 1, Limit: 90 * time.Second,
		Accept: func(ctx context.Context, c *pgpool.Conn) error {
			_, err := c.Transaction(ctx, pgpool.Say("SELECT 1"))
			accepted = err == nil
			return err
		}}))(t)
	t.Cleanup(p.Close)
	require.Equal(t, int64(1), must.Get(p.Ask(t.Context(), "SELECT 1::bigint"))(t)[0].Int(0))
	require.True(t, accepted)
	_, err := p.Transaction(t.Context(), pgpool.Say("DO $$ BEGIN RAISE WARNING 'of this one'; END $$"))
	require.ErrorContains(t, err, "the database warned: of this one")
}

// TestAClosedPool takes no calls, and closing waits for none.
func TestAClosedPool(t *testing.T) {
	p := must.Get(pgpool.New(pgpool.Settings{Connection: "host=127.0.0.1 port=1 password=hunter2", What: "the database", Size: 2, Limit: 2 * time.Second}))(t)
	_, err := p.Ask(t.Context(), "SELECT 1")
	require.ErrorContains(t, err, "the database cannot be reached")
	require.NotContains(t, err.Error(), "hunter2")
	p.Close()
}
