package pg_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/postgres"
)

func refuses(t *testing.T, s pg.Settings, sentence string) {
	t.Helper()
	s.Limit = 12 * time.Second // it asks again until then
	e, err := pg.Open(context.Background(), s)
	if err == nil {
		_ = e.Close()
	}
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, sentence)
}

func TestServersThatPromiseLessAreRefused(t *testing.T) {
	c := postgres.Primary(t)
	s := pg.Settings{Connection: c.DSN(), Gate: "one", Limit: 12 * time.Second}
	single := s
	single.Single = true
	refuses(t, single, "this database has no ledger")
	require.ErrorContains(t, pg.Create(t.Context(), s), "no synchronous standby")
	require.NoError(t, pg.Create(t.Context(), single))
	require.NoError(t, pg.Create(t.Context(), single), "again")
	refuses(t, s, "no synchronous standby")
	e := open(t, single)
	_, err := e.Take(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, e.Append(ledger.Group{Number: 1, Era: 1}))

	other := single
	other.Gate = "two"
	refuses(t, other, "does not know this gate")

	c.Exec(t, `CREATE ROLE blind LOGIN; GRANT USAGE ON SCHEMA gated TO blind; GRANT SELECT ON ALL TABLES IN SCHEMA gated TO blind`)
	blind := single
	blind.Connection += " user=blind"
	refuses(t, blind, "cannot see how far the standbys are")

	for _, level := range []string{"off", "local", "remote_write"} {
		c.Exec(t, `ALTER ROLE gated SET synchronous_commit = '`+level+`'`)
		refuses(t, s, "synchronous_commit="+level)
	}
	c.Exec(t, `ALTER ROLE gated SET synchronous_commit = 'off'`)
	refuses(t, single, "synchronous_commit=off")
	c.Exec(t, `ALTER ROLE gated RESET synchronous_commit`)

	c.Set(t, "fsync", "off")
	require.ErrorContains(t, e.Append(ledger.Group{Number: 2, Era: 1}), "fsync=off")
	refuses(t, single, "fsync=off")
	c.Set(t, "fsync", "on")
	require.NoError(t, e.Append(ledger.Group{Number: 2, Era: 1}))

	c.Exec(t, `UPDATE gated.version SET version = 3`)
	refuses(t, single, "tables are of version")
	c.Exec(t, `UPDATE gated.version SET version = 2`)

	c.Set(t, "default_transaction_read_only", "on")
	refuses(t, single, "read only connection")
}

// TestALedgerBeginsWithItsStandby: a commit would wait without end. So nothing is asked for that has to be committed, and nothing is kept.
func TestALedgerBeginsWithItsStandby(t *testing.T) {
	first := postgres.Primary(t)
	for _, names := range []string{"*", "second", "ANY 1 (second, third)"} {
		first.Set(t, "synchronous_standby_names", names)
		for _, single := range []bool{false, true} {
			s := pg.Settings{Connection: first.DSN(), Gate: "one", Single: single, Limit: 30 * time.Second}
			err := pg.Create(t.Context(), s)
			require.ErrorIs(t, err, ledger.ErrUnavailable)
			require.ErrorContains(t, err, "no synchronous standby is connected")
			require.Contains(t, refusal.As(err).Hint, "pg_stat_replication")
		}
	}
	require.Equal(t, "t", first.Exec(t, `SELECT to_regnamespace('gated') IS NULL`)[0][0])
	second := first.Standby(t, "second", first.Port)
	first.Synchronous(t)
	s := newGate(t, first.DSN())

	w := newWriter(t, s)
	require.NoError(t, w.engine.Append(w.attempt(1)))
	second.Kill(t)
	first.Until(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_replication)`)
	err := w.engine.Append(w.attempt(2))
	require.ErrorIs(t, err, ledger.ErrInDoubt)
	require.ErrorContains(t, err, "no answer in time from the server, or for a commit from its synchronous standby")
}

func TestAStandbyAloneIsRefused(t *testing.T) {
	pair := postgres.NewPair(t)
	s := newGate(t, pair.DSN())
	s.Connection, s.Limit = pair.Second.DSN(), 12*time.Second
	refuses(t, s, "read only connection")
}

func TestPoolersAreRefused(t *testing.T) {
	c := postgres.Primary(t)
	for _, mode := range []string{"transaction", "session", "statement"} {
		for _, ignores := range []string{"lock_timeout, client_min_messages, default_transaction_isolation", "extra_float_digits"} {
			s := pg.Settings{Connection: postgres.DSN(postgres.PgBouncer(t, c, mode, ignores)), Gate: "one", Single: true, Limit: 12 * time.Second}
			require.ErrorContains(t, pg.Create(t.Context(), s), "a pooler such as PgBouncer", "%s, ignores %s", mode, ignores)
		}
	}
}

func TestThePasswordIsInNoError(t *testing.T) {
	c := postgres.Primary(t)
	const secret = "s3cret-word"
	for _, connection := range []string{
		c.DSN() + " user=missing password=" + secret,
		fmt.Sprintf("postgres://gated:%s@127.0.0.1:1/postgres?sslmode=disable", secret),
		"postgres://gated:" + secret + "@127.0.0.1:x/postgres",
		"host='127.0.0.1 password=" + secret,
		c.DSN() + " dbname=" + secret + " password=" + secret,
	} {
		_, err := pg.Open(context.Background(), pg.Settings{Connection: connection, Gate: "one", Limit: time.Second})
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
	}
}

func TestAFullDiskKeepsNothing(t *testing.T) {
	c := postgres.PrimaryOn(t, postgres.SmallDisk(t, 200))
	s := pg.Settings{Connection: c.DSN(), Gate: "one", Single: true, Limit: 20 * time.Second}
	require.NoError(t, pg.Create(t.Context(), s))
	w := newWriter(t, s)
	body := make([]byte, 4<<20)
	var err error
	kept := uint64(0)
	for kept < 100 {
		if err = w.engine.Append(ledger.Group{Number: kept + 1, Era: w.era, Body: body}); err != nil {
			break
		}
		kept++
	}
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorContains(t, err, "No space left")
	p, err := w.engine.Position(t.Context())
	require.NoError(t, err)
	require.Equal(t, kept, p.Last)
}

// TestAFullDiskOfAPair fills the primary's disk, and gives it room again.
func TestAFullDiskOfAPair(t *testing.T) {
	dir := postgres.SmallDisk(t, 260)
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 64<<20), 0o600))
	first := postgres.PrimaryOn(t, dir)
	second := first.Standby(t, "second", first.Port)
	first.Set(t, "synchronous_standby_names", "second")
	first.Synchronous(t)
	s := newGate(t, first.DSN())
	w := newWriter(t, s)
	w.size = 2 << 20
	var err error
	for n := uint64(1); n < 100 && err == nil; n++ {
		g := w.attempt(n)
		if err = w.engine.Append(g); err == nil {
			w.last, w.told[n] = n, string(g.Body)
		}
	}
	require.Error(t, err)
	require.NoError(t, os.Remove(ballast))
	first.Up(t)
	first.Synchronous(t)
	if errors.Is(err, ledger.ErrInDoubt) { // the log's disk was full, and the server ended
		var kept bool
		for range 30 { // the first connections may be ones that the crash ended
			if kept, err = w.engine.Settle(w.era, w.last+1); err == nil {
				break
			}
		}
		require.NoError(t, err)
		if kept {
			w.last++
			w.told[w.last] = string(w.attempt(w.last).Body)
		} else {
			w.never[w.last+1]++
		}
	}
	load(t, []*writer{w}, func(more func(int)) { more(3) })
	end := first.Exec(t, `SELECT pg_current_wal_flush_lsn()`)[0][0]
	second.Until(t, `SELECT pg_last_wal_replay_lsn() >= '`+end+`'::pg_lsn`)
	first.Kill(t)
	second.Promote(t)
	told, lost := lost(t, second, []*writer{w})
	t.Logf("%d groups acknowledged, %d of them lost", told, lost)
}
