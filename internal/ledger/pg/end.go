package pg

import (
	"context"
	"errors"
	"fmt"

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
		row, err := c.change(e.single, 1, func([]string) bool { return true }, fmt.Sprintf(end, e.kept()), bytes(e.gate), integer(n), integer(int64(ledger.Ended)))
		switch {
		case err != nil:
			return err
		case row == nil:
			return e.why(c, n)
		case row[0] != string(integer(int64(ledger.Ended)).value):
			return errors.New("the server answers with another era")
		}
		return nil
	})
	return e.unavailable(err)
}
