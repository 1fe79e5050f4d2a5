package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/ledger"
)

// argument is one parameter of a statement.
type argument struct {
	oid    uint32
	format int16 // 1 is binary
	value  []byte
}

func bytes(b []byte) argument {
	if b == nil {
		b = []byte{} // nil is NULL
	}
	return argument{17, 1, b}
}

func integer(n int64) argument { return argument{20, 0, strconv.AppendInt(nil, n, 10)} }

func words(s string) argument { return argument{25, 0, []byte(s)} }

func split(args []argument) (values [][]byte, oids []uint32, formats []int16) {
	for _, a := range args {
		values, oids, formats = append(values, a.value), append(oids, a.oid), append(formats, a.format)
	}
	return values, oids, formats
}

// shape is what an answer has: columns in each row, and at most so many rows and bytes in all of them. The server may lie,
// so what has another shape is an error.
type shape struct{ columns, rows, bytes int }

// oneRow is the shape of most answers.
func oneRow(columns int) shape { return shape{columns, 1, 1 << 20} }

// read reads an answer. After an error the connection is of no use.
func (s shape) read(r *pgconn.ResultReader) (rows [][][]byte, err error) {
	size := 0
	for r.NextRow() {
		values := r.Values()
		row := make([][]byte, len(values))
		for i, v := range values {
			size += len(v)
			row[i] = slices.Clone(v)
		}
		if len(values) != s.columns || len(rows) == s.rows || size > s.bytes {
			return nil, fmt.Errorf("the server's answer has another form than its statement: row %d has %d columns, and with it are %d bytes",
				len(rows)+1, len(values), size)
		}
		rows = append(rows, row)
	}
	_, err = r.Close()
	return rows, err
}

// ask runs one statement, and returns its one row as text, or nil if it has none. Its context never ends, because pgconn
// would cancel the statement.
func (c *connection) ask(columns int, sql string, args ...argument) ([]string, error) {
	rows, err := c.rows(oneRow(columns), nil, sql, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return texts(rows[0]), nil
}

// must is ask for a statement that always has a row.
func (c *connection) must(columns int, sql string, args ...argument) ([]string, error) {
	row, err := c.ask(columns, sql, args...)
	if err == nil && row == nil {
		err = errors.New("the server's answer has no row, and its statement always has one")
	}
	return row, err
}

// rows runs one statement whose answer has a shape, with the formats of its columns; nil is text.
func (c *connection) rows(s shape, results []int16, sql string, args ...argument) ([][][]byte, error) {
	values, oids, formats := split(args)
	return s.read(c.ExecParams(context.Background(), sql, values, oids, formats, results))
}

// texts is a row as text; NULL is empty.
func texts(row [][]byte) (out []string) {
	for _, value := range row {
		out = append(out, string(value))
	}
	return out
}

// errStatement wraps an error after which a statement changed nothing.
type errStatement struct{ error }

func (e errStatement) Unwrap() error { return e.error }

// reached asks for the end of the log here, and whether a synchronous standby has it on disk.
const reached = `SELECT l.place, EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= l.place)
FROM (SELECT pg_current_wal_flush_lsn() AS place) AS l`

const reachedSince = `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= $1::pg_lsn)`

// change runs one statement as a transaction of its own, and in the same round trip asks a synchronous standby's place. If
// the statement certainly changed nothing, the error is an errStatement.
//
// A row alone is no proof: an administrator can cancel the wait for the standby (a warning), end the session in it, or
// empty synchronous_standby_names (no warning). So the warning and the standby's place are both asked.
func (c *connection) change(single bool, columns int, done func(row []string) bool, sql string, args ...argument) ([]string, error) {
	if err := errors.Join(c.prepare(sql, args), c.prepare(reached, nil)); err != nil {
		return nil, errStatement{err}
	}
	p := c.StartPipeline(context.Background())
	c.send(p, sql, args)
	p.SendPipelineSync()
	c.send(p, reached, nil)
	if err := p.Sync(); err != nil {
		return nil, err
	}
	row, err := transaction(p, columns)
	if isError(err) {
		return nil, errStatement{err}
	}
	if err != nil {
		return nil, err
	}
	warning := c.warning
	at, err := transaction(p, 2)
	if err != nil { // it may still send, so its end is not waited for
		return nil, err
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	if row == nil {
		return nil, nil
	}
	if at == nil {
		return nil, errors.New("the server does not say how far its log is")
	}
	switch {
	case !done(row):
		return row, nil
	case warning != "":
		return nil, fmt.Errorf("the server warned: %s", warning)
	case single || at[1] == "t":
		return row, nil
	}
	return row, c.replicated(at[0])
}

// prepare has the server parse and plan a statement of a line that repeats its statements, which costs more than to run it.
// The session has a handful of them, because their texts are constants of this package.
func (c *connection) prepare(sql string, args []argument) error {
	if c.prepared == nil || c.prepared[sql] != "" {
		return nil
	}
	_, oids, _ := split(args)
	name := "s" + strconv.Itoa(len(c.prepared))
	if _, err := c.Prepare(context.Background(), name, sql, oids); err != nil {
		return err
	}
	c.prepared[sql] = name
	return nil
}

// send puts a statement into a pipeline.
func (c *connection) send(p *pgconn.Pipeline, sql string, args []argument) {
	values, oids, formats := split(args)
	if name := c.prepared[sql]; name != "" {
		p.SendQueryPrepared(name, values, formats, nil)
		return
	}
	p.SendQueryParams(sql, values, oids, formats, nil)
}

// always is for a statement of which every row is of a change.
func always([]string) bool { return true }

// transaction reads the answers to one statement and its sync: one row or, as nil, none. Only after the sync it is
// committed.
func transaction(p *pgconn.Pipeline, columns int) (row []string, first error) {
	answered := false
	for {
		got, err := p.GetResults()
		switch got := got.(type) {
		case *pgconn.ResultReader:
			if answered {
				return nil, errors.New("the server answers one statement twice")
			}
			answered = true
			var rows [][][]byte
			if rows, first = oneRow(columns).read(got); first != nil && !isError(first) {
				return nil, first
			}
			if len(rows) > 0 {
				row = texts(rows[0])
			}
		case *pgconn.PipelineSync:
			if !answered && first == nil {
				first = errors.New("the server commits a statement without an answer to it")
			}
			return row, first
		default:
			if err == nil {
				err = errors.New("the server's answer ended before its commit")
			}
			if !isError(err) {
				return nil, err
			}
			answered = true
			if first == nil {
				first = err // the sync follows
			}
		}
	}
}

// isError reports that the server refused a statement, and goes on.
func isError(err error) bool {
	var from *pgconn.PgError
	return errors.As(err, &from) && from.SeverityUnlocalized == "ERROR"
}

// replicated waits until a synchronous standby has the log up to a place. The caller's limit closes the socket.
func (c *connection) replicated(place string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		row, err := c.must(1, reachedSince, words(place))
		if err != nil {
			return fmt.Errorf("no synchronous standby has the group: %w", err)
		}
		if row[0] == "t" {
			return nil
		}
		<-time.After(pause)
	}
}

// naturals reads numbers of a row.
func naturals(texts []string) (out []int64, err error) {
	for _, s := range texts {
		n, err := natural(s)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// natural reads a number of a row.
func natural(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: the ledger has a number that is none: %q", ledger.ErrUnavailable, s)
	}
	return n, nil
}
