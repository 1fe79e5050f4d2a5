package pgpool

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/base/refusal"
)

// Value is one parameter of a statement.
type Value struct {
	oid    uint32
	format int16 // 1 is binary
	value  []byte
}

// Bytes is a bytea; nil is an empty one.
func Bytes(b []byte) Value {
	if b == nil {
		b = []byte{} // nil would be NULL
	}
	return Value{17, 1, b}
}

// Text is the bytes of a text as a bytea, because PostgreSQL's text refuses NUL.
func Text(s string) Value { return Bytes([]byte(s)) }

// Int is a bigint.
func Int(n int64) Value { return Value{20, 0, strconv.AppendInt(nil, n, 10)} }

// Bool is a boolean.
func Bool(b bool) Value { return Value{16, 0, strconv.AppendBool(nil, b)} }

// Texts are bytes of texts as a bytea[].
func Texts(list []string) Value {
	out := []byte{'{'}
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `"\\x`...)
		out = append(hex.AppendEncode(out, []byte(s)), '"')
	}
	return Value{1001, 0, append(out, '}')}
}

// Ints are a bigint[].
func Ints(list []int64) Value {
	out := []byte{'{'}
	for i, n := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, n, 10)
	}
	return Value{1016, 0, append(out, '}')}
}

// Statement is SQL with its parameters.
type Statement struct {
	SQL    string
	Values []Value
}

// Say returns a statement.
func Say(sql string, values ...Value) Statement { return Statement{sql, values} }

// Row is one row of an answer. All columns are in PostgreSQL's binary form.
type Row [][]byte

// Text returns a column of bytea or text.
func (r Row) Text(i int) string { return string(r[i]) }

// Int returns a column of bigint; 0 for NULL.
func (r Row) Int(i int) (n int64) {
	for _, b := range r[i] {
		n = n<<8 | int64(b)
	}
	return n
}

// Bool returns a column of boolean.
func (r Row) Bool(i int) bool { return len(r[i]) == 1 && r[i][0] == 1 }

// Transaction runs statements as one transaction in one round trip, each with a snapshot of its own, and returns the rows
// of each. It returns after the commit. If the server warned, it is an error: PostgreSQL warns if an administrator
// cancelled the wait for a standby.
func (c *Conn) Transaction(ctx context.Context, statements ...Statement) ([][]Row, error) {
	p := c.StartPipeline(ctx)
	for _, s := range statements {
		var values [][]byte
		var oids []uint32
		var formats []int16
		for _, v := range s.Values {
			values, oids, formats = append(values, v.value), append(oids, v.oid), append(formats, v.format)
		}
		p.SendQueryParams(s.SQL, values, oids, formats, []int16{1})
	}
	if err := p.Sync(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	rows, err := answers(p, len(statements))
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err == nil && c.warning != "" {
		err = refusal.New(refusal.Unavailable, "%s warned: %s", c.pool.What, c.warning)
	}
	return rows, err
}

// answers reads up to the sync, after which the transaction is over.
func answers(p *pgconn.Pipeline, n int) ([][]Row, error) {
	var out [][]Row
	var first error
	for {
		got, err := p.GetResults()
		switch got := got.(type) {
		case *pgconn.ResultReader:
			r := got.Read()
			rows := make([]Row, len(r.Rows))
			for i, row := range r.Rows {
				rows[i] = row
			}
			out = append(out, rows)
			if first == nil {
				first = r.Err
			}
		case *pgconn.PipelineSync:
			if first == nil && len(out) != n {
				first = fmt.Errorf("the server answered %d of %d statements", len(out), n)
			}
			return out, first
		case nil:
			if err == nil {
				err = errors.New("the server's answer ended before its commit")
			}
			var from *pgconn.PgError
			if !errors.As(err, &from) || from.SeverityUnlocalized != "ERROR" {
				return nil, err
			}
			if first == nil {
				first = err // the sync follows
			}
		}
	}
}

// Transaction runs statements on a connection of the pool.
func (p *Pool) Transaction(ctx context.Context, statements ...Statement) (rows [][]Row, err error) {
	return rows, p.Do(ctx, func(ctx context.Context, c *Conn) error {
		rows, err = c.Transaction(ctx, statements...)
		return err
	})
}

// Ask runs one statement that only reads. If the connection was of earlier, it may have broken since, and a new one is
// tried.
func (p *Pool) Ask(ctx context.Context, sql string, values ...Value) ([]Row, error) {
	rows, err := p.Transaction(ctx, Say(sql, values...))
	if errors.Is(err, refusal.Unavailable) && ctx.Err() == nil {
		rows, err = p.Transaction(ctx, Say(sql, values...))
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}
