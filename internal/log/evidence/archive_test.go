package evidence_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/retention"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/evidence"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// archived moves all that may go to segment files, and returns their directory.
func (w *world) archived() string {
	w.t.Helper()
	for range 300 {
		require.NoError(w.t, w.gate.Log(w.t.Context(), audit.Entry{Kind: audit.Stopped}))
	}
	for range 49 {
		w.wall = w.wall.Add(time.Hour)
		require.NoError(w.t, w.gate.Tick(w.t.Context()))
	}
	path := filepath.Join(filepath.Dir(w.store.Path()), "archive")
	k := must.Get(retention.New(retention.Config{Store: w.store, Dir: archive.NewDir(path), After: 24 * time.Hour, Keep: 16, Gate: gateworld.ID,
		Schema: len(gate.Migrations()), Append: w.gate.Append, Moment: w.gate.Moment, Up: func() time.Duration { return w.wall.Sub(gateworld.Noon) },
		Admit: func(int64) error { return nil }, Rest: func(context.Context, time.Duration) {}}))(w.t)
	for did := true; did; {
		did = must.Get(k.Step(w.t.Context()))(w.t)
	}
	require.Empty(w.t, k.State().Held)
	require.EqualValues(w.t, 1, k.State().Segments)
	return path
}

// TestAnArchivedStep: with the segment file its evidence is the same, and without it the refusal names the file.
func TestAnArchivedStep(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	before := w.evidence(id)
	dir := w.archived()
	make := func() (docs []evidence.Document, steps []evidence.Step, err error) {
		err = w.store.View(t.Context(), func(tx *store.Tx) (err error) {
			m := evidence.Maker{Host: "pve1", Key: &w.key, Archive: archive.NewDir(dir)}
			if docs, err = m.Job(tx, id.Job, 0); err != nil {
				return err
			}
			steps, err = m.Report(tx, time.Time{}, time.Time{})
			return err
		})
		return docs, steps, err
	}
	docs, steps, err := make()
	require.NoError(t, err)
	require.Len(t, docs, 1)
	require.Len(t, steps, 1)
	require.Equal(t, op.StepID{Job: id.Job, Index: 1}, steps[0].ID)
	require.Equal(t, []any{before.Payload, before.Signatures, before.Signers, before.Shown},
		[]any{docs[0].Payload, docs[0].Signatures, docs[0].Signers, docs[0].Shown})
	code, words := verify(t, line(t, docs[0]), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.NotContains(t, words, "NOT")

	away := filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(dir, away))
	_, _, err = make()
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "segment-00000001-")
	require.NoError(t, os.Rename(away, dir))
}
