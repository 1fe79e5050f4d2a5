package pg

import (
	"context"

	"gated/internal/ledger"
)

const end = `UPDATE gated.gates SET era = $3, beat = era, settled = settled + 1 FROM ` + settings + ` WHERE gate = $1 AND era = $2 AND %s RETURNING era`

// End implements ledger.Engine. An end whose commit is in doubt is an error; the caller asks for the position again.
func (e *Engine) End(ctx context.Context, from uint64) error {
	n, err := number(from)
	if err != nil {
		return err
	}
	_, err = e.others.do(ctx, func(c *connection) error {
		return e.fence(c, end, n, int64(ledger.Ended), integer(int64(ledger.Ended)))
	})
	return e.unavailable(err)
}
