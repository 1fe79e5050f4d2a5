package pg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

func TestTLSIsVerifiedAndItsSocketIsClosedAtTheLimit(t *testing.T) {
	c := postgres.Primary(t)
	root := c.TLS(t, "127.0.0.1")
	proxy := postgres.NewProxy(t, c.Port)
	s := pg.Settings{Gate: "one", Single: true, Limit: 10 * time.Second,
		Connection: fmt.Sprintf("host=127.0.0.1 port=%d user=gated dbname=postgres sslmode=verify-full sslrootcert=%s", proxy.Port, root)}
	require.NoError(t, pg.Create(t.Context(), s))
	w := newWriter(t, s)
	require.NoError(t, w.engine.Append(w.attempt(1)))
	c.Until(t, `SELECT count(*) > 0 FROM pg_stat_ssl WHERE ssl`)
	proxy.Deafen(true)
	require.ErrorIs(t, w.engine.Append(w.attempt(2)), ledger.ErrInDoubt)
	proxy.Deafen(false)
	require.True(t, must.Get(w.engine.Settle(w.era, 2))(t))

	other := postgres.Primary(t)
	other.TLS(t, "127.0.0.1")
	s.Connection = fmt.Sprintf("host=127.0.0.1 port=%d user=gated dbname=postgres sslmode=verify-full sslrootcert=%s", other.Port, root)
	refuses(t, s, "certificate")
}
