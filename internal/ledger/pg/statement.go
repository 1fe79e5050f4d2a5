package pg

import (
	"context"
	"errors"
	"fmt"
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

// ask runs one statement, and returns its rows as text. Its context never ends, because pgconn would cancel the statement.
func (c *connection) ask(sql string, args ...argument) ([][]string, error) {
	values, oids, formats := split(args)
	r := c.ExecParams(context.Background(), sql, values, oids, formats, nil).Read()
	return texts(r), r.Err
}

func texts(r *pgconn.Result) [][]string {
	var out [][]string
	for _, row := range r.Rows {
		var line []string
		for _, value := range row {
			line = append(line, string(value))
		}
		out = append(out, line)
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
func (c *connection) change(single bool, done func(row []string) bool, sql string, args ...argument) ([]string, error) {
	p := c.StartPipeline(context.Background())
	values, oids, formats := split(args)
	p.SendQueryParams(sql, values, oids, formats, nil)
	p.SendPipelineSync()
	p.SendQueryParams(reached, nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		return nil, err
	}
	rows, err := transaction(p)
	var from *pgconn.PgError
	if errors.As(err, &from) && from.SeverityUnlocalized == "ERROR" {
		return nil, errStatement{err}
	}
	if err != nil {
		return nil, err
	}
	warning := c.warning
	place, err := transaction(p)
	if err = errors.Join(err, p.Close()); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if len(place) != 1 {
		return nil, errors.New("the server does not say how far its log is")
	}
	switch {
	case !done(rows[0]):
		return rows[0], nil
	case warning != "":
		return nil, fmt.Errorf("the server warned: %s", warning)
	case single || place[0][1] == "t":
		return rows[0], nil
	}
	return rows[0], c.replicated(place[0][0])
}

// transaction reads the answers to one statement and its sync. Only after the sync it is committed.
func transaction(p *pgconn.Pipeline) ([][]string, error) {
	var rows [][]string
	var first error
	for {
		got, err := p.GetResults()
		switch got := got.(type) {
		case *pgconn.ResultReader:
			r := got.Read()
			rows = texts(r)
			if first == nil {
				first = r.Err
			}
		case *pgconn.PipelineSync:
			return rows, first
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

// replicated waits until a synchronous standby has the log up to a place. The caller's limit closes the socket.
func (c *connection) replicated(place string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		rows, err := c.ask(reachedSince, words(place))
		if err != nil {
			return fmt.Errorf("no synchronous standby has the group: %w", err)
		}
		if rows[0][0] == "t" {
			return nil
		}
		<-time.After(pause)
	}
}

// natural reads a number of a row.
func natural(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: the ledger has a number that is none: %q", ledger.ErrUnavailable, s)
	}
	return n, nil
}
