package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"gated/internal/base/crashpoint"
)

// Migration is one step of the schema. Its SQL runs in one transaction with
// the change of the version. It may hold several statements, and neither
// ROLLBACK clauses nor deferred constraints.
type Migration struct {
	Version int // from 1, without gaps
	Name    string
	SQL     string
}

// keepSnapshots is how many snapshots from before migrations are kept, with the one that is being made.
const keepSnapshots = 3

// checkOrder refuses a list of migrations that is not a schema.
func checkOrder(list []Migration) error {
	for i, m := range list {
		if m.Version != i+1 {
			return fmt.Errorf("store: migration %q has version %d, want %d", m.Name, m.Version, i+1)
		}
		for word := range words(m.SQL) {
			if err := vetWord(word); err != nil {
				return fmt.Errorf("migration %d: %w", m.Version, err)
			}
		}
	}
	return nil
}

// checkVersion changes nothing. It refuses a file that is not a gate's database, as ErrCorrupt, and a newer one as
// *TooNewError.
func checkVersion(ctx context.Context, path string, list []Migration) error {
	version, err := readVersion(ctx, path)
	if err == nil && version > len(list) {
		err = &TooNewError{Have: version, Want: len(list)}
	}
	return err
}

// readVersion reads the schema version of a gate's database.
func readVersion(ctx context.Context, path string) (version int, err error) {
	s, err := openSession(ctx, path, probe)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var app, tables int
	err = errors.Join(
		s.one(ctx, "PRAGMA user_version", &version),
		s.one(ctx, "PRAGMA application_id", &app),
		s.one(ctx, "SELECT count(*) FROM sqlite_schema", &tables))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", path, describeOpen(err))
	case app != applicationID && (tables > 0 || version != 0 || app != 0):
		return 0, fmt.Errorf("%s: %w", path, ErrCorrupt)
	}
	return version, nil
}

// prepare brings the database to the newest schema, and logs that it did.
func (s *Store) prepare(ctx context.Context, list []Migration) (err error) {
	path := s.path
	with, err := openSession(ctx, path, writing)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, with.close()) }()
	if err := with.inTransaction(noDeadline, bootstrap); err != nil {
		return fmt.Errorf("prepare %s: %w", path, err)
	}
	var version int
	if err := with.one(ctx, "PRAGMA user_version", &version); err != nil {
		return err
	}
	if err := s.mayOpen(with); err != nil {
		return err
	}
	missing := list[min(version, len(list)):]
	if len(missing) == 0 {
		return with.inTransaction(noDeadline, func(run func(string) error) error { return run(forgetBetween) })
	}
	begun, err := with.begunWith(ctx, path, missing[0].Version)
	if err != nil {
		return err
	}
	// One snapshot for all of them: no program ever used the versions in between. A database that is just being made
	// holds nothing yet.
	if version > 0 && begun == missing[0].Version {
		if err := snapshotBefore(ctx, path, begun); err != nil {
			return fmt.Errorf("snapshot before migration %d: %w", begun, err)
		}
		crashpoint.Here(crashpoint.MigratePruned)
	}
	for i, m := range missing {
		after := forgetBetween
		if i < len(missing)-1 {
			after = `INSERT OR REPLACE INTO store_meta (name, n) VALUES ('between', ` + strconv.Itoa(begun) + `)`
		}
		if err := with.migrate(ctx, m, after); err != nil {
			return fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
		crashpoint.Here(crashpoint.MigrateCommitted)
	}
	if version > 0 {
		s.log.Info("the database was brought up to date", "from schema", version, "to", len(list), "copy of before", preName(path, begun))
	}
	return nil
}

// The row 'between' of store_meta exists after each migration of a start except the last; n is the first of them. It is
// deleted as soon as a program uses the database.
const forgetBetween = `DELETE FROM store_meta WHERE name = 'between'`

// begunWith returns the first migration of the start that was cut off between two, so that its snapshot serves this
// start too. Otherwise it returns first, the first missing one.
func (s *session) begunWith(ctx context.Context, path string, first int) (int, error) {
	begun := first
	err := s.one(ctx, "SELECT n FROM store_meta WHERE name = 'between'", &begun)
	if errors.Is(err, sql.ErrNoRows) {
		return first, nil
	}
	if err != nil {
		return 0, err
	}
	if _, err := os.Lstat(preName(path, begun)); errors.Is(err, fs.ErrNotExist) {
		return first, nil // the snapshot was deleted
	} else if err != nil {
		return 0, err
	}
	return begun, nil
}

// bootstrap makes the store's own table; running it again changes nothing.
func bootstrap(run func(query string) error) error {
	for _, q := range []string{
		"PRAGMA application_id = " + strconv.Itoa(applicationID),
		`CREATE TABLE IF NOT EXISTS store_meta (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
		`INSERT INTO store_meta (name, n) VALUES ('groups', 0), ('settled', 0) ON CONFLICT DO NOTHING`,
	} {
		if err := run(q); err != nil {
			return err
		}
	}
	return nil
}

// migrate runs one migration, and after it a statement of the store's own.
func (s *session) migrate(ctx context.Context, m Migration, after string) error {
	return s.inTransaction(ctx, func(run func(string) error) error {
		if err := run(m.SQL); err != nil {
			return err
		}
		crashpoint.Here(crashpoint.MigrateWritten)
		var broken sql.NullString
		err := s.one(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`, &broken)
		if !errors.Is(err, sql.ErrNoRows) {
			return errors.Join(fmt.Errorf("a foreign key of table %q would point nowhere", broken.String), err)
		}
		if err := run(after); err != nil {
			return err
		}
		return run("PRAGMA user_version = " + strconv.Itoa(m.Version))
	})
}

// inTransaction runs the store's own statements in one transaction.
func (s *session) inTransaction(ctx context.Context, fn func(run func(string) error) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	err := fn(func(queries string) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return s.conn.script(queries)
	})
	if err == nil {
		err = s.conn.lost()
	}
	if err != nil {
		return errors.Join(err, s.rollback())
	}
	return s.commit()
}
