package pg

import (
	"context"
	"errors"
	"fmt"

	"gated/internal/ledger"
)

// The gate's row is the fence. An append holds it shared until its commit is over, standby included; Take, Settle and Beat
// hold it alone. So after one of these no append of an earlier era, or from before the settling, is under way, and one
// that arrives later finds another era or another count of settlings. All of it is one statement, without a session's state.
const insert = `WITH s AS MATERIALIZED (SELECT * FROM ` + settings + `),
g AS MATERIALIZED (SELECT era, settled FROM gated.gates WHERE gate = $1 FOR SHARE),
l AS MATERIALIZED (SELECT ` + last + ` AS n),
k AS (INSERT INTO gated.groups (gate, n, era, prev, body, sig) SELECT $1, $2, $3, $4, $5, $6 FROM g, l, s
WHERE g.era = $3 AND g.settled = $7 AND l.n = $2 - 1 AND %s RETURNING n)
SELECT ` + promises + `, g.era, g.settled, l.n, (SELECT count(*) FROM k) FROM g, l, s`

// Append implements ledger.Engine.
func (e *Engine) Append(g ledger.Group) error {
	n, era, err := numbers(g.Number, g.Era)
	if err != nil {
		return err
	}
	for range 3 { // a settling that was late changes the count, and no more than that
		again, err := e.append(n, era, g)
		if !again {
			return err
		}
	}
	return fmt.Errorf("%w: its count of settlings changes all the time", ledger.ErrUnavailable)
}

// append tries once. Again is true if only the count of settlings was another one.
func (e *Engine) append(n, era int64, g ledger.Group) (again bool, err error) {
	settled, doubt := e.state()
	if doubt {
		return false, fmt.Errorf("%w: the group before is not settled", ledger.ErrUnavailable)
	}
	row, err := e.keep(context.Background(), e.groups, len(g.Body), 7, era, fmt.Sprintf(insert, e.kept()),
		bytes(e.gate), integer(n), integer(era), bytes(g.Previous[:]), bytes(g.Body), bytes(g.Signature), integer(settled))
	if errors.Is(err, ledger.ErrInDoubt) {
		e.learn(settled, true)
	}
	if err != nil || row == nil {
		return false, err
	}
	now, err := natural(row[4])
	if err != nil {
		return false, err
	}
	if now != settled {
		e.learn(now, false)
		return true, nil
	}
	return false, fmt.Errorf("%w: it has %s groups, so group %d is not the next one", ledger.ErrUnavailable, row[5], n)
}

// keep runs a statement that keeps something in an era. Its one row begins with what promises has and the era, and ends with
// 1 if it kept it. The row is returned if it kept nothing for a reason of the statement's own.
func (e *Engine) keep(ctx context.Context, on *line, size, columns int, era int64, sql string, args ...argument) (row []string, err error) {
	kept := func(row []string) bool { return row[columns-1] == "1" }
	sent, err := on.carry(ctx, size, func(c *connection) (err error) {
		row, err = c.change(e.single, columns, kept, sql, args...)
		if err == nil && row != nil {
			_, err = naturals(row[3:])
		}
		return err
	})
	var nothing errStatement
	switch {
	case !sent || errors.As(err, &nothing):
		return nil, e.unavailable(err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s", ledger.ErrInDoubt, e.says(err))
	case row == nil:
		return nil, fmt.Errorf("%w: it does not know this gate", ledger.ErrUnavailable)
	case kept(row):
		return nil, nil
	case row[3] != string(integer(era).value):
		return nil, fenced(row[3])
	}
	return row, e.unavailable(e.promised(row[:3]))
}

const settle = `UPDATE gated.gates SET settled = settled + (era = $2)::int FROM ` + settings + ` WHERE gate = $1 AND %s RETURNING era, settled`

// counted counts a group, also one that is the newest of the base. A base of later groups rests on those of another daemon.
const counted = `SELECT (SELECT count(*) FROM gated.groups WHERE gate = $1 AND n = $2 AND era = $3) +
(SELECT count(*) FROM gated.bases WHERE gate = $1 AND n = $2 AND era = $3), EXISTS (SELECT FROM gated.bases WHERE gate = $1 AND n > $2)`

// Settle implements ledger.Engine. It commits a marker behind the row's lock, and so after each append that is still
// under way. What it then sees is on the disk of the standby that has the marker.
func (e *Engine) Settle(era, number uint64) (kept bool, err error) {
	var row []string
	_, err = e.groups.do(context.Background(), func(c *connection) error {
		row, err = c.change(e.single, 2, always, fmt.Sprintf(settle, e.kept()), bytes(e.gate), integer(int64(era)))
		if err != nil {
			return err
		}
		if row == nil {
			return errors.New("its server does not promise what it must, or does not know this gate")
		}
		found, err := c.must(2, counted, bytes(e.gate), integer(int64(number)), integer(int64(era)))
		switch {
		case err != nil:
			return err
		case found[0] != "0" && found[0] != "1" || found[1] != "t" && found[1] != "f":
			return errors.New("the server counts groups of one number otherwise than 0 or 1")
		case found[0] == "0" && found[1] == "t":
			return fmt.Errorf("%w: its base stands for later groups", ledger.ErrFenced)
		}
		kept = found[0] == "1"
		return nil
	})
	if err != nil {
		return false, e.unavailable(err)
	}
	settled, err := natural(row[1])
	if err != nil {
		return false, err
	}
	e.learn(settled, false)
	return kept, nil
}

const beat = `UPDATE gated.gates SET beat = beat + 1 FROM ` + settings + ` WHERE gate = $1 AND era = $2 AND %s RETURNING era`

// Beat implements ledger.Engine. A beat that may not be on a standby is none.
func (e *Engine) Beat(era uint64) error {
	_, err := e.beats.do(context.Background(), func(c *connection) error { return e.fence(c, beat, int64(era), int64(era)) })
	return e.unavailable(err)
}

// fence runs a statement that changes the gate's row in an era, and answers the era after it.
func (e *Engine) fence(c *connection, sql string, era, after int64, more ...argument) error {
	row, err := c.change(e.single, 1, always, fmt.Sprintf(sql, e.kept()), append([]argument{bytes(e.gate), integer(era)}, more...)...)
	switch {
	case err != nil:
		return err
	case row == nil:
		return e.why(c, era)
	case row[0] != string(integer(after).value):
		return errors.New("the server answers with another era")
	}
	return nil
}

// why says after a statement that changed no row which of its conditions was false.
func (e *Engine) why(c *connection, era int64) error {
	row, err := c.ask(4, `SELECT `+promises+`, era FROM gated.gates, `+settings+` WHERE gate = $1`, bytes(e.gate))
	switch {
	case err != nil:
		return err
	case row == nil:
		return errors.New("it does not know this gate")
	}
	now, err := natural(row[3])
	if err != nil {
		return err
	}
	if now != era {
		return fenced(row[3])
	}
	if err := e.promised(row[:3]); err != nil {
		return err
	}
	return errors.New("it changed nothing, and now it would")
}

func (e *Engine) state() (settled int64, doubt bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled, e.doubt
}

func (e *Engine) learn(settled int64, doubt bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settled, e.doubt = settled, doubt
}
