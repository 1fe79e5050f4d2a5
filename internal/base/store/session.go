package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// session is one connection during its whole life, so that its prepared statements and settings stay. One goroutine
// uses it at a time.
type session struct {
	db   *sql.DB
	sql  *sql.Conn
	conn *conn
	tx   driver.Tx // nil between transactions
}

// openSession opens a connection to the database at an absolute path and
// reads every pragma back.
func openSession(ctx context.Context, path string, a access) (*session, error) {
	inner, err := sqlite.NewConnector(dsn(path, a))
	if err != nil {
		return nil, err
	}
	s := &session{db: sql.OpenDB(connector{inner})}
	s.db.SetMaxOpenConns(1)
	if err := s.setUp(ctx, a); err != nil {
		return nil, errors.Join(describeOpen(err), s.close())
	}
	return s, nil
}

func (s *session) setUp(ctx context.Context, a access) error {
	var err error
	if s.sql, err = s.db.Conn(ctx); err != nil {
		return err
	}
	err = s.sql.Raw(func(c any) error {
		s.conn = c.(*conn)
		return nil
	})
	if err != nil {
		return err
	}
	return s.internal(func() error { return readBack(context.Background(), s.sql, a) })
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
	return s.internal(func() error {
		_, err := s.sql.ExecContext(context.Background(), query, args...)
		return err
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

// begin starts a transaction, immediate or deferred as the DSN says.
func (s *session) begin() error {
	return s.sql.Raw(func(any) error {
		tx, err := s.conn.BeginTx(context.Background(), driver.TxOptions{})
		if err != nil {
			return err
		}
		s.tx = tx
		s.conn.inTx, s.conn.rolledBack, s.conn.failed = true, false, nil
		return nil
	})
}

// commit commits. After an error the transaction may or may not be committed.
func (s *session) commit() error {
	return s.sql.Raw(func(any) error {
		s.conn.mayCommit = true
		err := s.tx.Commit()
		s.conn.mayCommit = false
		s.tx, s.conn.inTx = nil, false
		return err
	})
}

// rollback ends the transaction without keeping anything. After an error, the connection may still be inside it and
// must not be used again.
func (s *session) rollback() error {
	return s.sql.Raw(func(any) error {
		err := s.tx.Rollback()
		s.tx, s.conn.inTx = nil, false
		if s.conn.rolledBack {
			return nil // if it ended now or before, ROLLBACK is an error
		}
		return errors.Join(errors.New("the transaction would not end"), err)
	})
}

// close closes the connection.
func (s *session) close() error {
	var err error
	if s.sql != nil {
		err = s.sql.Close()
	}
	return errors.Join(err, s.db.Close())
}
