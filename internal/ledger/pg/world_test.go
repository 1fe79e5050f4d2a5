package pg_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

var gates atomic.Int64

// newGate returns settings of a gate that no other test has, created in the ledger.
func newGate(t testing.TB, dsn string) pg.Settings {
	t.Helper()
	s := pg.Settings{Connection: dsn, Gate: fmt.Sprintf("gate %d", gates.Add(1)), Limit: 10 * time.Second}
	must.Get(true, pg.Create(t.Context(), s))(t)
	return s
}

// newSingle is newGate for a server without a standby.
func newSingle(t testing.TB, dsn string) pg.Settings {
	t.Helper()
	s := pg.Settings{Connection: dsn, Gate: fmt.Sprintf("gate %d", gates.Add(1)), Single: true, Limit: 10 * time.Second}
	must.Get(true, pg.Create(t.Context(), s))(t)
	return s
}

func open(t testing.TB, s pg.Settings) *pg.Engine {
	t.Helper()
	// A server on a busy machine may need longer than the limit of one call, which is what a test is about.
	e, err := pg.Open(context.Background(), s)
	for end := time.Now().Add(time.Minute); errors.Is(err, ledger.ErrUnavailable) && time.Now().Before(end); {
		e, err = pg.Open(context.Background(), s)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestEngine(t *testing.T) {
	pair := postgres.NewPair(t)
	ledgertest.Engines(t, func(t *testing.T) ledgertest.World {
		s := newGate(t, pair.DSN())
		s.Limit = 5 * time.Second
		return ledgertest.World{
			Member: func(t *testing.T) ledger.Engine { return open(t, s) },
			Doubt: func(_ *testing.T, _ ledger.Engine, kept bool) func() {
				if kept {
					pair.ToFirst.Deafen(true)
					return func() { pair.ToFirst.Deafen(false); pair.ToFirst.Cut() }
				}
				pair.ToFirst.Halve()
				return func() {}
			},
		}
	})
}
