package store

import (
	"errors"
	"fmt"
	"runtime/debug"

	"gated/internal/base/crashpoint"
)

// carefulGroups is how many groups have savepoints from the start after a group in which a call failed. Where calls are
// often refused, so few groups run twice.
const carefulGroups = 16

// group runs the calls in one transaction. It returns nil if every call's own err is the truth on disk. Otherwise it
// returns why no write of the group was kept.
//
// In most groups no call fails. So no call has a savepoint at first: savepoints cost a quarter of what a small function
// does. If a call fails, the group is rolled back and runs again, each call in a savepoint of its own.
//
// With a Keeper, a call that changes rows that stay on this machine has a group of its own.
func (w *writer) group(batch []*call) error {
	err := w.together(batch)
	if !errors.Is(err, errMixed) || len(batch) == 1 {
		return err
	}
	for _, c := range batch {
		if err := w.together([]*call{c}); err != nil {
			c.err = unavailable(err)
		}
	}
	return nil
}

// together is group for calls that may share a group.
func (w *writer) together(batch []*call) error {
	if w.store.rehearse {
		if err := w.transaction(batch, w.rehearseCall); err != nil && !errors.Is(err, errAgain) {
			return err
		}
	}
	if w.careful == 0 {
		err := w.transaction(batch, w.runPlain)
		if !errors.Is(err, errAgain) {
			return err
		}
		w.careful = carefulGroups
	} else {
		w.careful--
	}
	return w.transaction(batch, w.runCareful)
}

// errAgain ends a transaction whose calls must run again.
var errAgain = errors.New("a call failed")

// transaction begins, runs the calls with run, and commits. An error of run ends the transaction.
func (w *writer) transaction(batch []*call, run func(*call) error) error {
	if w.parted {
		return errParted
	}
	if err := w.open(); err != nil {
		return err
	}
	if err := w.session.begin(); err != nil {
		w.discard() // it may be inside a transaction
		return fmt.Errorf("begin: %w", err)
	}
	ended := false
	defer func() {
		w.memory = nil
		if !ended {
			w.abandon()
		}
	}()
	w.memory = &groupMemory{}
	if k := w.session.conn.capture; k != nil {
		k.begin()
		w.memory.slots = append(w.memory.slots, slot{k, k})
	}
	kept := 0
	for _, c := range batch {
		err := run(c)
		if lost := w.session.conn.lost(); lost != nil {
			return lost
		}
		if err != nil {
			return err
		}
		if c.err == nil {
			kept++
		}
	}
	if kept == 0 {
		return nil // nothing to keep: the rollback costs no fsync
	}
	if err := w.finish(); err != nil {
		return err
	}
	if err := w.seal(); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StoreWritten)
	if err := w.keep(); err != nil {
		return err
	}
	ended = true
	return w.commit()
}

// runPlain runs one call without a savepoint. If the call fails, it returns errAgain.
func (w *writer) runPlain(c *call) error {
	if c.err = w.protect(c.fn, w.newTx()); c.err != nil {
		return errAgain
	}
	return nil
}

// rehearseCall runs one call as runPlain does, and keeps nothing.
func (w *writer) rehearseCall(c *call) error {
	if err := w.runPlain(c); err != nil {
		return err
	}
	c.err = errAgain // transaction keeps nothing of such a call
	return nil
}

// runCareful runs one call in a savepoint and sets its error. The connection tells afterwards whether the transaction
// survived.
func (w *writer) runCareful(c *call) error {
	if err := w.session.control("SAVEPOINT call_"); err != nil {
		return w.session.broken(err)
	}
	var room [4]any
	marks := w.memory.mark(room[:0])
	c.err = w.inCall(c.fn, marks)
	if c.or != nil && c.err != nil && !errors.Is(c.err, errPanicked) && w.session.conn.lost() == nil {
		failed := c.err
		c.err = w.inCall(func(tx *Tx) error { return c.or(tx, failed) }, marks)
	}
	if w.session.conn.lost() != nil {
		return nil // the group is over
	}
	if err := w.session.control("RELEASE call_"); err != nil {
		return w.session.broken(err)
	}
	return nil
}

// inCall runs a function in the savepoint call_. If the function fails, its writes are dropped.
func (w *writer) inCall(fn func(*Tx) error, marks []any) error {
	err := w.protect(fn, w.newTx())
	if err != nil && w.session.conn.lost() == nil {
		w.memory.back(marks)
		if e := w.session.control("ROLLBACK TO call_"); e != nil {
			return w.session.broken(e)
		}
	}
	return err
}

// newTx returns the access of one function to the group.
func (w *writer) newTx() *Tx {
	return &Tx{s: w.session, ctx: noDeadline, write: true, memory: w.memory, fails: w.store.fails}
}

var errPanicked = errors.New("a transaction function panicked")

// protect runs fn and ends tx. It turns a panic of fn into an error, so that it costs that call alone.
// A function that ends the goroutine instead (runtime.Goexit, as a failing
// assertion of a test does) fails the group, and run starts a new goroutine.
func (w *writer) protect(fn func(*Tx) error, tx *Tx) (err error) {
	defer tx.end()
	defer func() {
		if p := recover(); p != nil {
			w.store.log.Error("a transaction function panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("store: %w: %v", errPanicked, p)
		}
	}()
	return fn(tx)
}

// finish runs the OnGroup functions and increments the group counter. If a COMMIT answers with an error, the counter
// tells the outcome.
func (w *writer) finish() error {
	for _, fn := range w.store.hooks.group() {
		if err := w.protect(fn, w.newTx()); err != nil {
			return fmt.Errorf("at the end of a group: %w", err)
		}
	}
	if err := w.session.conn.lost(); err != nil {
		return err
	}
	return w.session.bump(w.groups)
}

// bump moves the group counter on from have.
func (s *session) bump(have int64) error {
	if err := s.control(`UPDATE store_meta SET n = n + 1 WHERE name = 'groups' AND n = ?`, have); err != nil {
		return err
	}
	if s.conn.changes() != 1 {
		return errors.New("another program has written to the database")
	}
	return nil
}

// commit makes the group durable, or finds out whether it is.
func (w *writer) commit() error {
	told := w.store.hooks.timer()
	err := w.store.testCommit(w.session.commit)
	told()
	if err != nil {
		err = w.store.plain(w.settle(err))
	} else {
		w.groups++
	}
	if err != nil && w.sealed != nil { // it is kept elsewhere, so it has to come into this database
		if later := w.redeem(); later != nil {
			return fmt.Errorf("%w; %w", err, later)
		}
		return nil
	}
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.StoreCommitted)
	w.committed()
	return nil
}

// committed tells those who wait for a COMMIT.
func (w *writer) committed() {
	w.wrote()
	w.store.tellCommitted()
}

// tellCommitted calls the OnCommit functions.
func (s *Store) tellCommitted() {
	for _, fn := range s.hooks.commit() {
		s.protectHook(fn)
	}
}

// protectHook runs an OnCommit function. The group is on disk: a panic must
// not tell its callers otherwise.
func (s *Store) protectHook(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a function called after commit panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// abandon rolls the group back. It closes a connection that may still be inside the transaction, which rolls back the
// rest. It also closes a connection on which the machine failed: if SQLite could not open a file for writing, it opened
// the file to read, and would stay with that for ever.
func (w *writer) abandon() {
	failed := w.session.conn.failed != nil
	if err := w.session.rollback(); err != nil || failed {
		w.discard()
	}
}
