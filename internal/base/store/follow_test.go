package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var errReads = errors.New("this member only reads")

// reader is a Keeper that only reads a shelf.
type reader struct{ shelf }

func (*reader) Seal(int, []byte) (Place, error) { return Place{}, errReads }

func openFollower(t testing.TB, path string, k Keeper, list []Migration) *Store {
	s, err := Open(t.Context(), path, Options{Migrations: list, Keeper: k, Follows: true, Local: []string{"mine"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func execute(t testing.TB, s *Store, query string) error {
	t.Helper()
	return s.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(query)
		return err
	})
}

func countOf(t testing.TB, s *Store, query string) (n int) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error { return tx.QueryRow(query).Scan(&n) }))
	return n
}

func TestAFollowerHasWhatWasCommittedAndWritesNothingThatTravels(t *testing.T) {
	dir := t.TempDir()
	k := &shelf{}
	active := openOn(t, filepath.Join(dir, "a.db"), k, nil)
	require.NoError(t, execute(t, active, `INSERT INTO plain VALUES (1, 2)`))
	r := &reader{}
	r.groups = k.groups
	s := openFollower(t, filepath.Join(dir, "b.db"), r, oddSchema)
	told := 0
	s.OnCommit(func() { told++ })
	require.Equal(t, 1, countOf(t, s, `SELECT count(*) FROM plain`), "Open has brought it up to date")

	require.NoError(t, execute(t, active, `INSERT INTO strict VALUES (1, 't', x'00', 1.5, 7)`))
	r.groups = k.groups
	here, err := s.Follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, k.groups[len(k.groups)-1].Place, here)
	require.Equal(t, 1, countOf(t, s, `SELECT count(*) FROM strict`))
	require.Equal(t, 1, told)
	_, err = s.Follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, told, "nothing new is nothing to tell")

	require.ErrorIs(t, execute(t, s, `INSERT INTO plain VALUES (3, 4)`), errReads)
	require.ErrorIs(t, execute(t, s, `INSERT INTO plain VALUES (3, 4)`), ErrUnavailable)
	require.Equal(t, 1, countOf(t, s, `SELECT count(*) FROM plain`))
	require.NoError(t, execute(t, s, `INSERT INTO mine (v) VALUES ('local')`), "what is of this machine may change")
	require.NoError(t, execute(t, active, `DELETE FROM plain`))
	r.groups = k.groups
	_, err = s.Follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, 0, countOf(t, s, `SELECT count(*) FROM plain`))
}

// A standby has the newer program first. Its database keeps the schema of the groups until the active daemon has the newer one.
func TestAFollowerOfANewerProgramKeepsTheSchemaOfTheGroups(t *testing.T) {
	dir := t.TempDir()
	newer := append(oddSchema[:len(oddSchema):len(oddSchema)], Migration{Version: 3, Name: "newer", SQL: `CREATE TABLE newer(v) STRICT`})
	newer[2].SQL = `CREATE TABLE newer(v TEXT) STRICT`
	k := &shelf{}
	active := openOn(t, filepath.Join(dir, "a.db"), k, nil)
	require.NoError(t, execute(t, active, `INSERT INTO plain VALUES (1, 2)`))
	r := &reader{}
	r.groups = k.groups
	s := openFollower(t, filepath.Join(dir, "b.db"), r, newer)
	require.Equal(t, 2, countOf(t, s, `SELECT user_version FROM pragma_user_version`))
	require.NoError(t, active.Close())

	upgraded, err := Open(t.Context(), filepath.Join(dir, "a.db"), Options{Migrations: newer, Keeper: k, Local: []string{"mine"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = upgraded.Close() })
	require.NoError(t, execute(t, upgraded, `INSERT INTO newer VALUES ('row')`))
	r.groups = k.groups
	_, err = s.Follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, countOf(t, s, `SELECT user_version FROM pragma_user_version`))
	require.Equal(t, 1, countOf(t, s, `SELECT count(*) FROM newer`))

	old := openFollower(t, filepath.Join(dir, "c.db"), &reader{shelf{groups: k.groups[:1]}}, oddSchema)
	old.keeper.(*reader).groups = k.groups
	_, err = old.Follow(t.Context())
	var tooNew *TooNewError
	require.ErrorAs(t, err, &tooNew, "the active daemon was upgraded first")
}
