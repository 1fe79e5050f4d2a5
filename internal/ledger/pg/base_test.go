package pg_test

import (
	"testing"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/postgres"

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
	require.ErrorContains(t, e.Mend(t.Context(), 1, 2, b, []byte("rows")), "synchronous_commit=off")
	groups, err := e.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	b, err = e.Base(t.Context())
	require.NoError(t, err)
	require.Zero(t, b.Number)
}
