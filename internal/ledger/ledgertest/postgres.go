//go:build ledgerpg

package ledgertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
)

// slow is how long a call may take: a Keeper of a test asks three times and no more, and the machine may be busy.
const slow = time.Minute

// onServer makes empty ledgers on a server. Without the tag, no test of what decides links a client of PostgreSQL.
var onServer = inPostgres

// inPostgres makes empty ledgers on one server: each is of a gate of its own there. A failure ends the test program,
// because no test can go on.
func inPostgres(connection string) func() func() ledger.Engine {
	return func() func() ledger.Engine {
		s := pg.Settings{Connection: connection, Gate: rand.Text(), Limit: slow}
		if err := pg.Create(context.Background(), s); err != nil {
			panic(fmt.Sprintf("a ledger in PostgreSQL: %v", err))
		}
		return func() ledger.Engine {
			e, err := pg.Open(context.Background(), s)
			if err != nil {
				panic(fmt.Sprintf("a ledger in PostgreSQL: %v", err))
			}
			return e
		}
	}
}
