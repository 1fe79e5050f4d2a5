package fsck_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/host/retention"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

// TestSegmentsThatAreNotTheLogs: internal/host/retention has more of what can be wrong with them.
func TestSegmentsThatAreNotTheLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := archive.NewDir(filepath.Join(t.TempDir(), "archive"))
	w.archiveAll(dir)
	checked := func() (r fsck.Report) {
		require.NoError(t, w.store.View(t.Context(), func(tx *store.Tx) (err error) {
			r, err = fsck.Checker{Archive: archive.NewDir(dir.Path()), Migrations: migrations()}.Run(tx)
			return err
		}))
		note(r)
		return r
	}
	codes := func() (out []fsck.Code) {
		for _, p := range checked().Problems {
			out = append(out, p.Code)
		}
		return out
	}
	require.Empty(t, codes())
	require.EqualValues(t, 1, checked().Checked["archived jobs"])

	exec := func(query string) {
		require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(query); return err }))
	}
	exec(`UPDATE archived_jobs SET last = last + 1`)
	require.Subset(t, codes(), []fsck.Code{"segment-unknown", "archived-changed"})
	exec(`UPDATE archived_jobs SET last = last - 1`)

	name := filepath.Join(dir.Path(), must.Get(os.ReadDir(dir.Path()))(t)[0].Name())
	text := must.Get(os.ReadFile(name))(t)
	require.NoError(t, os.WriteFile(name, text[:len(text)-1], 0o600))
	require.Equal(t, []fsck.Code{"segment-damaged"}, codes())
	require.NoError(t, os.Remove(name))
	require.Equal(t, []fsck.Code{"segment-missing"}, codes())
	require.NotEmpty(t, checked().NotChecked)
	require.NoError(t, os.WriteFile(name, text, 0o600))
	require.Empty(t, codes())
}

// archiveAll makes a guest and a tile of entries, lets a day pass and archives that.
func (w *world) archiveAll(dir *archive.Dir) {
	key := must.Get(checkpoint.NewKey(testGate))(w.t)
	require.NoError(w.t, w.store.Close())
	w.key = key.Signer
	w.open()
	require.NoError(w.t, w.store.Update(w.t.Context(), func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, testGate, key.Public); err != nil {
			return err
		}
		return w.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: key.Public}})
	}))
	w.do(ask("guest.create", "web"))
	for range 300 {
		require.NoError(w.t, w.gate.Log(w.t.Context(), audit.Entry{Kind: audit.Stopped}))
	}
	for range 25 {
		w.pass(time.Hour)
		require.NoError(w.t, w.gate.Tick(w.t.Context()))
	}
	k := must.Get(retention.New(retention.Config{Store: w.store, Dir: dir, After: 24 * time.Hour, Keep: 1, Gate: testGate, Schema: 1,
		Append: w.gate.Append, Moment: w.gate.Moment, Up: func() time.Duration { return 0 }, Admit: func(int64) error { return nil },
		Rest: func(context.Context, time.Duration) {}}))(w.t)
	for did := true; did; {
		did = must.Get(k.Step(w.t.Context()))(w.t)
	}
	require.Equal(w.t, int64(1), k.State().Segments)
}
