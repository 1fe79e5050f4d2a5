package store

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"
	"pgregory.net/rapid"
)

// requireIdle checks that a connection has no statement but those that it keeps, and that none of them runs.
func requireIdle(t require.TestingT, c *conn) {
	live := 0
	for st := sqlite3.Xsqlite3_next_stmt(c.tls, c.db, 0); st != 0; st = sqlite3.Xsqlite3_next_stmt(c.tls, c.db, st) {
		require.Zero(t, sqlite3.Xsqlite3_stmt_busy(c.tls, st), "a statement is still open")
		live++
	}
	require.Equal(t, len(c.stmts)+len(c.own), live)
	for query, st := range c.stmts {
		require.False(t, st.busy, query)
	}
}

const countTo = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) SELECT i, ?2 || i FROM n LIMIT ?1`

// counting is a query that counts, as far as its rows were read.
type counting struct {
	rows   *Rows
	upTo   int
	prefix string
	at     int
}

// next reads a row and checks it.
func (q *counting) next(t *rapid.T) {
	if !q.rows.Next() {
		require.NoError(t, q.rows.Err())
		require.Equal(t, q.upTo, q.at)
		return
	}
	var n int
	var text string
	require.NoError(t, q.rows.Scan(&n, &text))
	q.at++
	require.Equal(t, q.at, n)
	require.Equal(t, fmt.Sprint(q.prefix, n), text)
}

// Queries with the same text run inside each other, end in any order or not at all, and each has its own arguments.
func TestRowsOfManyQueriesAtOnce(t *testing.T) {
	s := tempStore(t)
	rapid.Check(t, func(t *rapid.T) {
		var used *conn
		require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
			used = tx.s.conn
			var all []*counting
			t.Repeat(map[string]func(*rapid.T){
				"begin": func(t *rapid.T) {
					q := &counting{upTo: rapid.IntRange(0, 3).Draw(t, "rows"), prefix: strings.Repeat("x", rapid.IntRange(0, 700).Draw(t, "bytes"))}
					rows, err := tx.Query(countTo, q.upTo, q.prefix)
					require.NoError(t, err)
					q.rows = rows
					all = append(all, q)
				},
				"next": func(t *rapid.T) {
					if len(all) > 0 {
						rapid.SampledFrom(all).Draw(t, "query").next(t)
					}
				},
				"close": func(t *rapid.T) {
					if len(all) > 0 {
						i := rapid.IntRange(0, len(all)-1).Draw(t, "query")
						require.NoError(t, all[i].rows.Close())
						require.False(t, all[i].rows.Next())
						all = append(all[:i], all[i+1:]...)
					}
				},
				"row": func(t *rapid.T) {
					var n int
					var text string
					require.NoError(t, tx.QueryRow(countTo, 2, "y").Scan(&n, &text))
					require.Equal(t, "y1", text)
				},
			})
			return nil
		}))
		requireIdle(t, used)
	})
}

func TestRowsAfterTheirFunctionAreOver(t *testing.T) {
	s := tempStore(t)
	var rows *Rows
	var row *Row
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) (err error) {
		rows, err = tx.Query(countTo, 3, "")
		row = tx.QueryRow(countTo, 3, "")
		require.True(t, rows.Next())
		return err
	}))
	require.False(t, rows.Next())
	require.ErrorContains(t, rows.Scan(new(int), new(string)), "without a row")
	require.NoError(t, rows.Close())
	require.Error(t, row.Scan(new(int), new(string)))
	requireIdle(t, s.writer.session.conn)
}

// A function that panics or ends its goroutine leaves no statement open, although it closed none.
func TestFunctionsThatDoNotReturnLeaveNoStatement(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": func() { (&testing.T{}).FailNow() },
	} {
		t.Run(name, func(t *testing.T) {
			s := tempStore(t)
			done := make(chan error, 1)
			go func() {
				done <- s.Update(t.Context(), func(tx *Tx) error {
					_, err := tx.Query(countTo, 3, "")
					_ = tx.QueryRow(countTo, 3, "")
					leave()
					return err
				})
			}()
			require.Error(t, <-done)
			require.NoError(t, s.Update(t.Context(), put("b")))
			requireIdle(t, s.writer.session.conn)
		})
	}
}

// A statement that writes and returns rows has written even if the function reads none of them.
func TestAQueryThatWritesHasWritten(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		_ = tx.QueryRow(`INSERT INTO items (k) VALUES ('row') RETURNING id`)
		_, err := tx.Query(`INSERT INTO items (k) VALUES ('rows'), ('more') RETURNING id`)
		return err
	}))
	require.Equal(t, map[string]bool{"row": true, "rows": true, "more": true}, keys(t, s))
	require.ErrorIs(t, s.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Query(`INSERT INTO items (k) VALUES ('row') RETURNING id`)
		return err
	}), ErrConstraint)
}

// An error in the middle of the rows ends them, and shows in Err and in each Scan.
func TestAnErrorBetweenRows(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT abs(v) FROM (SELECT 1 AS v UNION ALL SELECT -9223372036854775808)`)
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.False(t, rows.Next())
		require.ErrorContains(t, rows.Err(), "integer overflow")
		require.ErrorContains(t, rows.Scan(new(int)), "integer overflow")
		require.False(t, rows.Next())
		return nil
	}))
}

// A statement that could not take an argument is not used again, because it may point into memory that is free.
func TestAStatementThatCouldNotBeBoundIsDropped(t *testing.T) {
	p := newPair(t)
	const q = `SELECT ?, ?`
	require.NoError(t, p.conn.exec(q, []any{"a", "b"}))
	sqlite3.Xsqlite3_limit(p.conn.tls, p.conn.db, sqlite3.SQLITE_LIMIT_LENGTH, 1000)
	err := p.conn.exec(q, []any{"a", strings.Repeat("x", 2000)})
	require.Equal(t, sqlite3.SQLITE_TOOBIG, resultCode(err))
	require.NotContains(t, p.conn.stmts, q)
	requireIdle(t, p.conn)
	require.NoError(t, p.conn.exec(q, []any{"a", "b"}))
	require.Contains(t, p.conn.stmts, q)
}

// The memory for a large argument does not stay with its statement.
func TestLargeArgumentsAreNotKept(t *testing.T) {
	p := newPair(t)
	const q = `SELECT length(?)`
	for _, size := range []int{10, maxKeptText / 2, maxKeptText, 1 << 20, 10} {
		var n int
		require.NoError(t, p.conn.queryRow(q, make([]byte, size)).Scan(&n))
		require.Equal(t, size, n)
		room := 0
		if st := p.conn.stmts[q]; st != nil {
			room = st.room
		}
		require.LessOrEqual(t, room, maxKeptText)
		requireIdle(t, p.conn)
	}
}

func TestAClosedConnectionRefuses(t *testing.T) {
	s := tempStore(t)
	c, err := openSession(t.Context(), s.path, readOnly)
	require.NoError(t, err)
	require.NoError(t, c.close())
	require.NoError(t, c.close())
	for _, err := range []error{c.control(`SELECT 1`), c.one(t.Context(), `SELECT 1`, new(int)), c.conn.script(`SELECT 1`), c.begin()} {
		require.ErrorIs(t, err, errConnClosed)
	}
	require.True(t, errors.Is(c.commit(), errConnClosed))
}

// bare is a driver's connection without handles, wrong is one whose handles have other types.
type (
	bare  struct{ driver.Conn }
	wrong struct {
		driver.Conn
		db  int
		tls uintptr
	}
)

func TestADriverWithOtherHandlesIsRefused(t *testing.T) {
	for _, c := range []driver.Conn{bare{}, &bare{}, &wrong{}, &wrong{db: 1, tls: 1}, nil} {
		_, err := engineOf(c)
		require.ErrorContains(t, err, "another form")
	}
}
