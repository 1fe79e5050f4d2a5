package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The ways in which a call may go in the property test.
const (
	callGood      = "good"
	callTwoRows   = "two rows"
	callError     = "writes, then an error"
	callPanic     = "writes, then panics"
	callDuplicate = "constraint, returned"
	callSwallow   = "constraint, swallowed"
	callInner     = "inner savepoint dropped"
	callLater     = "inner savepoint dropped after a write"
	callNested    = "inner savepoints in each other, the outer dropped"
	callInnerOnly = "inner savepoint kept, then an error"
	callFull      = "disk full, returned"
	callFullMute  = "disk full, swallowed"
	callRollback  = "OR ROLLBACK behind the store's back, swallowed"
	callWithdrawn = "cancelled in the queue"
	callCancelled = "cancelled while it runs"
	callOr        = "writes, then an error, and another row instead"
	callOrFails   = "writes, then an error, and so does what runs instead"
	callOrPanics  = "writes, then an error, and what runs instead panics"
	callOrFull    = "an error, and a full disk in what runs instead"
	callPanicOr   = "writes, then panics, and would write something instead"
)

var callKinds = []string{callGood, callGood, callGood, callTwoRows, callError, callPanic, callDuplicate, callSwallow,
	callInner, callLater, callNested, callInnerOnly, callFull, callFullMute, callRollback, callWithdrawn, callCancelled,
	callOr, callOrFails, callOrPanics, callOrFull, callPanicOr}

// The ways in which the end of a group may go.
const (
	endWell       = ""
	endVetoed     = "COMMIT fails"
	endNeverSent  = "COMMIT never reaches SQLite"
	endLostAnswer = "COMMIT succeeds, its answer is lost"
	endDead       = "the connection dies before COMMIT"
	endDeadAfter  = "the connection dies after COMMIT"
	endHook       = "an OnGroup function fails"
)

var endKinds = []string{endWell, endWell, endWell, endWell, endVetoed, endNeverSent, endLostAnswer, endDead,
	endDeadAfter, endHook}

var errMine = errors.New("the function's own")

// faulty is a store whose next group may be made to fail.
type faulty struct {
	*Store
	end atomic.Value // string: how the next group ends
}

func openFaulty(t require.TestingT, path string) *faulty { return openFaultyOn(t, path, nil) }

// openFaultyOn is openFaulty with a Keeper, or nil.
func openFaultyOn(t require.TestingT, path string, k Keeper) *faulty {
	f := &faulty{}
	f.end.Store(endWell)
	s, err := Open(context.Background(), path, Options{Migrations: schema, Keeper: k, commit: func(commit func() error) error {
		switch f.end.Swap(endWell) {
		case endVetoed:
			conn := f.writer.session.conn
			conn.RegisterCommitHook(func() int32 { return 1 })
			defer conn.RegisterCommitHook(conn.onCommit)
			return commit()
		case endDead:
			return errors.Join(errors.New("injected"), f.writer.session.close())
		case endDeadAfter:
			return errors.Join(errors.New("injected"), commit(), f.writer.session.close())
		case endNeverSent:
			return errors.New("injected before COMMIT")
		case endLostAnswer:
			return errors.Join(errors.New("injected after COMMIT"), commit())
		}
		return commit()
	}})
	require.NoError(t, err)
	s.OnGroup(func(*Tx) error {
		if f.end.CompareAndSwap(endHook, endWell) {
			return errMine
		}
		return nil
	})
	f.Store = s
	return f
}

// fill runs statements with no room for another page.
func fill(tx *Tx, k string) error {
	if err := tx.s.control(`PRAGMA max_page_count = 1`); err != nil { // SQLite rounds up to what is in use
		return err
	}
	_, err := tx.Insert(insertItem, k, make([]byte, 1<<20))
	return err
}

func makeRoom(tx *Tx) error { return tx.s.control(`PRAGMA max_page_count = 1073741823`) }

// body returns the function of one call and the rows that a success leaves.
func body(kind, k string, cancel func()) (fn func(*Tx) error, leaves []string) {
	first := func(tx *Tx) error { return put(k)(tx) }
	switch kind {
	case callTwoRows:
		return func(tx *Tx) error { return errors.Join(first(tx), put(k+"+")(tx)) }, []string{k, k + "+"}
	case callOr:
		return func(tx *Tx) error { return errors.Join(first(tx), errMine) }, []string{k + "-or"}
	case callError, callOrFails, callOrPanics, callOrFull:
		return func(tx *Tx) error { return errors.Join(first(tx), errMine) }, nil
	case callPanic, callPanicOr:
		return func(tx *Tx) error { _ = first(tx); panic(k) }, nil
	case callDuplicate:
		return func(tx *Tx) error { return errors.Join(first(tx), put("base")(tx)) }, nil
	case callSwallow:
		return func(tx *Tx) error { _ = put("base")(tx); return first(tx) }, []string{k}
	case callInner:
		return func(tx *Tx) error {
			_ = tx.Savepoint(func() error { _ = put(k + "-inner")(tx); return errMine })
			return first(tx)
		}, []string{k}
	case callLater, callNested, callInnerOnly:
		return withSavepoints(kind, k, first)
	case callFull:
		return func(tx *Tx) error { return errors.Join(first(tx), fill(tx, k+"-big")) }, nil
	case callFullMute:
		return func(tx *Tx) error { _ = fill(tx, k+"-big"); _ = first(tx); return nil }, nil
	case callRollback:
		return func(tx *Tx) error {
			_ = tx.s.internal(func() error {
				_, err := tx.Exec(`INSERT OR ROLLBACK INTO items (k) VALUES ('base')`)
				return err
			})
			_ = first(tx) // must not land in a transaction of its own
			return nil
		}, nil
	case callCancelled:
		return func(tx *Tx) error { cancel(); return first(tx) }, []string{k}
	default:
		return first, []string{k}
	}
}

// instead returns the function of UpdateOr of one call; nil for none.
func instead(kind, k string) func(*Tx, error) error {
	return func(tx *Tx, failed error) error {
		if !errors.Is(failed, errMine) {
			return failed
		}
		switch kind {
		case callOrFails:
			return errors.Join(put(k+"-or")(tx), errMine)
		case callOrPanics:
			_ = put(k + "-or")(tx)
			panic(k)
		case callOrFull:
			_ = fill(tx, k+"-big")
			return nil
		default:
			return put(k + "-or")(tx)
		}
	}
}

// holder returns a function that holds the writer until release is closed, and keeps nothing. The group after it begins
// without savepoints, or with them if careful says so.
func holder(w *writer, careful bool, entered chan<- struct{}, release <-chan struct{}) func(*Tx) error {
	enter := sync.OnceFunc(func() { close(entered) }) // the function fails, so it runs twice
	return func(tx *Tx) error {
		enter()
		<-release
		w.careful = 0
		if careful {
			w.careful = 1
		}
		return errMine
	}
}

// withSavepoints is body for the calls that drop or keep parts.
func withSavepoints(kind, k string, first func(*Tx) error) (fn func(*Tx) error, leaves []string) {
	inner := func(tx *Tx, name string, then error) error {
		return tx.Savepoint(func() error { return errors.Join(put(k+name)(tx), then) })
	}
	switch kind {
	case callLater:
		return func(tx *Tx) error {
			err := first(tx)
			_ = inner(tx, "-later", errMine)
			return errors.Join(err, inner(tx, "+", nil))
		}, []string{k, k + "+"}
	case callNested:
		return func(tx *Tx) error {
			_ = tx.Savepoint(func() error {
				_ = inner(tx, "-one", errMine)
				_ = inner(tx, "-two", nil)
				_ = inner(tx, "-three", errMine)
				return errMine
			})
			return first(tx)
		}, []string{k}
	default:
		return func(tx *Tx) error { return errors.Join(inner(tx, "-inner", nil), errMine) }, nil
	}
}

// round sends calls so that they are one group and checks the answers against
// the rows.
func (f *faulty) round(t *rapid.T, number int) {
	kinds := rapid.SliceOfN(rapid.SampledFrom(callKinds), 1, 9).Draw(t, "calls")
	end := rapid.SampledFrom(endKinds).Draw(t, "end")
	entered, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	hold := holder(f.writer, rapid.Bool().Draw(t, "careful"), entered, release)
	wg.Go(func() {
		_ = f.Update(context.Background(), func(tx *Tx) error { return errors.Join(makeRoom(tx), hold(tx)) })
	})
	<-entered
	answers, leaves := make([]error, len(kinds)), make([][]string, len(kinds))
	name := func(i int) string { return fmt.Sprintf("%d.%d", number, i) }
	for i, kind := range kinds {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var fn func(*Tx) error
		fn, leaves[i] = body(kind, name(i), cancel)
		c := &call{fn: fn, done: make(chan error, 1)}
		switch kind {
		case callOr, callOrFails, callOrPanics, callOrFull, callPanicOr:
			c.or = instead(kind, name(i))
		}
		require.NoError(t, f.writer.enqueue(ctx, c))
		if kind == callWithdrawn {
			answers[i] = c.withdraw(context.Canceled)
			continue
		}
		wg.Go(func() { answers[i] = <-c.done })
	}
	f.end.Store(end)
	close(release)
	wg.Wait()
	f.end.Store(endWell)
	f.judge(t, number, kinds, answers, leaves)
}

// judge holds the rows of a round against what its callers were told.
func (f *faulty) judge(t *rapid.T, number int, kinds []string, answers []error, leaves [][]string) {
	want := map[string]bool{}
	lost := false
	for i, err := range answers {
		if err == nil {
			for _, k := range leaves[i] {
				want[k] = true
			}
			require.NotEmpty(t, leaves[i], "%s cannot succeed", kinds[i])
		}
		lost = lost || kinds[i] != callWithdrawn && errors.Is(err, ErrUnavailable)
	}
	if lost {
		require.Empty(t, want, "half a group was kept: %v %v", kinds, answers)
	}
	got := map[string]bool{}
	for k := range f.keys(t) {
		if strings.HasPrefix(k, fmt.Sprintf("%d.", number)) {
			got[k] = true
		}
	}
	require.Equal(t, want, got, "%v %v", kinds, answers)
}

func (f *faulty) keys(t require.TestingT) map[string]bool {
	out := map[string]bool{}
	require.NoError(t, f.View(context.Background(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT k FROM items`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var k string
			if err := rows.Scan(&k); err != nil {
				return err
			}
			out[k] = true
		}
		return rows.Err()
	}))
	return out
}

// H03, H10: whatever goes wrong inside a group, a caller that was told success
// finds its rows after a reopen, one that was told failure does not, no group
// is kept by half, and the store works afterwards.
func TestGroupsTellTheTruth(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		f := openFaulty(t, path)
		require.NoError(t, f.Update(context.Background(), put("base")))
		for i := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			f.round(t, i)
		}
		require.NoError(t, f.Update(context.Background(), func(tx *Tx) error {
			return errors.Join(makeRoom(tx), put("last")(tx))
		}))
		before := f.keys(t)
		require.NoError(t, f.Close())
		again := openFaulty(t, path)
		require.Equal(t, before, again.keys(t))
		require.True(t, before["last"])
		require.NoError(t, again.Check(context.Background()))
		require.NoError(t, again.Close())
		require.NoError(t, os.Remove(path))
	})
}

func TestOutcomeThatCannotBeReadIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gated.db")
	f := openFaulty(t, path)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, f.Update(t.Context(), put("a")))
	// While the call runs nobody else uses the path, so that it may lead nowhere.
	err := f.Update(t.Context(), func(tx *Tx) error {
		f.end.Store(endDead)
		f.path = path + ".gone"
		return put("b")(tx)
	})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "cannot be read yet")
	require.ErrorIs(t, f.Update(t.Context(), put("c")), ErrUnavailable)
	f.path = path
	require.NoError(t, f.Update(t.Context(), put("d")))
	require.Equal(t, map[string]bool{"a": true, "d": true}, f.keys(t))
}
