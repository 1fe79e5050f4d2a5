package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrUnavailable is returned if the machine is the cause, and not the caller: the disk is full, a read or write
	// failed, memory ran out, or the store is closed or was not free in time. No write of the call was kept, unless InDoubt
	// says otherwise. The caller may ask again.
	ErrUnavailable = errors.New("the store is unavailable")

	// ErrConstraint is returned if a constraint of its table refused a row. Only the statement failed; the function may
	// continue.
	ErrConstraint = errors.New("constraint")

	// ErrReadOnly is returned for a write in a View, or for an Update of a store that was opened read-only.
	ErrReadOnly = errors.New("read-only")

	// ErrCorrupt is returned by Open, OpenReadOnly and Check if the file is damaged or is not a gate's database.
	ErrCorrupt = errors.New("the database is damaged or belongs to another program")

	// ErrNeedsKeeper is returned by Open without a Keeper for a database whose groups one keeps: a group of this database
	// alone would part it from the others.
	ErrNeedsKeeper = errors.New("the database belongs to a ledger, and was to be opened without it")

	// errTxDone is returned by a Tx after its function returned.
	errTxDone = errors.New("store: the transaction's function has returned")
)

// errOutcome is in the chain of a COMMIT's error after which nothing says whether the group is kept.
var errOutcome = errors.New("its outcome cannot be read yet")

// InDoubt reports whether the writes of a call may be kept although it failed: docs/design/store.md, "When even the outcome
// cannot be read", and docs/design/ledger.md, "If something fails". Who tells a person must not say that nothing happened.
func InDoubt(err error) bool { return errors.Is(err, ErrKeepInDoubt) || errors.Is(err, errOutcome) }

// TooNewError is returned by Open and OpenReadOnly if a newer program wrote the database. Nothing was changed.
type TooNewError struct {
	Have int // the database's schema version
	Want int // the newest version that this program knows
}

// Error says both versions.
func (e *TooNewError) Error() string {
	return fmt.Sprintf("the database has schema version %d, this program knows versions up to %d", e.Have, e.Want)
}

// resultCode returns the primary SQLite result code in err's chain, or 0.
func resultCode(err error) int { return extendedCode(err) & 0xff }

// extendedCode returns SQLite's extended result code in err's chain, or 0. The store's own statements and the driver's
// have errors of two types.
func extendedCode(err error) int {
	var own *engineError
	if errors.As(err, &own) {
		return own.code
	}
	var drivers *sqlite.Error
	if errors.As(err, &drivers) {
		return drivers.Code()
	}
	return 0
}

// cutOff reports whether a reader failed because a change was cut off before the database had a WAL. A reader cannot
// undo it.
func cutOff(err error) bool { return extendedCode(err) == sqlite3.SQLITE_READONLY_ROLLBACK }

// machineFailure reports whether a result code says that the machine failed.
// After such a code SQLite may already have ended the whole transaction.
func machineFailure(code int) bool {
	switch code {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_ABORT:
		return true
	}
	return false
}

// unavailable wraps a cause so that both it and ErrUnavailable are found.
func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}

// Damaged reports whether err says that the file of the database is damaged, or no database.
func Damaged(err error) bool {
	code := resultCode(err)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// describeOpen turns SQLite's error for a file that is damaged, or not a database, into ErrCorrupt.
func describeOpen(err error) error {
	if Damaged(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// FullError names the directory that has no room. Its chain has SQLite's error.
type FullError struct {
	Dir   string
	cause error
}

// Error is for people, who need only the place.
func (e *FullError) Error() string { return "no space left in " + e.Dir }

// Unwrap returns what was said of the disk.
func (e *FullError) Unwrap() error { return e.cause }

// plain returns an error that says only that there is no room, if that is why a group was not kept.
func (s *Store) plain(err error) error {
	if err == nil || !DiskFull(err) {
		return err
	}
	return &FullError{Dir: filepath.Dir(s.path), cause: err}
}

// DiskFull reports whether err says that a disk had no room. For the index of the
// WAL, which grows with zeros, SQLite has a code of its own.
func DiskFull(err error) bool {
	noIndex := extendedCode(err) == sqlite3.SQLITE_IOERR_SHMSIZE
	return noIndex || resultCode(err) == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
