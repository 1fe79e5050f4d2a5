package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// recent is what put remembers of a group: how many rows there were before it, and the keys that came since.
type recent struct {
	counted bool
	before  int
	keys    []string
}

var (
	recentRows Memory[recent]
	wrongly    atomic.Pointer[error] // the first time that a recent was not true
)

// put writes a row. It also remembers it, and looks first whether what is remembered is what the table has. TestMain
// fails if that was ever wrong, so each test that puts is one of Memory too, with the faults of that test.
func put(k string) func(*Tx) error { return putSized(k, 1) }

func putSized(k string, size int) func(*Tx) error {
	return func(tx *Tx) error {
		var rows int
		if err := tx.QueryRow(`SELECT count(*) FROM items`).Scan(&rows); err != nil {
			return err
		}
		r := recentRows.In(tx)
		if r == nil { // a View
			_, err := tx.Insert(insertItem, k, nil)
			return err
		}
		if !r.counted {
			r.counted, r.before = true, rows
		}
		if want := r.before + len(r.keys); rows != want {
			err := fmt.Errorf("before %s there are %d rows, and %d are remembered: %v", k, rows, want, r.keys)
			wrongly.CompareAndSwap(nil, &err)
		}
		if _, err := tx.Insert(insertItem, k, make([]byte, size)); err != nil {
			return err
		}
		r.keys = append(r.keys, k)
		return nil
	}
}

// oneGroup runs functions in one group, and returns the error of each.
func oneGroup(t *testing.T, s *Store, fns ...func(*Tx) error) []error {
	t.Helper()
	entered, release := make(chan struct{}), make(chan struct{})
	go func() { _ = s.Update(context.Background(), holder(s.writer, false, entered, release)) }()
	<-entered
	var calls []*call
	for _, fn := range fns {
		c := &call{fn: fn, done: make(chan error, 1)}
		require.NoError(t, s.writer.enqueue(t.Context(), c))
		calls = append(calls, c)
	}
	close(release)
	var errs []error
	for _, c := range calls {
		errs = append(errs, <-c.done)
	}
	return errs
}

// remembers returns a function that puts a row and expects the keys that the group has before it.
func remembers(t *testing.T, k string, before ...string) func(*Tx) error {
	return func(tx *Tx) error {
		require.Equal(t, append([]string(nil), before...), recentRows.In(tx).keys, "before %s", k)
		return put(k)(tx)
	}
}

func fails(fn func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error { return errors.Join(fn(tx), errMine) }
}

func TestMemoryLastsAsLongAsItsGroup(t *testing.T) {
	s := tempStore(t)
	var atTheEnd []string
	s.OnGroup(func(tx *Tx) error { atTheEnd = recentRows.In(tx).keys; return nil })
	for range 2 {
		errs := oneGroup(t, s, remembers(t, fmt.Sprint("a", len(atTheEnd))), remembers(t, fmt.Sprint("b", len(atTheEnd)), fmt.Sprint("a", len(atTheEnd))))
		require.Equal(t, []error{nil, nil}, errs)
		require.Len(t, atTheEnd, 2)
		atTheEnd = append(atTheEnd, "more")
	}
	require.NoError(t, s.Update(t.Context(), remembers(t, "c")))
	require.Equal(t, []string{"c"}, atTheEnd)
}

func TestMemoryGoesBackWithACall(t *testing.T) {
	s := tempStore(t)
	errs := oneGroup(t, s,
		fails(remembers(t, "first")), // the first use of all is dropped
		remembers(t, "a"),
		fails(remembers(t, "b", "a")),
		func(tx *Tx) error { _ = remembers(t, "c", "a")(tx); panic("boom") },
		remembers(t, "d", "a"))
	require.NoError(t, errs[1])
	require.ErrorContains(t, errs[3], "boom")
	require.NoError(t, errs[4])
	require.Equal(t, map[string]bool{"a": true, "d": true}, keys(t, s))
}

func TestMemoryGoesBackWithASavepoint(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		within := func(fn func(*Tx) error) error { return tx.Savepoint(func() error { return fn(tx) }) }
		require.ErrorIs(t, within(fails(remembers(t, "first"))), errMine)
		require.NoError(t, within(remembers(t, "a")))
		r := recentRows.In(tx)
		require.ErrorIs(t, within(fails(func(tx *Tx) error {
			require.ErrorIs(t, within(fails(remembers(t, "b", "a"))), errMine)
			return within(remembers(t, "c", "a"))
		})), errMine)
		require.Same(t, r, recentRows.In(tx))
		require.Equal(t, []string{"a"}, r.keys)
		return remembers(t, "d", "a")(tx)
	}))
	require.Equal(t, map[string]bool{"a": true, "d": true}, keys(t, s))
}

// Whatever ends a group, the next one remembers nothing of it.
func TestMemoryIsForgottenWithAGroupThatFails(t *testing.T) {
	f := openFaulty(t, t.TempDir()+"/gated.db")
	defer func() { require.NoError(t, f.Close()) }()
	for i, end := range endKinds {
		f.end.Store(end)
		_ = f.Update(t.Context(), remembers(t, fmt.Sprint(i)))
	}
	require.Error(t, f.Update(t.Context(), func(tx *Tx) error { return errors.Join(put("x")(tx), fill(tx, "full")) }))
	require.NoError(t, f.Update(t.Context(), func(tx *Tx) error { return errors.Join(makeRoom(tx), remembers(t, "last")(tx)) }))
}

func TestMemoriesAreApartAndOnlyForWriters(t *testing.T) {
	s := tempStore(t)
	var one, other Memory[int]
	var late *Tx
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
		*one.In(tx)++
		*other.In(tx) += 2
		require.Equal(t, [2]int{1, 2}, [2]int{*one.In(tx), *other.In(tx)})
		late = tx
		return nil
	}))
	require.Nil(t, one.In(late))
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error { require.Nil(t, one.In(tx)); return nil }))
}
