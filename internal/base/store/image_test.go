package store

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// baseOf is all rows of a store.
func baseOf(t *testing.T, s *Store) (k Kept) {
	require.NoError(t, s.View(t.Context(), func(tx *Tx) (err error) {
		k, err = tx.Image([]string{"mine"}, unbounded)
		return err
	}))
	return k
}

func sumsOf(t *testing.T, s *Store) (at Place, sums []TableSum) {
	require.NoError(t, s.View(t.Context(), func(tx *Tx) (err error) {
		at, sums, err = tx.Sums([]string{"mine"})
		return err
	}))
	return at, sums
}

// later is a Keeper whose first groups are gone: a base stands for them.
type later struct {
	shelf
	groups []Kept
}

func (k *later) Begin(context.Context, Place) error { return nil }

func (k *later) After(_ context.Context, here Place) (out []Kept, err error) {
	for _, g := range k.groups {
		if g.Number > here.Number {
			out = append(out, g)
		}
	}
	return out, nil
}

// odd makes a store with some rows of each form of table.
func odd(t *testing.T, k *shelf) *Store {
	s := openOn(t, filepath.Join(t.TempDir(), "a.db"), k, nil)
	for _, fn := range []func(*Tx) error{
		does(`INSERT INTO strict VALUES (1, ?, ?, ?, 7), (2, ?, ?, ?, 8)`, "a\x00b", []byte{}, 1.0, "\xff\xfe", []byte{0}, -0.5),
		does(`INSERT INTO plain VALUES (1, '1'), (1.0, x''), (NULL, ?)`, "\x00"),
		does(`INSERT INTO child VALUES (1, 1), (2, 2)`),
		does(`INSERT INTO counted(v) VALUES (1), ('x')`),
		does(`DELETE FROM counted WHERE id = 2`),
		does(`INSERT INTO keyed(z, k, i) VALUES ('z', ?, 1)`, "k\x00"),
		does(`INSERT INTO mine VALUES (1, 'this machine')`),
	} {
		require.NoError(t, s.Update(t.Context(), fn))
	}
	return s
}

// TestADatabaseBeginsWithABase, and goes on with the groups after it.
func TestADatabaseBeginsWithABase(t *testing.T) {
	k := &shelf{}
	s := odd(t, k)
	base := baseOf(t, s)
	require.True(t, base.Base)
	require.EqualValues(t, len(k.groups), base.Number)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO counted(v) VALUES ('later')`)))

	path := filepath.Join(t.TempDir(), "b.db")
	groups := append([]Kept{base}, k.groups[base.Number:]...)
	again, err := Open(t.Context(), path, Options{Migrations: oddSchema, Keeper: &later{groups: groups}, Local: []string{"mine"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = again.Close() })
	require.Equal(t, rowsOf(t, s), rowsOf(t, again))
	require.NoError(t, again.Check(t.Context()))
	at, sums := sumsOf(t, s)
	there, same := sumsOf(t, again)
	require.Equal(t, at, there)
	require.Equal(t, sums, same)
	var n int
	require.NoError(t, again.View(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT max(id) FROM counted`).Scan(&n)
	}))
	require.Equal(t, 3, n, "number 2 was given out, and is not again")
}

// TestABaseIsForAnEmptyDatabase alone: one with other rows, or with groups, does not take it.
func TestABaseIsForAnEmptyDatabase(t *testing.T) {
	k := &shelf{}
	base := baseOf(t, odd(t, k))
	path := filepath.Join(t.TempDir(), "b.db")
	s, err := Open(t.Context(), path, Options{Migrations: oddSchema})
	require.NoError(t, err)
	require.NoError(t, s.Update(t.Context(), does(`INSERT INTO plain VALUES (1, 2)`)))
	require.NoError(t, s.Close())
	_, err = Open(t.Context(), path, Options{Migrations: oddSchema, Keeper: &shelf{groups: []Kept{base}}, Local: []string{"mine"}})
	require.ErrorIs(t, err, ErrDiverged)

	other := &shelf{}
	s = odd(t, other)
	a, err := openApplier(s.Path(), []string{"mine"})
	require.NoError(t, err)
	base.Number++
	require.ErrorContains(t, a.Apply([]Kept{base}), "does not follow")
	require.NoError(t, a.Close())
}

// TestSumsNameTheTableThatDiffers, and no other. Rows that stay make no difference.
func TestSumsNameTheTableThatDiffers(t *testing.T) {
	s := odd(t, &shelf{})
	_, before := sumsOf(t, s)
	require.NoError(t, s.Update(t.Context(), does(`UPDATE mine SET v = 'other'`)))
	_, after := sumsOf(t, s)
	require.Equal(t, before, after)
	for _, table := range []string{"strict", "keyed", "plain"} {
		_, before := sumsOf(t, s)
		require.NoError(t, s.Update(t.Context(), does(`DELETE FROM `+table)))
		_, after := sumsOf(t, s)
		for i := range before {
			require.Equal(t, before[i].Table == table || table == "strict" && before[i].Table == "child", before[i] != after[i], before[i].Table)
		}
	}
}

// TestAnImageIsBounded, so that a large database does not take the memory of the machine.
func TestAnImageIsBounded(t *testing.T) {
	s := odd(t, &shelf{})
	size := len(baseOf(t, s).Changes)
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		_, err := tx.Image([]string{"mine"}, size-1)
		require.ErrorIs(t, err, ErrTooLarge)
		k, err := tx.Image([]string{"mine"}, size)
		require.Len(t, k.Changes, size)
		return err
	}))
}
