package life

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/signers"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// TestARestoreIsATimeAway: how far the clock is past the backup's time counts for archiving, as it does at a start. The start after a
// restore finds the mark at this machine's time.
func TestARestoreIsATimeAway(t *testing.T) {
	for _, away := range []time.Duration{time.Minute, 25 * time.Hour, -25 * time.Hour} {
		dir := filepath.Join(t.TempDir(), "state")
		must.Get(Init(t.Context(), InitOptions{StateDir: dir, Host: "pve1",
			Operators: []signers.KeyArg{{Path: "../../../testdata/keys/alice.pub", Principal: "alice@example.com"}}}))(t)
		s := fscktest.Open(t, filepath.Join(dir, "gated.db"), store.Options{Migrations: Migrations()})
		require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
			before := nonce.System()
			before.Wall = before.Wall.Add(-away)
			return nonce.SetMark(tx, before)
		}))
		require.NoError(t, s.Close())
		file := filepath.Join(t.TempDir(), "backup")
		require.NoError(t, Backup(t.Context(), dir, file))
		must.Get(Restore(t.Context(), file, dir))(t)

		s = fscktest.Open(t, filepath.Join(dir, "gated.db"), store.Options{Migrations: Migrations()})
		require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
			a, err := journal.ReadArchiving(tx)
			require.InDelta(t, max(away, 0), a.Away, float64(time.Minute), away)
			mark, _ := must.Two(nonce.ReadMark(tx))(t)
			require.WithinDuration(t, time.Now(), mark.Wall, time.Minute)
			return err
		}))
	}
}
