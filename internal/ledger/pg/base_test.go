package pg_test

import (
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"
	"gated/internal/test/postgres"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestTablesOfVersion1AreBroughtToVersion2 by the first program that opens them. What was there stays.
func TestTablesOfVersion1AreBroughtToVersion2(t *testing.T) {
	c := postgres.Primary(t)
	s := newSingle(t, c.DSN())
	e := open(t, s)
	_, err := e.Take(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, e.Append(ledger.Group{Number: 1, Era: 1, Body: []byte("body"), Signature: []byte("s")}))
	c.Exec(t, `DROP TABLE gated.bases`)
	c.Exec(t, `UPDATE gated.version SET version = 1`)

	e = open(t, s)
	require.Equal(t, [][]string{{"2"}}, c.Exec(t, `SELECT version FROM gated.version`))
	p, err := e.Position(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Last)
	require.NoError(t, e.PutBase(ledger.Base{Number: 1, Era: 1, Signature: []byte("s")}, []byte("rows"), 1))
	b, err := e.Base(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Number)
	require.NoError(t, pg.Create(t.Context(), s), "and again nothing changes")
	b, err = e.Base(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Number)
}

// TestABaseNeedsWhatAGroupNeeds: from a server that promises less nothing is kept, and nothing is dropped.
func TestABaseNeedsWhatAGroupNeeds(t *testing.T) {
	c := postgres.Primary(t)
	single := newSingle(t, c.DSN())
	e := open(t, single)
	_, err := e.Take(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, e.Append(ledger.Group{Number: 1, Era: 1, Body: []byte("body"), Signature: []byte("s")}))
	c.Set(t, "synchronous_commit", "off")
	b := ledger.Base{Number: 1, Era: 1, Signature: []byte("s")}
	require.ErrorContains(t, e.PutBase(b, []byte("rows"), 1), "synchronous_commit=off")
	require.ErrorContains(t, e.Mend(t.Context(), must.Get(e.Position(t.Context()))(t), 2, b, []byte("rows")), "synchronous_commit=off")
	groups, err := e.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	b, err = e.Base(t.Context())
	require.NoError(t, err)
	require.Zero(t, b.Number)
}

// TestABaseThatIsCutOff is kept with its groups gone, or the groups are all there.
func TestABaseThatIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(pair *postgres.Pair)
		came string // is true on the primary when the statement is where it is cut off
		kept bool
	}{
		"on the way":           {func(p *postgres.Pair) { p.ToFirst.Halve() }, `SELECT true`, false},
		"on the way back":      {func(p *postgres.Pair) { p.ToFirst.Deafen(true) }, `SELECT count(*) = 1 FROM gated.bases`, true},
		"before it is on disk": {func(p *postgres.Pair) { p.Link.Partition(true) }, `SELECT count(*) = 1 ` + backend, true},
	} {
		t.Run(name, func(t *testing.T) {
			pair := postgres.NewPair(t)
			w := writerOn(t, pair.DSN(), 2*time.Second)
			require.NoError(t, w.engine.Append(w.attempt(2)))
			b := ledger.Base{Number: 1, Era: w.era, Signature: []byte("s")}
			c.cut(pair)
			done := make(chan error, 1)
			go func() { done <- w.engine.PutBase(b, []byte("rows"), w.era) }()
			pair.First.Until(t, c.came)
			if c.kept {
				pair.ToFirst.Cut()
			}
			require.ErrorIs(t, <-done, ledger.ErrInDoubt)
			pair.ToFirst.Deafen(false)
			pair.Link.Partition(false)
			pair.First.Synchronous(t)
			if c.kept { // the server goes on with the commit by itself, and shows it when that is done
				pair.First.Until(t, `SELECT count(*) = 1 FROM gated.bases`)
			}
			e := open(t, w.settings)
			now, err := e.Base(t.Context())
			require.NoError(t, err)
			groups, err := e.Read(t.Context(), 0, 10)
			require.NoError(t, err)
			if c.kept {
				require.EqualValues(t, 1, now.Number)
				require.Len(t, groups, 1)
			} else {
				require.Zero(t, now.Number)
				require.Len(t, groups, 2)
			}
			require.NoError(t, e.PutBase(b, []byte("rows"), w.era), "it can be said again")
			require.EqualValues(t, 2, must.Get(e.Position(t.Context()))(t).Last)
		})
	}
}

// TestAMendThatEndsBetweenItsStatements has begun the era, and dropped nothing. It is said again in that era.
func TestAMendThatEndsBetweenItsStatements(t *testing.T) {
	c := postgres.Primary(t)
	e := open(t, newSingle(t, c.DSN()))
	must.Get(e.Take(t.Context(), 0))(t)
	require.NoError(t, e.Append(ledger.Group{Number: 1, Era: 1, Body: []byte("body"), Signature: []byte("s")}))
	holder := must.Get(pgconn.Connect(t.Context(), c.DSN()))(t)
	defer func() { require.NoError(t, holder.Close(t.Context())) }()
	must.Get(holder.Exec(t.Context(), `BEGIN; LOCK TABLE gated.bases IN EXCLUSIVE MODE`).ReadAll())(t)

	b := ledger.Base{Number: 5, Era: 1, Signature: []byte("s")}
	done := make(chan error, 1)
	go func() { done <- e.Mend(t.Context(), ledger.Position{Era: 1, Last: 1}, 7, b, []byte("rows")) }()
	c.Until(t, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)
	c.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)
	require.Error(t, <-done)
	must.Get(holder.Exec(t.Context(), `ROLLBACK`).ReadAll())(t)

	p := must.Get(e.Position(t.Context()))(t)
	require.EqualValues(t, 7, p.Era)
	require.EqualValues(t, 1, p.Last)
	require.Zero(t, must.Get(e.Base(t.Context()))(t).Number)
	require.Len(t, must.Get(e.Read(t.Context(), 0, 10))(t), 1)
	require.ErrorIs(t, e.Append(ledger.Group{Number: 2, Era: 1, Body: []byte("body"), Signature: []byte("s")}), ledger.ErrFenced)
	require.ErrorIs(t, e.PutBase(ledger.Base{Number: 1, Era: 1, Signature: []byte("s")}, nil, 1), ledger.ErrFenced, "a compaction of before")
	require.NoError(t, e.Mend(t.Context(), p, 8, b, []byte("rows")))
	require.EqualValues(t, 5, must.Get(e.Position(t.Context()))(t).Last)
}
