package pg

import (
	"context"
	"fmt"
	"time"

	"gated/internal/ledger"
)

// Position implements ledger.Engine.
func (e *Engine) Position(ctx context.Context) (p ledger.Position, err error) {
	err = e.others.again(ctx, func(c *connection) error {
		p, err = e.position(c)
		return err
	})
	return p, e.unavailable(err)
}

func (e *Engine) position(c *connection) (ledger.Position, error) {
	rows, err := c.ask(`SELECT era, beat, (SELECT coalesce(max(n), 0) FROM gated.groups WHERE gate = $1) FROM gated.gates WHERE gate = $1`, bytes(e.gate))
	if err != nil {
		return ledger.Position{}, err
	}
	if len(rows) == 0 {
		return ledger.Position{}, refused("the ledger does not know this gate", "create the gate's ledger in it, or check gate and database")
	}
	var n [3]int64
	for i, text := range rows[0] {
		if n[i], err = natural(text); err != nil {
			return ledger.Position{}, err
		}
	}
	return ledger.Position{Era: uint64(n[0]), Beat: uint64(n[1]), Last: uint64(n[2])}, nil
}

const take = `UPDATE gated.gates SET era = era + 1, settled = settled + 1 FROM ` + settings + ` WHERE gate = $1 AND era = $2 AND %s RETURNING era, settled`

// Take implements ledger.Engine. An era whose commit is in doubt is not taken; the caller asks for the position again.
func (e *Engine) Take(ctx context.Context, from uint64) (p ledger.Position, err error) {
	n, err := number(from)
	if err != nil {
		return p, err
	}
	var settled int64
	_, err = e.others.do(ctx, func(c *connection) error {
		row, err := c.change(e.single, func([]string) bool { return true }, fmt.Sprintf(take, e.kept()), bytes(e.gate), integer(n))
		if err != nil {
			return err
		}
		if row == nil {
			return e.why(c, n)
		}
		if settled, err = natural(row[1]); err != nil {
			return err
		}
		if p, err = e.position(c); err == nil && p.Era != from+1 {
			return fenced(fmt.Sprint(p.Era))
		}
		return err
	})
	if err != nil {
		return ledger.Position{}, e.unavailable(err)
	}
	e.learn(settled, false)
	return p, nil
}

// Read implements ledger.Engine.
func (e *Engine) Read(ctx context.Context, after uint64, most int) (groups []ledger.Group, err error) {
	n, err := number(after)
	if err != nil {
		return nil, err
	}
	err = e.others.again(ctx, func(c *connection) error {
		groups, err = e.read(c, n, most)
		return err
	})
	if err != nil {
		return nil, e.unavailable(err)
	}
	return groups, nil
}

func (e *Engine) read(c *connection, after int64, most int) ([]ledger.Group, error) {
	values, oids, formats := split([]argument{bytes(e.gate), integer(after), integer(int64(most))})
	// Text for the numbers, and binary for the rest.
	r := c.ExecParams(context.Background(), `SELECT n, era, prev, body, sig FROM gated.groups WHERE gate = $1 AND n > $2 ORDER BY n LIMIT $3`,
		values, oids, formats, []int16{0, 0, 1, 1, 1}).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	var groups []ledger.Group
	for _, row := range r.Rows {
		n, err := natural(string(row[0]))
		if err != nil {
			return nil, err
		}
		era, err := natural(string(row[1]))
		if err != nil {
			return nil, err
		}
		if len(row[2]) != len(ledger.Digest{}) {
			return nil, fmt.Errorf("group %d has a link of %d bytes", n, len(row[2]))
		}
		groups = append(groups, ledger.Group{Number: uint64(n), Era: uint64(era), Previous: ledger.Digest(row[2]), Body: row[3], Signature: row[4]})
	}
	return groups, nil
}

// Time implements ledger.Timed.
func (e *Engine) Time(ctx context.Context) (at time.Time, err error) {
	err = e.others.again(ctx, func(c *connection) error {
		rows, err := c.ask(`SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)
		if err != nil {
			return err
		}
		us, err := natural(rows[0][0])
		at = time.UnixMicro(us).UTC()
		return err
	})
	return at, e.unavailable(err)
}

var _ ledger.Timed = (*Engine)(nil)
