package pg

import (
	"context"
	"fmt"
	"time"

	"gated/internal/ledger"
)

// Position implements ledger.Engine.
func (e *Engine) Position(ctx context.Context) (p ledger.Position, err error) {
	err = e.others.again(ctx, 0, func(c *connection) error {
		p, err = e.position(c)
		return err
	})
	return p, e.unavailable(err)
}

func (e *Engine) position(c *connection) (ledger.Position, error) {
	row, err := c.ask(3, `SELECT era, beat, `+last+` FROM gated.gates WHERE gate = $1`, bytes(e.gate))
	if err != nil {
		return ledger.Position{}, err
	}
	if row == nil {
		return ledger.Position{}, refused("the ledger does not know this gate", "create the gate's ledger in it, or check gate and database")
	}
	n, err := naturals(row)
	if err != nil {
		return ledger.Position{}, err
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
		row, err := c.change(e.single, 2, always, fmt.Sprintf(take, e.kept()), bytes(e.gate), integer(n))
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

// Time implements ledger.Timed.
func (e *Engine) Time(ctx context.Context) (at time.Time, err error) {
	err = e.others.again(ctx, 0, func(c *connection) error {
		row, err := c.must(1, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)
		if err != nil {
			return err
		}
		us, err := natural(row[0])
		at = time.UnixMicro(us).UTC()
		return err
	})
	return at, e.unavailable(err)
}

var _ ledger.Timed = (*Engine)(nil)
