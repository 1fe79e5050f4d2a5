package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

func TestSpent(t *testing.T) {
	s := newStore(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for i, n := range []int64{1, 10, 100} {
			require.NoError(t, journal.Spend(tx, "uid:1", at.Add(time.Duration(i)*journal.SpentSlot), n))
		}
		require.NoError(t, journal.Spend(tx, "uid:1", at, 1000))
		require.NoError(t, journal.Spend(tx, "uid:2", at, 7))
		for since, want := range map[time.Duration]int64{-journal.SpentSlot: 1111, 0: 110, journal.SpentSlot: 100, 2 * journal.SpentSlot: 0} {
			n := must.Get(journal.Spent(tx, "uid:1", at.Add(since)))(t)
			require.Equal(t, want, n, since)
		}
		require.NoError(t, journal.ForgetSpent(tx, at.Add(journal.SpentSlot), 10))
		n := must.Get(journal.Spent(tx, "uid:1", at.Add(-time.Hour)))(t)
		require.EqualValues(t, 110, n)
		require.Error(t, journal.Spend(tx, "uid:1", at, 0), "a row that counts nothing is none")
		return nil
	}))
}

func TestSnapshotsByRequester(t *testing.T) {
	s := newStore(t)
	web := op.Target{Kind: "guest", Name: "web"}
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, journal.AddSnapshot(tx, web, "a", "uid:1", 1))
		require.NoError(t, journal.AddSnapshot(tx, web, "b", "uid:1", 2))
		require.NoError(t, journal.AddSnapshot(tx, web, "b", "uid:2", 3))
		mine := must.Get(journal.SnapshotsBy(tx, web, "uid:1"))(t)
		require.Equal(t, []string{"a"}, mine, "a snapshot is one requester's")
		require.NoError(t, journal.ForgetSnapshot(tx, web, "a"))
		mine = must.Get(journal.SnapshotsBy(tx, web, "uid:1"))(t)
		require.Empty(t, mine)
		return nil
	}))
}
