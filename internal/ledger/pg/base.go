package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"gated/internal/ledger"
)

// last is the number of the newest group, or of the base if there is none after it.
const last = `greatest((SELECT max(n) FROM gated.groups WHERE gate = $1), (SELECT n FROM gated.bases WHERE gate = $1), 0)`

// Base implements ledger.Engine.
func (e *Engine) Base(ctx context.Context) (b ledger.Base, err error) {
	err = e.others.again(ctx, 0, func(c *connection) error {
		b, _, err = e.base(c)
		return err
	})
	return b, e.unavailable(err)
}

// base reads the base, and how long its body is.
func (e *Engine) base(c *connection) (b ledger.Base, size int64, err error) {
	// Text for the numbers, and binary for the rest.
	rows, err := c.rows(oneRow(6), []int16{0, 0, 1, 1, 1, 0}, `SELECT n, era, digest, sum, sig, octet_length(body) FROM gated.bases WHERE gate = $1`, bytes(e.gate))
	if err != nil || len(rows) == 0 {
		return b, 0, err
	}
	row := rows[0]
	numbers, err := naturals([]string{string(row[0]), string(row[1]), string(row[5])})
	if err != nil {
		return b, 0, err
	}
	if len(row[2]) != len(b.Digest) || len(row[3]) != len(b.Body) || numbers[2] > bodySize {
		return b, 0, fmt.Errorf("the base has digests of %d and %d bytes, and a body of %d", len(row[2]), len(row[3]), numbers[2])
	}
	return ledger.Base{Number: uint64(numbers[0]), Era: uint64(numbers[1]), Digest: ledger.Digest(row[2]), Body: ledger.Digest(row[3]), Signature: row[4]}, numbers[2], nil
}

// BaseBody implements ledger.Engine.
func (e *Engine) BaseBody(ctx context.Context, b ledger.Base) (body []byte, err error) {
	var now ledger.Base
	var size int64
	err = e.others.again(ctx, 0, func(c *connection) error {
		now, size, err = e.base(c)
		return err
	})
	if err == nil && now.Number != b.Number {
		err = errors.New("the base was replaced by another one")
	}
	if err == nil {
		body, err = e.body(ctx, pieceOfBase, int64(b.Number), int(size))
	}
	return body, e.unavailable(err)
}

// The statements that keep a base, and drop what it stands for, in one transaction. They hold the gate's row, so an era
// that begins meanwhile begins after them. PutBase keeps it if it is newer, and of groups that are there.
const (
	putBase = `WITH s AS MATERIALIZED (SELECT * FROM ` + settings + `),
g AS MATERIALIZED (SELECT era FROM gated.gates WHERE gate = $1 FOR SHARE),
l AS MATERIALIZED (SELECT ` + last + ` AS n),
k AS (INSERT INTO gated.bases AS b (gate, n, era, digest, sum, body, sig) SELECT $1, $2, $3, $4, $5, $6, $7 FROM g, l, s
WHERE g.era = $8 AND %s AND %s ON CONFLICT (gate) DO UPDATE SET n = excluded.n, era = excluded.era, digest = excluded.digest,
sum = excluded.sum, body = excluded.body, sig = excluded.sig WHERE %s RETURNING n),
d AS (DELETE FROM gated.groups WHERE gate = $1 AND %s AND EXISTS (SELECT FROM k))
SELECT ` + promises + `, g.era, l.n, (SELECT count(*) FROM k) FROM g, l, s`

	// raise begins an era that need not be the next one.
	raise = `UPDATE gated.gates SET era = $3, settled = settled + 1 FROM ` + settings + ` WHERE gate = $1 AND era = $2 AND %s RETURNING era`
)

// dropping is the time, in bytes of a call, for groups that a base takes the place of: a minute.
const dropping = 60 * slowest

// PutBase implements ledger.Engine.
func (e *Engine) PutBase(b ledger.Base, body []byte, in uint64) error {
	sql := fmt.Sprintf(putBase, `l.n >= $2`, e.kept(), `b.n < excluded.n`, `n <= $2`)
	row, err := e.put(context.Background(), sql, b, body, in)
	if err != nil || row == nil {
		return err
	}
	there, err := natural(row[4])
	if err != nil {
		return err
	}
	if uint64(there) < b.Number {
		return fmt.Errorf("%w: it has %d groups, so there is no base of group %d", ledger.ErrUnavailable, there, b.Number)
	}
	return nil // it has this one or a newer one
}

// Mend implements ledger.Engine. The era comes first: after it no append is under way, so the second statement sees all
// groups that it drops, and whether one came after from.
func (e *Engine) Mend(ctx context.Context, from ledger.Position, era uint64, b ledger.Base, body []byte) error {
	old, last, err := numbers(from.Era, from.Last)
	if err != nil {
		return err
	}
	next, err := number(era)
	if err != nil || next <= old {
		return errors.Join(err, fmt.Errorf("%w: era %d does not follow on %d", ledger.ErrUnavailable, era, from.Era))
	}
	_, err = e.others.do(ctx, func(c *connection) error { return e.fence(c, raise, old, next, integer(next)) })
	if err != nil {
		return e.unavailable(err)
	}
	row, err := e.put(ctx, fmt.Sprintf(putBase, `l.n = `+strconv.FormatInt(last, 10), e.kept(), `true`, `true`), b, body, era)
	switch {
	case err == nil && row != nil && row[4] != string(integer(last).value):
		err = fmt.Errorf("%w: it has %.20q groups, and it had %d", ledger.ErrFenced, row[4], last)
	case err == nil && row != nil:
		err = fmt.Errorf("%w: it did not take the base, and now it would", ledger.ErrUnavailable)
	}
	return err
}

// put is keep for a base.
func (e *Engine) put(ctx context.Context, sql string, b ledger.Base, body []byte, in uint64) (row []string, err error) {
	n, era, err := numbers(b.Number, b.Era)
	if err != nil {
		return nil, err
	}
	now, err := number(in)
	if err != nil {
		return nil, err
	}
	return e.keep(ctx, e.others, len(body)+dropping, 6, now, sql, bytes(e.gate), integer(n), integer(era), bytes(b.Digest[:]), bytes(b.Body[:]),
		bytes(body), bytes(b.Signature), integer(now))
}
