package pg_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/test/must"
	"gated/internal/test/postgres"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// unfit sets for the role what an engine must not rely on.
func unfit(t *testing.T, c *postgres.Cluster) {
	t.Helper()
	c.Exec(t, `ALTER ROLE gated SET client_min_messages = 'error'`)
	c.Exec(t, `ALTER ROLE gated SET default_transaction_isolation = 'serializable'`)
}

// With one server enough, the warning is all that shows that a wait was cancelled.
func TestAWarningIsHeardIfTheRoleSilencesIt(t *testing.T) {
	pair := postgres.NewPair(t)
	unfit(t, pair.First)
	for _, options := range []string{"", " client_min_messages=error", " options='-c client_min_messages=error'"} {
		s := newGate(t, pair.DSN())
		s.Single = true
		s.Connection += options
		w := newWriter(t, s)
		require.NoError(t, w.engine.Append(w.attempt(1)))
		done := waiting(t, pair, w.engine, w.attempt(2))
		pair.First.Exec(t, `SELECT pg_cancel_backend(pid) `+backend)
		err := <-done
		require.ErrorIs(t, err, ledger.ErrInDoubt, options)
		require.ErrorContains(t, err, "warned")
		pair.Link.Partition(false)
		pair.First.Synchronous(t)
	}
}

// TestTheEraIsRaisedWhileAnAppendWaits: the append waits for the gate's row, and reads there who took over.
func TestTheEraIsRaisedWhileAnAppendWaits(t *testing.T) {
	pair := postgres.NewPair(t)
	for _, change := range []struct {
		name, set string
		err       error
	}{
		{"the era is raised", "era = era + 1, settled = settled + 1", ledger.ErrFenced},
		{"the count of settlings is raised", "settled = settled + 1", nil},
		{"a beat", "beat = beat + 1", nil},
	} {
		t.Run(change.name, func(t *testing.T) {
			unfit(t, pair.First)
			w := newWriter(t, newGate(t, pair.DSN()))
			require.NoError(t, w.engine.Append(w.attempt(1)))
			other := must.Get(pgconn.Connect(t.Context(), pair.First.DSN()))(t)
			t.Cleanup(func() { _ = other.Close(t.Context()) })
			run := func(sql string) { must.Get(other.Exec(t.Context(), sql).ReadAll())(t) }
			run(`BEGIN ISOLATION LEVEL READ COMMITTED`)
			run(fmt.Sprintf(`UPDATE gated.gates SET %s WHERE gate = convert_to('%s', 'UTF8')`, change.set, w.settings.Gate))
			done := make(chan error, 1)
			go func() { done <- w.engine.Append(w.attempt(2)) }()
			pair.First.Until(t, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)
			run(`COMMIT`)
			require.ErrorIs(t, <-done, change.err)
			want := 1
			if change.err == nil {
				want = 2
			}
			p := must.Get(w.engine.Position(t.Context()))(t)
			require.EqualValues(t, want, p.Last)
		})
	}
}

// TestASecondHostHasItsTurn: the first takes connections and says nothing, whatever time the connection string allows it.
func TestASecondHostHasItsTurn(t *testing.T) {
	c := postgres.Primary(t)
	for _, silents := range []int{1, 4} {
		var ports []int
		for range silents {
			p := postgres.NewProxy(t, c.Port)
			p.Partition(true)
			ports = append(ports, p.Port)
		}
		s := newSingle(t, c.DSN())
		s.Connection, s.Limit = postgres.DSN(append(ports, c.Port)...)+" connect_timeout=60", 12*time.Second
		e := open(t, s)
		p := must.Get(e.Position(t.Context()))(t)
		require.Zero(t, p.Last)
	}
}

// TestALargeGroupIsReadInPieces: a base, which is large, then groups that fill several pages.
func TestALargeGroupIsReadInPieces(t *testing.T) {
	c := postgres.Primary(t, "max_wal_size = 1GB")
	near := postgres.NewProxy(t, c.Port)
	s := newSingle(t, postgres.DSN(near.Port))
	s.Limit = 2 * time.Second
	w := newWriter(t, s)
	sizes := []int{*baseMiB << 20, 0, 3, 3 << 20, 4 << 20, 4<<20 + 1, 1 << 20, 1 << 20}
	for i, size := range sizes {
		g := ledger.Group{Number: uint64(i + 1), Era: w.era, Body: filled(size, i), Signature: []byte{1}}
		require.NoError(t, w.engine.Append(g), i)
	}
	near.Delay(100 * time.Microsecond) // of each 64 KiB
	read, calls := uint64(0), 0
	for read < uint64(len(sizes)) {
		groups := must.Get(w.engine.Read(t.Context(), read, 256))(t)
		require.NotEmpty(t, groups)
		calls++
		for _, g := range groups {
			require.Equal(t, read+1, g.Number)
			want := filled(sizes[read], int(read))
			require.Equal(t, len(want), len(g.Body), read)
			require.True(t, string(want) == string(g.Body), "the body of group %d is another one", g.Number)
			read++
		}
	}
	require.Equal(t, 5, calls, "the base; two small and 3 MiB; 4 MiB; 4 MiB and a byte; two of 1 MiB")
}

// filled is a body whose pieces differ.
func filled(size, seed int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16 ^ i>>24*7 ^ seed)
	}
	return b
}

// TestATableIsAlteredWhileAnEngineIsOpen: the server plans the prepared statements anew, or the engine connects anew.
func TestATableIsAlteredWhileAnEngineIsOpen(t *testing.T) {
	pair := postgres.NewPair(t)
	w := newWriter(t, newGate(t, pair.DSN()))
	for n := range uint64(8) { // PostgreSQL uses a generic plan from the sixth time on
		require.NoError(t, w.engine.Append(w.attempt(n+1)))
	}
	pair.First.Exec(t, `ALTER TABLE gated.groups ADD COLUMN more bigint; ALTER TABLE gated.gates ADD COLUMN more bigint`)
	require.NoError(t, w.engine.Append(w.attempt(9)))
	require.NoError(t, w.engine.Beat(w.era))
	require.Equal(t, uint64(9), must.Get(w.engine.Position(t.Context()))(t).Last)
}

// TestASessionLosesItsStatements: nothing was appended, so nothing is in doubt, and the next call has a new session.
func TestASessionLosesItsStatements(t *testing.T) {
	pair := postgres.NewPair(t)
	w := newWriter(t, newGate(t, pair.DSN()))
	require.NoError(t, w.engine.Append(w.attempt(1)))
	pair.First.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	err := w.engine.Append(w.attempt(2))
	if errors.Is(err, ledger.ErrInDoubt) { // the session ended under the statement
		require.False(t, must.Get(w.engine.Settle(w.era, 2))(t))
		err = w.engine.Append(w.attempt(2))
	}
	require.NoError(t, err)
}
