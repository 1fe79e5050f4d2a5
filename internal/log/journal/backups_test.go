package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

func TestBackups(t *testing.T) {
	s := newStore(t)
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	write := func(fn func(*store.Tx) error) { t.Helper(); require.NoError(t, s.Update(t.Context(), fn)) }
	read := func() (b journal.Backups) {
		t.Helper()
		require.NoError(t, s.View(t.Context(), func(tx *store.Tx) (err error) { b, err = journal.ReadBackups(tx); return err }))
		return b
	}
	add := func(sum string, at time.Time) {
		write(func(tx *store.Tx) error { return journal.AddBackup(tx, sum, at) })
	}
	require.Zero(t, read())
	add("a", noon)
	require.True(t, read().At.Equal(noon))
	require.True(t, read().Verified.IsZero())
	require.ErrorIs(t, s.Update(t.Context(), func(tx *store.Tx) error { return journal.VerifyBackup(tx, "b") }), refusal.UnknownTarget)
	write(func(tx *store.Tx) error { return journal.VerifyBackup(tx, "a") })
	require.True(t, read().Verified.Equal(noon))
	// The newest verified copy is kept, however many follow that nobody checked; the table does not grow.
	for i := range 40 {
		add(fmt.Sprint("n", i), noon.Add(time.Duration(i+1)*time.Hour))
	}
	require.True(t, read().At.Equal(noon.Add(40*time.Hour)))
	require.True(t, read().Verified.Equal(noon))
	var n int
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error { return tx.QueryRow(`SELECT count(*) FROM backups`).Scan(&n) }))
	require.Equal(t, 17, n)
	require.ErrorIs(t, s.Update(t.Context(), func(tx *store.Tx) error { return journal.VerifyBackup(tx, "n23") }), refusal.UnknownTarget)
	write(func(tx *store.Tx) error { return journal.VerifyBackup(tx, "n24") })
	require.True(t, read().Verified.Equal(noon.Add(25*time.Hour)))
}
