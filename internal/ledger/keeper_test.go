package ledger_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

func insertOne(tx *store.Tx) error {
	_, err := tx.Insert(`INSERT INTO counted DEFAULT VALUES`)
	return err
}

func openOn(t *testing.T, path string, k store.Keeper) (*store.Store, error) {
	//fsck:none it has no table of a gate
	s, err := store.Open(t.Context(), path, store.Options{Migrations: countedSchema, Keeper: k, Local: ledger.LocalNames()})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// three makes a ledger of three groups of three eras, and the database of the active daemon, closed.
func three(t *testing.T, more ...func(*store.Tx) error) (l *memory.Ledger, path string) {
	l, path = memory.New(), filepath.Join(t.TempDir(), "a.db")
	for range 3 {
		s := must.Get(openOn(t, path, ledgertest.Keeper(l.Member())))(t)
		require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) (err error) {
			for _, fn := range append(more, insertOne) {
				err = errors.Join(err, fn(tx))
			}
			return err
		}))
		require.NoError(t, s.Close())
	}
	return l, path
}

// TestWhatTheOwnerOfTheDatabaseCanDo has the owner of the ledger's database change it: the active daemon, and a new
// member, refuse to begin with what was not signed, or is not what they know. Neither changes its database.
func TestWhatTheOwnerOfTheDatabaseCanDo(t *testing.T) {
	type list = []ledger.Group
	other, _ := three(t, insertOne, insertOne)
	for _, c := range []struct {
		name   string
		edit   func(groups list, era uint64) (list, uint64)
		active error // nil: not noticed here
		anew   error
	}{
		{"drops the newest group", func(g list, era uint64) (list, uint64) { return g[:2], era }, ledger.ErrLost, nil},
		{"drops all", func(list, uint64) (list, uint64) { return nil, 0 }, ledger.ErrLost, nil},
		{"drops one in the middle", func(g list, era uint64) (list, uint64) { return list{g[0], g[2]}, era }, ledger.ErrLost, ledger.ErrNumber},
		{"drops one, and numbers again", func(g list, era uint64) (list, uint64) {
			g[2].Number = 2
			return list{g[0], g[2]}, era
		}, ledger.ErrLost, ledger.ErrLink},
		{"reorders", func(g list, era uint64) (list, uint64) { return list{g[0], g[2], g[1]}, era }, ledger.ErrLost, ledger.ErrNumber},
		{"reorders, and numbers again", func(g list, era uint64) (list, uint64) {
			g[1], g[2] = g[2], g[1]
			g[1].Number, g[2].Number = 2, 3
			return g, era
		}, ledger.ErrForked, ledger.ErrLink},
		{"changes the newest body", func(g list, era uint64) (list, uint64) {
			g[2].Body = slices.Clone(g[1].Body)
			return g, era
		}, ledger.ErrForked, ledger.ErrSignature},
		{"changes an old body", func(g list, era uint64) (list, uint64) {
			g[0].Body = append(slices.Clone(g[0].Body), 0)
			return g, era
		}, nil, ledger.ErrSignature},
		{"takes a signature away", func(g list, era uint64) (list, uint64) { g[2].Signature = nil; return g, era }, ledger.ErrForked, ledger.ErrSignature},
		{"adds a group", func(g list, era uint64) (list, uint64) {
			more := g[2]
			more.Number, more.Previous = 4, ledger.DigestOf(ledgertest.Gate, g[2])
			return append(g, more), era
		}, ledger.ErrSignature, ledger.ErrSignature},
		{"goes back to an earlier era", func(g list, _ uint64) (list, uint64) { return g, 1 }, ledger.ErrRolledBack, ledger.ErrRolledBack},
		{"puts another ledger of the key in its place", func(list, uint64) (list, uint64) {
			return other.Groups(), 3
		}, ledger.ErrForked, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := three(t)
			l.Change(c.edit)
			s, err := openOn(t, path, ledgertest.Keeper(l.Member()))
			require.ErrorIs(t, err, c.active)
			if err != nil {
				require.Nil(t, s)
			}
			_, err = openOn(t, filepath.Join(t.TempDir(), "new.db"), ledgertest.Keeper(l.Member()))
			require.ErrorIs(t, err, c.anew)
		})
	}
}

// TestALedgerOfAnotherGate: the signatures are of another key, or for another gate.
func TestALedgerOfAnotherGate(t *testing.T) {
	l, _ := three(t)
	k := ledgertest.Keeper(l.Member())
	k.Verifier = ledgertest.NewKey(2)
	_, err := openOn(t, filepath.Join(t.TempDir(), "new.db"), k)
	require.ErrorIs(t, err, ledger.ErrSignature)
	k = ledgertest.Keeper(l.Member())
	k.Gate = "00000000000000000000000000000000"
	_, err = openOn(t, filepath.Join(t.TempDir(), "new.db"), k)
	require.ErrorIs(t, err, ledger.ErrSignature)
}

// TestADaemonThatWasFenced keeps nothing, and says why; the one that took over has all that was told.
func TestADaemonThatWasFenced(t *testing.T) {
	l, path := three(t)
	old := must.Get(openOn(t, path, ledgertest.Keeper(l.Member())))(t)
	require.NoError(t, old.Update(t.Context(), insertOne))
	next := must.Get(openOn(t, filepath.Join(t.TempDir(), "next.db"), ledgertest.Keeper(l.Member())))(t)
	err := old.Update(t.Context(), insertOne)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, ledger.ErrFenced)
	require.NoError(t, next.Update(t.Context(), insertOne))
	require.NoError(t, next.Close())
	require.Len(t, l.Groups(), 5)
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), next.Path(), countedSchema))
}

// TestAPartition: while the ledger is away, nothing is decided, and afterwards all goes on.
func TestAPartition(t *testing.T) {
	l := memory.New()
	m := l.Member()
	path := filepath.Join(t.TempDir(), "a.db")
	s := must.Get(openOn(t, path, ledgertest.Keeper(m)))(t)
	require.NoError(t, s.Update(t.Context(), insertOne))
	m.Partition(true)
	require.ErrorIs(t, s.Update(t.Context(), insertOne), store.ErrUnavailable)
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		var n int
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM counted`).Scan(&n))
		require.Equal(t, 1, n)
		return nil
	}), "reading goes on")
	m.Partition(false)
	require.NoError(t, s.Update(t.Context(), insertOne))
	require.NoError(t, s.Close())
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))

	m = l.Member()
	m.Partition(true)
	_, err := openOn(t, path, ledgertest.Keeper(m))
	require.ErrorIs(t, err, ledger.ErrUnavailable)
}

// TestAnotherGroupUnderTheNumberInDoubt: the ledger says that the group is kept, and has another one. Then the daemon
// decides nothing more.
func TestAnotherGroupUnderTheNumberInDoubt(t *testing.T) {
	l, path := three(t)
	m := l.Member()
	k := ledgertest.Keeper(m)
	s := must.Get(openOn(t, path, k))(t)
	m.Order(memory.InDoubtKept, memory.Away)
	k.Pause = func(int, <-chan struct{}) error {
		l.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) {
			g[3].Body = slices.Clone(g[2].Body)
			return g, era
		})
		return nil
	}
	require.ErrorIs(t, s.Update(t.Context(), insertOne), ledger.ErrForked)
	require.ErrorIs(t, s.Update(t.Context(), insertOne), store.ErrUnavailable)
	require.Len(t, l.Groups(), 4)
}

// TestCallersWaitWhileItIsInDoubt: they hear the truth when the ledger is back, and Close ends the wait.
func TestCallersWaitWhileItIsInDoubt(t *testing.T) {
	for _, closed := range []bool{false, true} {
		l, path := three(t)
		m := l.Member()
		k := ledgertest.Keeper(m)
		s := must.Get(openOn(t, path, k))(t)
		asked := make(chan struct{}, 1)
		k.Pause = func(try int, stop <-chan struct{}) error {
			if try == 3 {
				asked <- struct{}{}
			}
			return ledger.Pause(1, stop)
		}
		told := make(chan error, 1)
		m.Order(memory.InDoubtKept)
		m.Order(slices.Repeat([]memory.Fault{memory.Away}, 5)...)
		if closed {
			m.Order(slices.Repeat([]memory.Fault{memory.Away}, 100_000)...)
		}
		go func() { told <- s.Update(t.Context(), insertOne) }()
		<-asked
		require.Empty(t, told)
		if closed {
			require.NoError(t, s.Close())
			require.ErrorIs(t, <-told, store.ErrKeepInDoubt)
			s = must.Get(openOn(t, path, ledgertest.Keeper(l.Member())))(t)
		} else {
			require.NoError(t, <-told)
		}
		require.NoError(t, s.Close())
		require.Len(t, l.Groups(), 4)
		require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))
	}
}

// TestCompareSeesADifference has a row here that the ledger lacks, and the reverse.
func TestCompareSeesADifference(t *testing.T) {
	l, path := three(t)
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))
	l.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return g[:2], era })
	require.ErrorContains(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema), "counted")
	more, _ := three(t)
	k := must.Get(openOn(t, filepath.Join(t.TempDir(), "more.db"), ledgertest.Keeper(more.Member())))(t)
	require.NoError(t, k.Update(t.Context(), insertOne))
	require.ErrorContains(t, ledgertest.Compare(t.Context(), more.Member(), path, countedSchema), "counted")
}

// TestOneOfTwoTakesTheEra: two that saw the same era cannot both begin the next one.
func TestOneOfTwoTakesTheEra(t *testing.T) {
	l := memory.New()
	_, err := l.Member().Take(t.Context(), 0)
	require.NoError(t, err)
	_, err = l.Member().Take(t.Context(), 0)
	require.ErrorIs(t, err, ledger.ErrFenced)
	require.ErrorIs(t, l.Member().Beat(0), ledger.ErrFenced)
	require.NoError(t, l.Member().Beat(1))
}
