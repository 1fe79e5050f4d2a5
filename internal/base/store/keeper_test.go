package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shelf is a Keeper in memory.
type shelf struct {
	groups  []Kept
	sealed  Kept
	answer  func(keep func()) error // what Keep does; nil keeps
	settles error                   // what Settle says of its own state
	waits   bool                    // Settle learns nothing before it may wait no longer
}

func (k *shelf) Begin(_ context.Context, here Place) error {
	if here.Number > uint64(len(k.groups)) {
		return errors.New("fewer groups than here")
	}
	return nil
}

func (k *shelf) After(_ context.Context, here Place) ([]Kept, error) {
	return k.groups[here.Number:], nil
}

func (k *shelf) Seal(schema int, changes []byte) (Place, error) {
	p := Place{Number: uint64(len(k.groups)) + 1, Era: 1}
	var before Place
	if len(k.groups) > 0 {
		before = k.groups[len(k.groups)-1].Place
	}
	p.Digest = sha256.Sum256(binary.BigEndian.AppendUint64(append(before.Digest[:], changes...), p.Number))
	k.sealed = Kept{Place: p, Schema: schema, Changes: append([]byte(nil), changes...)}
	return p, nil
}

func (k *shelf) keep() { k.groups = append(k.groups, k.sealed) }

func (k *shelf) Keep() error {
	if k.answer != nil {
		return k.answer(k.keep)
	}
	k.keep()
	return nil
}

func (k *shelf) Settle(stop <-chan struct{}) (bool, error) {
	if k.waits {
		<-stop
		return false, errMine
	}
	if k.settles != nil {
		return false, k.settles
	}
	return len(k.groups) > 0 && k.groups[len(k.groups)-1].Place == k.sealed.Place, nil
}

// oddSchema has every form of table that changes are captured from.
var oddSchema = []Migration{{Version: 1, Name: "odd", SQL: `
CREATE TABLE plain(a, b);
CREATE TABLE strict(id INTEGER PRIMARY KEY, t TEXT, b BLOB, r REAL, n INTEGER UNIQUE) STRICT;
CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v ANY) STRICT;
CREATE TABLE keyed(z TEXT, k TEXT, i INTEGER, PRIMARY KEY(i, k)) STRICT, WITHOUT ROWID;
CREATE TABLE child(id INTEGER PRIMARY KEY, of INTEGER REFERENCES strict(id) ON DELETE CASCADE) STRICT;
CREATE TABLE mine(id INTEGER PRIMARY KEY, v TEXT) STRICT;`}, {Version: 2, Name: "more", SQL: `
ALTER TABLE keyed ADD COLUMN late TEXT NOT NULL DEFAULT 'default';`}}

func openOn(t testing.TB, path string, k *shelf, commit func(func() error) error) *Store {
	s, err := Open(t.Context(), path, Options{Migrations: oddSchema, Keeper: k, Local: []string{"mine"}, Rehearse: true, commit: commit})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func rowsOf(t require.TestingT, s *Store) (out []byte) {
	require.NoError(t, s.View(context.Background(), func(tx *Tx) (err error) {
		out, err = tx.Rows([]string{"mine"})
		return err
	}))
	return out
}

// requireReplay replays the groups in an empty database, which must then have the same rows.
func requireReplay(t testing.TB, s *Store, k *shelf) {
	t.Helper()
	again := openOn(t, filepath.Join(t.TempDir(), "again.db"), &shelf{groups: k.groups}, nil)
	want, err := decode(rowsOf(t, s))
	require.NoError(t, err)
	have, err := decode(rowsOf(t, again))
	require.NoError(t, err)
	require.Equal(t, want, have)
	require.NoError(t, again.Check(t.Context()))
}

func does(query string, args ...any) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}
}

func TestEveryKindOfChangeIsReplayed(t *testing.T) {
	k := &shelf{}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	big := make([]byte, 3<<20)
	for i, fn := range []func(*Tx) error{
		does(`INSERT INTO strict VALUES (1, ?, ?, ?, 7), (2, ?, ?, ?, 8), (3, NULL, NULL, 4, NULL)`, "a\x00b", []byte{}, 1.0, "\xff\xfe", []byte{0}, -0.5),
		does(`INSERT INTO plain VALUES (1, '1'), (1.0, x''), (NULL, ?)`, "\x00"),
		does(`INSERT INTO plain SELECT b, a FROM plain`),
		does(`INSERT INTO plain SELECT * FROM plain`),
		does(`INSERT INTO child VALUES (1, 1), (2, 1), (3, 2)`),
		does(`INSERT OR REPLACE INTO strict VALUES (1, 'new', NULL, 2.5, 8)`), // takes rows 1 and 2 and their children
		does(`INSERT INTO strict(id, n) VALUES (1, 5) ON CONFLICT DO UPDATE SET n = excluded.n, r = 3`),
		does(`UPDATE OR REPLACE strict SET n = 5 WHERE id = 3`),
		does(`INSERT OR IGNORE INTO strict(id, n) VALUES (9, 5)`),
		does(`INSERT INTO counted(v) VALUES (1), ('x'), (x'00'), (?)`, big),
		does(`DELETE FROM counted WHERE id > 1`),
		does(`INSERT INTO keyed(z, k, i) VALUES ('z', 'k', 1), ('y', 'k', 2), ('x', ?, 3)`, "k\x00"),
		does(`UPDATE keyed SET i = i + 10`),
		does(`UPDATE keyed SET late = 'later' WHERE i = 11`),
		does(`INSERT OR REPLACE INTO keyed(z, k, i) VALUES ('over', 'k', 11)`),
		does(`UPDATE strict SET id = id + 100`),
		does(`UPDATE plain SET rowid = rowid + 100`),
		does(`DELETE FROM plain`), // all rows: SQLite would have a short cut
		does(`INSERT INTO mine VALUES (1, 'this machine')`),
	} {
		require.NoError(t, s.Update(t.Context(), fn), "number %d", i)
		requireReplay(t, s, k)
	}
	require.Len(t, k.groups, 17, "a group without a row that travels is not kept")
}

// TestOnlyWhatStaysTravels has statements that fail after some rows, savepoints and calls that are taken back.
func TestOnlyWhatStaysTravels(t *testing.T) {
	k := &shelf{}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO strict(id, n) VALUES (5, 5)`)))
	answers := oneGroup(t, s,
		func(tx *Tx) error {
			require.ErrorIs(t, does(`INSERT INTO strict(id, n) VALUES (1, 1), (2, 2), (3, 5)`)(tx), ErrConstraint)
			return does(`INSERT INTO strict(id, n) VALUES (6, 6)`)(tx)
		},
		func(tx *Tx) error { return errors.Join(does(`DELETE FROM strict`)(tx), errMine) },
		func(tx *Tx) error {
			require.ErrorIs(t, tx.QueryRow(`INSERT INTO strict(id, n) VALUES (1, 1), (3, 5) RETURNING id`).Scan(new(int)), ErrConstraint)
			require.ErrorIs(t, tx.Savepoint(func() error { return errors.Join(does(`DELETE FROM strict`)(tx), errMine) }), errMine)
			return does(`INSERT INTO strict(id, n) VALUES (7, 7)`)(tx)
		})
	require.NoError(t, answers[0])
	require.ErrorIs(t, answers[1], errMine)
	require.NoError(t, answers[2])
	require.Len(t, k.groups, 2)
	list, err := decode(k.groups[1].Changes)
	require.NoError(t, err)
	require.Len(t, list, 2)
	requireReplay(t, s, k)
}

func TestRandomStatementsAreReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := &shelf{}
		s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
		for range rapid.IntRange(1, 12).Draw(rt, "statements") {
			query := rapid.SampledFrom([]string{
				`INSERT OR REPLACE INTO strict(id, n, t) VALUES (abs(?1) % 5, abs(?1) % 3, ?2)`,
				`INSERT OR REPLACE INTO plain(rowid, a, b) VALUES (abs(?1) % 5, ?2, ?1)`,
				`INSERT OR REPLACE INTO keyed(z, k, i) VALUES (?2, 'k' || (?1 % 3), ?1 % 2)`,
				`INSERT OR IGNORE INTO child(id, of) VALUES (abs(?1) % 7, (SELECT max(id) FROM strict WHERE t < ?2))`,
				`UPDATE OR IGNORE keyed SET i = i + 1, late = ?2 WHERE i < ?1`,
				`UPDATE OR REPLACE plain SET rowid = rowid + 1, a = ?2 WHERE rowid = ?1 % 5`,
				`DELETE FROM strict WHERE id = abs(?1) % 5 OR t = ?2`,
				`INSERT INTO counted(v) VALUES (?1), (?2)`,
				`DELETE FROM counted WHERE id % 3 = ?1 % 3 OR v = ?2`,
			}).Draw(rt, "query")
			n := rapid.Int64Range(-9, 9).Draw(rt, "n")
			text := string(rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(rt, "text"))
			if err := s.Update(t.Context(), does(query, n, text)); err != nil {
				require.ErrorIs(rt, err, ErrConstraint)
			}
		}
		requireReplay(t, s, k)
		require.NoError(rt, s.Close())
	})
}

// Each answer of a Keeper: what the caller hears, and what the database has then.
func TestWhatTheKeeperSaysDecides(t *testing.T) {
	insert := does(`INSERT INTO counted(v) VALUES ('x')`)
	lost := errors.New("away")
	for _, c := range []struct {
		name    string
		answer  func(keep func()) error
		unknown error
		told    bool // the caller hears of success
		kept    bool // and the row is there in the end
		stopped bool // every other call is refused, until the next start
	}{
		{name: "kept", told: true, kept: true},
		{name: "not kept", answer: func(func()) error { return lost }},
		{name: "in doubt, kept", answer: func(keep func()) error { keep(); return ErrKeepInDoubt }, told: true, kept: true},
		{name: "in doubt, not kept", answer: func(func()) error { return ErrKeepInDoubt }},
		{name: "unknown, kept", answer: func(keep func()) error { keep(); return ErrKeepInDoubt }, unknown: lost, kept: true, stopped: true},
		{name: "unknown, not kept", answer: func(func()) error { return ErrKeepInDoubt }, unknown: lost, stopped: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &shelf{}
			s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
			require.NoError(t, s.Update(t.Context(), insert))
			k.answer, k.settles = c.answer, c.unknown
			err := s.Update(t.Context(), insert)
			if c.told {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrUnavailable)
				require.Equal(t, c.stopped, InDoubt(err), err)
			}
			k.answer, k.settles = nil, nil
			if c.stopped {
				groups := len(k.groups)
				require.ErrorIs(t, s.Update(t.Context(), insert), errParted)
				require.Len(t, k.groups, groups)
				require.Equal(t, 1, count(t, s))
				require.NoError(t, s.Close())
				s = openOn(t, s.Path(), k, nil)
			}
			require.NoError(t, s.Update(t.Context(), insert))
			want := 2
			if c.kept {
				want = 3
			}
			require.Equal(t, want, count(t, s))
			requireReplay(t, s, k)
		})
	}
}

// A stop of the daemon cannot close the store before its parts have ended, and a part waits for its group.
func TestAStoreThatWaitsNoLonger(t *testing.T) {
	began := make(chan struct{})
	k := &shelf{waits: true}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	k.answer = func(keep func()) error { keep(); close(began); return ErrKeepInDoubt }
	told := make(chan error, 1)
	insert := does(`INSERT INTO counted(v) VALUES ('x')`)
	go func() { told <- s.Update(context.Background(), insert) }()
	<-began
	s.StopWaiting()
	s.StopWaiting()
	require.True(t, InDoubt(<-told))
	require.ErrorIs(t, s.Update(t.Context(), insert), errParted)
	require.NoError(t, s.Close())

	k.answer, k.waits = nil, false
	s = openOn(t, s.Path(), k, nil)
	require.Equal(t, 1, count(t, s), "the next start finds out")
	s.StopWaiting()
	require.NoError(t, s.Update(t.Context(), insert), "what the keeper answers is written as before")
	requireReplay(t, s, k)
}

func count(t *testing.T, s *Store) (n int) {
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error { return tx.QueryRow(`SELECT count(*) FROM counted`).Scan(&n) }))
	return n
}

// TestACommitThatFailsAfterTheGroupIsKept: the group is kept, so the database must get it, and the caller hears so.
func TestACommitThatFailsAfterTheGroupIsKept(t *testing.T) {
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("committed ", done), func(t *testing.T) {
			k, fail := &shelf{}, 0
			s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, func(commit func() error) error {
				if fail > 0 {
					fail--
					if done {
						_ = commit()
					}
					return errMine
				}
				return commit()
			})
			insert := does(`INSERT INTO counted(v) VALUES ('x')`)
			heard := 0
			s.OnCommit(func() { heard++ })
			require.NoError(t, s.Update(t.Context(), insert))
			fail = 2 // the COMMIT, and the one that would say that it is not kept
			require.NoError(t, s.Update(t.Context(), insert))
			require.Equal(t, 2, heard)
			require.Equal(t, 2, count(t, s))
			fail = 0
			require.NoError(t, s.Update(t.Context(), insert))
			require.Equal(t, 3, count(t, s))
			requireReplay(t, s, k)
		})
	}
}

// TestAGroupThatWasKeptAndNotCommitted is what a crash between the two leaves: the next start applies it.
func TestAGroupThatWasKeptAndNotCommitted(t *testing.T) {
	k := &shelf{}
	path := filepath.Join(t.TempDir(), "a.db")
	s := openOn(t, path, k, nil)
	insert := does(`INSERT INTO counted(v) VALUES ('x')`)
	require.NoError(t, s.Update(t.Context(), insert))
	k.answer, k.settles = func(keep func()) error { keep(); return ErrKeepInDoubt }, errMine
	require.ErrorIs(t, s.Update(t.Context(), insert), ErrUnavailable)
	require.NoError(t, s.Close())
	k.answer, k.settles = nil, nil
	s = openOn(t, path, k, nil)
	require.Equal(t, 2, count(t, s))
	require.NoError(t, s.Update(t.Context(), insert))
	requireReplay(t, s, k)
}

func TestADatabaseThatIsOlderThanItsLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), path, Options{Migrations: oddSchema})
	require.NoError(t, err)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO counted(v) VALUES ('x'), ('y')`)))
	require.NoError(t, s.Update(t.Context(), does(`DELETE FROM counted WHERE v = 'y'`)))
	require.NoError(t, s.Close())

	// The ledger has the beginning, and the database does not know yet.
	k := &shelf{answer: func(keep func()) error { keep(); return ErrKeepInDoubt }, settles: errMine}
	_, err = Open(t.Context(), path, Options{Migrations: oddSchema, Keeper: k, Local: []string{"mine"}})
	require.ErrorIs(t, err, errMine)
	require.Len(t, k.groups, 1)
	k.answer, k.settles = nil, nil
	s = openOn(t, path, k, nil)
	require.Len(t, k.groups, 1)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO counted(v) VALUES ('z')`)))
	requireReplay(t, s, k)
	require.NoError(t, s.Close())

	_, err = Open(t.Context(), path, Options{Migrations: oddSchema})
	require.ErrorIs(t, err, ErrNeedsKeeper)
}

// TestAnotherState: rows that are not those which the group changed.
func TestAnotherState(t *testing.T) {
	k := &shelf{}
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO strict(id, t, b, r) VALUES (1, 'a', x'01', 1.5)`)))
	require.NoError(t, s.Update(t.Context(), does(`UPDATE strict SET t = 'b'`)))
	for name, change := range map[string]func(row *RowImage){
		"text": func(row *RowImage) { row.Values[1] = "c" },
		"kind": func(row *RowImage) { row.Values[1] = []byte("a") },
		"blob": func(row *RowImage) { row.Values[2] = []byte{2} },
		"real": func(row *RowImage) { row.Values[3] = 1.25 },
		"null": func(row *RowImage) { row.Values[4] = int64(0) },
		"row":  func(row *RowImage) { row.ID = 2 },
		"size": func(row *RowImage) { row.Values = append(row.Values, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			list, err := decode(k.groups[1].Changes)
			require.NoError(t, err)
			change(list[0].Old)
			if len(list[0].Old.Values) != len(list[0].New.Values) {
				list[0].New = nil
			}
			wrong := Kept{Place: k.groups[1].Place, Schema: 2, Changes: AppendChange(nil, list[0])}
			path := filepath.Join(t.TempDir(), "b.db")
			_, err = Open(t.Context(), path, Options{Migrations: oddSchema, Keeper: &shelf{groups: []Kept{k.groups[0], wrong}}, Local: []string{"mine"}})
			require.ErrorIs(t, err, ErrDiverged)
			here, err := placeOf(t.Context(), path)
			require.NoError(t, err)
			require.Zero(t, here, "nothing of the groups was kept")
		})
	}
	mine := Kept{Place: k.groups[0].Place, Schema: 2, Changes: AppendChange(nil, Change{Table: "mine", New: &RowImage{ID: 1, Values: []any{int64(1), "x"}}})}
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "c.db"), Options{Migrations: oddSchema, Keeper: &shelf{groups: []Kept{mine}}, Local: []string{"mine"}})
	require.ErrorIs(t, err, ErrDiverged)
}

func TestGroupsOfSeveralSchemas(t *testing.T) {
	k := &shelf{}
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), path, Options{Migrations: oddSchema[:1], Keeper: k, Local: []string{"mine"}})
	require.NoError(t, err)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO keyed(z, k, i) VALUES ('z', 'k', 1)`)))
	require.NoError(t, s.Close())
	s = openOn(t, path, k, nil)
	require.NoError(t, s.Update(t.Context(), does(`UPDATE keyed SET z = 'y'`)))
	requireReplay(t, s, k)

	var tooNew *TooNewError
	_, err = Open(t.Context(), filepath.Join(t.TempDir(), "b.db"), Options{Migrations: oddSchema[:1], Keeper: &shelf{groups: k.groups}, Local: []string{"mine"}})
	require.ErrorAs(t, err, &tooNew)
}

// TestGroupsTellTheTruthWithAKeeper is TestGroupsTellTheTruth over a Keeper that keeps, loses and doubts. At the end an
// empty database, into which the groups are replayed, has the same rows.
func TestGroupsTellTheTruthWithAKeeper(t *testing.T) {
	dir, n := t.TempDir(), 0
	answers := []func(keep func()) error{
		func(keep func()) error { keep(); return nil },
		func(keep func()) error { keep(); return ErrKeepInDoubt },
		func(func()) error { return ErrKeepInDoubt },
		func(func()) error { return errMine },
	}
	rapid.Check(t, func(t *rapid.T) {
		n++
		k, path := &shelf{}, filepath.Join(dir, fmt.Sprint(n))
		f := openFaultyOn(t, path, k)
		require.NoError(t, f.Update(context.Background(), put("base")))
		for i := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			k.answer = rapid.SampledFrom(answers).Draw(t, "answer")
			f.round(t, i)
			k.answer = nil
		}
		require.NoError(t, f.Update(context.Background(), func(tx *Tx) error { return errors.Join(makeRoom(tx), put("last")(tx)) }))
		want, err := decode(rowsOf(t, f.Store))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for _, on := range []string{path, path + ".replayed"} {
			again := openFaultyOn(t, on, &shelf{groups: k.groups})
			have, err := decode(rowsOf(t, again.Store))
			require.NoError(t, err)
			require.Equal(t, want, have)
			require.NoError(t, again.Check(context.Background()))
			require.NoError(t, again.Close())
		}
	})
}

// TestSyncErrorsAfterAGroupIsKept: the disk fails when the ledger has the group. The caller hears that the outcome is not
// known, no other group runs, and the next start has the group.
func TestSyncErrorsAfterAGroupIsKept(t *testing.T) {
	dir := inChild(t, "TestSyncErrorsAfterAGroupIsKeptChild")
	b, err := os.ReadFile(filepath.Join(dir, "groups"))
	require.NoError(t, err)
	k := &shelf{}
	require.NoError(t, gob.NewDecoder(bytes.NewReader(b)).Decode(&k.groups))
	require.Len(t, k.groups, 2)
	s, err := Open(t.Context(), filepath.Join(dir, "gated.db"), Options{Migrations: schema, Keeper: k})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"before": true, "after": true}, keys(t, s))
	require.NoError(t, s.Close())
}

func TestSyncErrorsAfterAGroupIsKeptChild(t *testing.T) {
	dir := os.Getenv(faultDir)
	if dir == "" {
		return // the work of TestSyncErrorsAfterAGroupIsKept
	}
	k := &shelf{}
	s, err := Open(context.Background(), filepath.Join(dir, "gated.db"), Options{Migrations: schema, Keeper: k})
	require.NoError(t, err)
	require.NoError(t, s.Update(context.Background(), put("before")))
	failSyncs(t)
	after := s.Update(context.Background(), put("after"))
	require.ErrorIs(t, after, errParted)
	require.True(t, InDoubt(after), "it is kept")
	later := s.Update(context.Background(), put("later"))
	require.ErrorIs(t, later, errParted)
	require.False(t, InDoubt(later), "nothing of it happened")
	require.NotContains(t, keys(t, s), "later")
	var b bytes.Buffer
	require.NoError(t, gob.NewEncoder(&b).Encode(k.groups))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "groups"), b.Bytes(), 0o600))
}
