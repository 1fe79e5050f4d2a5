package store

import (
	"context"
	"errors"

	"modernc.org/sqlite"
)

// session is one connection during its whole life, so that its prepared statements and settings stay. One goroutine
// uses it at a time.
type session struct {
	conn *conn
	kind access
	tx   bool // between begin and commit or rollback
}

// openSession opens a connection to the database at an absolute path and
// reads every pragma back.
func openSession(ctx context.Context, path string, a access) (*session, error) {
	if err := keepLog(path); err != nil {
		return nil, err
	}
	inner, err := sqlite.NewConnector(dsn(path, a))
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, inner)
	if err != nil {
		return nil, describeOpen(err)
	}
	s := &session{conn: c, kind: a}
	if err := s.readBack(a); err != nil {
		return nil, errors.Join(describeOpen(err), s.close())
	}
	return s, nil
}

// internal runs the store's own statements, which callers may not all run.
func (s *session) internal(fn func() error) error {
	was := s.conn.internal
	s.conn.internal = true
	defer func() { s.conn.internal = was }()
	return fn()
}

// control runs one of the store's own statements.
func (s *session) control(query string, args ...any) error {
	return s.internal(func() error { return s.conn.exec(query, args) })
}

// boundary runs a BEGIN, COMMIT or ROLLBACK. Its error is the caller's to judge: it does not count as a failure inside
// the transaction.
func (s *session) boundary(query string) error {
	return s.internal(func() error { return s.conn.execute(query, nil) })
}

// one reads the one row of a query of the store's own. ctx is a reason not to run it.
func (s *session) one(ctx context.Context, query string, dest any) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.internal(func() error {
		var row Row
		s.conn.query(query, nil, &row.rows)
		return row.Scan(dest)
	})
}

// beginRead and endRead are begin and rollback for a connection that cannot
// write, with statements that stay prepared: a View is often one query.
func (s *session) beginRead() error {
	if err := s.control("BEGIN DEFERRED"); err != nil {
		return err
	}
	s.conn.inTx, s.conn.rolledBack, s.conn.failed = true, false, nil
	return nil
}

func (s *session) endRead() error {
	err := s.control("ROLLBACK")
	s.conn.inTx = false
	return err
}

// begin starts a transaction. The writer's takes the write lock at once. A reader that asked for it would get BUSY.
func (s *session) begin() error {
	query := "BEGIN DEFERRED"
	if s.kind == writing || s.kind == applying {
		query = "BEGIN IMMEDIATE"
	}
	if err := s.boundary(query); err != nil {
		return err
	}
	s.tx = true
	s.conn.inTx, s.conn.rolledBack, s.conn.failed = true, false, nil
	return nil
}

// commit commits. After an error the transaction may or may not be committed, but it is over.
func (s *session) commit() error {
	s.conn.mayCommit = true
	err := s.boundary("COMMIT")
	s.conn.mayCommit = false
	if err != nil && s.conn.inTransaction() {
		_ = s.boundary("ROLLBACK") // the error of the COMMIT is the one that counts
	}
	s.tx, s.conn.inTx = false, false
	return err
}

// rollback ends the transaction without keeping anything. After an error, the connection may still be inside it and
// must not be used again.
func (s *session) rollback() error {
	err := s.boundary("ROLLBACK")
	s.tx, s.conn.inTx = false, false
	if s.conn.rolledBack {
		return nil // if it ended now or before, ROLLBACK is an error
	}
	return errors.Join(errors.New("the transaction would not end"), err)
}

// close closes the connection.
func (s *session) close() error { return s.conn.Close() }
