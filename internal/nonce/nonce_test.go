package nonce_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openStore(t testing.TB, path string) *store.Store {
	return fscktest.Open(t, path, store.Options{Migrations: []store.Migration{{Version: 1, Name: "nonces", SQL: nonce.Schema + nonce.SchemaBoot}}})
}

func newStore(t testing.TB) *store.Store {
	return openStore(t, filepath.Join(t.TempDir(), "nonces.db"))
}

func update(t testing.TB, s *store.Store, fn func(*store.Tx) error) error {
	return s.Update(t.Context(), fn)
}

func record(n string) nonce.Record {
	return nonce.Record{Nonce: n, Request: op.RequestID{Job: 3, Index: 2}, Payload: op.SHA256([]byte(n)), ExpiresAt: start}
}

func lookup(t testing.TB, s *store.Store, n string) (r nonce.Record, ok bool) {
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) {
		r, ok, err = nonce.Lookup(tx, n)
		return err
	}))
	return r, ok
}

func TestIssueSpendLookup(t *testing.T) {
	s := newStore(t)
	_, ok := lookup(t, s, "a")
	require.False(t, ok)
	require.ErrorIs(t, update(t, s, func(tx *store.Tx) error { return nonce.Spend(tx, "a", nonce.Used) }), refusal.Replayed,
		"what was never issued cannot be spent")
	require.NoError(t, update(t, s, func(tx *store.Tx) error { return nonce.Issue(tx, record("a")) }))
	got, ok := lookup(t, s, "a")
	require.True(t, ok)
	require.Equal(t, record("a"), got)

	other := record("a")
	other.Payload = op.SHA256(nil)
	require.ErrorIs(t, update(t, s, func(tx *store.Tx) error { return nonce.Issue(tx, other) }), refusal.Replayed)
	got, _ = lookup(t, s, "a")
	require.Equal(t, record("a"), got, "a second issue changes nothing")

	require.NoError(t, update(t, s, func(tx *store.Tx) error { return nonce.Spend(tx, "a", nonce.Cancelled) }))
	for _, fate := range []nonce.Fate{nonce.Used, nonce.Cancelled} {
		require.ErrorIs(t, update(t, s, func(tx *store.Tx) error { return nonce.Spend(tx, "a", fate) }), refusal.Replayed)
	}
	got, _ = lookup(t, s, "a")
	require.Equal(t, nonce.Cancelled, got.Fate, "the first fate stays")
	require.ErrorIs(t, update(t, s, func(tx *store.Tx) error { return nonce.Issue(tx, record("a")) }), refusal.Replayed,
		"a spent nonce is not issued again")
}

func TestConcurrentSpendHasOneWinner(t *testing.T) {
	s := newStore(t)
	require.NoError(t, update(t, s, func(tx *store.Tx) error { return nonce.Issue(tx, record("a")) }))
	fates := []nonce.Fate{nonce.Used, nonce.Rejected, nonce.Cancelled, nonce.Superseded}
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = update(t, s, func(tx *store.Tx) error { return nonce.Spend(tx, "a", fates[i%len(fates)]) })
		})
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, winner, "two spent one nonce")
			winner = i
		} else {
			require.ErrorIs(t, err, refusal.Replayed)
		}
	}
	got, _ := lookup(t, s, "a")
	require.Equal(t, fates[winner%len(fates)], got.Fate)
}

func TestSpendIsTakenBackWithItsTransaction(t *testing.T) {
	s := newStore(t)
	require.NoError(t, update(t, s, func(tx *store.Tx) error { return nonce.Issue(tx, record("a")) }))
	require.Error(t, update(t, s, func(tx *store.Tx) error {
		require.NoError(t, nonce.Spend(tx, "a", nonce.Used))
		return refusal.New(refusal.Conflict, "something later fails")
	}))
	require.NoError(t, update(t, s, func(tx *store.Tx) error { return nonce.Spend(tx, "a", nonce.Used) }))
}

func TestPrune(t *testing.T) {
	s := newStore(t)
	require.NoError(t, update(t, s, func(tx *store.Tx) error {
		for i, n := range []string{"old", "at", "young", "old-unspent"} {
			r := record(n)
			r.ExpiresAt = start.Add(time.Duration(i-1) * time.Second)
			r.Fate = nonce.Used
			if n == "old-unspent" {
				r.ExpiresAt, r.Fate = start.Add(-time.Hour), nonce.Unspent
			}
			require.NoError(t, nonce.Issue(tx, r))
		}
		return nil
	}))
	prune := func(limit int) (n int64) {
		require.NoError(t, update(t, s, func(tx *store.Tx) (err error) { n, err = nonce.Prune(tx, start, limit); return err }))
		return n
	}
	require.Zero(t, prune(0))
	require.EqualValues(t, 1, prune(10), "only what expired before, and only what is spent")
	for n, want := range map[string]bool{"old": false, "at": true, "young": true, "old-unspent": true} {
		_, ok := lookup(t, s, n)
		require.Equal(t, want, ok, n)
	}
}

func TestPruneStopsAtItsLimit(t *testing.T) {
	s := newStore(t)
	require.NoError(t, update(t, s, func(tx *store.Tx) error {
		for i := range 10 {
			r := record(op.NewNonce(time.Now()))
			r.ExpiresAt, r.Fate = start.Add(-time.Duration(i+1)*time.Minute), nonce.Used
			require.NoError(t, nonce.Issue(tx, r))
		}
		return nil
	}))
	for _, want := range []int64{4, 4, 2, 0} {
		var n int64
		require.NoError(t, update(t, s, func(tx *store.Tx) (err error) { n, err = nonce.Prune(tx, start, 4); return err }))
		require.Equal(t, want, n)
	}
}
