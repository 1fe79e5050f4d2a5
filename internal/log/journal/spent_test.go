package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/journal"
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
			n, err := journal.Spent(tx, "uid:1", at.Add(since))
			require.NoError(t, err)
			require.Equal(t, want, n, since)
		}
		require.NoError(t, journal.ForgetSpent(tx, at.Add(journal.SpentSlot), 10))
		n, err := journal.Spent(tx, "uid:1", at.Add(-time.Hour))
		require.NoError(t, err)
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
		mine, err := journal.SnapshotsBy(tx, web, "uid:1")
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, mine, "a snapshot is one requester's")
		require.NoError(t, journal.ForgetSnapshot(tx, web, "a"))
		mine, err = journal.SnapshotsBy(tx, web, "uid:1")
		require.NoError(t, err)
		require.Empty(t, mine)
		return nil
	}))
}
