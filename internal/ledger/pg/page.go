package pg

import (
	"context"
	"fmt"

	"gated/internal/ledger"
)

// The bounds of one read, in bytes. A body that is larger than a page is read in pieces of that size, each by a call of its
// own: so none of them takes longer than its limit because a group is large.
const (
	pageSize = 4 << 20
	pageRoom = 4 << 10   // of a row, for what is beside the body
	bodySize = 512 << 20 // of a group; a body has at most 256 MiB of changes
)

// page reads groups until their bodies are a page, and at least one. A body above that is NULL here.
const page = `SELECT n, era, prev, sig, octet_length(body), CASE WHEN octet_length(body) <= $4 THEN body END FROM
(SELECT *, sum(octet_length(body)) OVER (ORDER BY n) AS bytes, row_number() OVER (ORDER BY n) AS row FROM
(SELECT n, era, prev, sig, body FROM gated.groups WHERE gate = $1 AND n > $2 ORDER BY n LIMIT $3) AS g) AS p
WHERE bytes <= $4 OR row = 1 ORDER BY n`

// Read implements ledger.Engine.
func (e *Engine) Read(ctx context.Context, after uint64, most int) ([]ledger.Group, error) {
	n, err := number(after)
	if err != nil {
		return nil, err
	}
	var groups []ledger.Group
	var large int
	err = e.others.again(ctx, pageSize, func(c *connection) error {
		groups, large, err = e.page(c, n, most)
		return err
	})
	if err == nil && large > 0 {
		groups[0].Body, err = e.body(ctx, pieceOfGroup, int64(groups[0].Number), large)
	}
	if err != nil {
		return nil, e.unavailable(err)
	}
	return groups, nil
}

// page reads one page. Large is the length of the body that is still to be read: the one of the only group.
func (e *Engine) page(c *connection, after int64, most int) (groups []ledger.Group, large int, err error) {
	// Text for the numbers, and binary for the rest.
	rows, err := c.rows(shape{6, most, pageSize + most*pageRoom}, []int16{0, 0, 1, 1, 0, 1}, page,
		bytes(e.gate), integer(after), integer(int64(most)), integer(pageSize))
	if err != nil {
		return nil, 0, err
	}
	for i, row := range rows {
		numbers, err := naturals([]string{string(row[0]), string(row[1]), string(row[4])})
		if err != nil {
			return nil, 0, err
		}
		g := ledger.Group{Number: uint64(numbers[0]), Era: uint64(numbers[1]), Signature: row[3], Body: row[5]}
		switch size := numbers[2]; {
		case len(row[2]) != len(g.Previous):
			return nil, 0, fmt.Errorf("group %d has a link of %d bytes", g.Number, len(row[2]))
		case row[5] == nil && i == 0 && len(rows) == 1 && size > pageSize && size <= bodySize:
			large = int(size)
		case row[5] == nil || int64(len(row[5])) != size:
			return nil, 0, fmt.Errorf("group %d has a body of %d bytes, and the server sent %d", g.Number, size, len(row[5]))
		}
		g.Previous = ledger.Digest(row[2])
		groups = append(groups, g)
	}
	return groups, large, nil
}

// A piece of a body, from a byte that is counted from 1.
const (
	pieceOfGroup = `SELECT substring(body FROM $3::int FOR $4::int) FROM gated.groups WHERE gate = $1 AND n = $2`
	pieceOfBase  = `SELECT substring(body FROM $3::int FOR $4::int) FROM gated.bases WHERE gate = $1 AND n = $2`
)

// body reads a body of a size in pieces. It takes no memory for what the server only says that it has.
func (e *Engine) body(ctx context.Context, piece string, n int64, size int) (body []byte, err error) {
	for len(body) < size {
		want := min(pageSize, size-len(body))
		err := e.others.again(ctx, want, func(c *connection) error {
			rows, err := c.rows(shape{1, 1, want}, []int16{1}, piece,
				bytes(e.gate), integer(n), integer(int64(len(body)+1)), integer(int64(want)))
			if err != nil {
				return err
			}
			if len(rows) != 1 || len(rows[0][0]) != want {
				return fmt.Errorf("the server does not send byte %d of the body of group %d", len(body)+1, n)
			}
			body = append(body, rows[0][0]...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}
