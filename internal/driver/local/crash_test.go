package local

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// Each of these tests stops at a point where a crash could come, by calling the inner steps.
// Then it opens the root again and finds the old state or the new one.

func (w *world) crashed(between func()) {
	w.t.Helper()
	between()
	w.restart()
	for _, dir := range []string{w.root, w.path(trashDir)} {
		for _, name := range entries(w.t.(*testing.T), dir) {
			require.NotContains(w.t, name, stagePrefix, dir)
		}
	}
}

func TestCrashInCreate(t *testing.T) {
	for name, stage := range map[string]func(w *world) error{
		"made the directory": func(w *world) error { return os.Mkdir(w.path(".new-b"), 0o700) },
		"built all": func(w *world) error {
			_, err := w.d.stageGuest(".new-b", spec{UUID: "b", CreatedAt: newWorldClock()})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.crashed(func() { require.NoError(t, stage(w)) })
			require.False(t, w.observe("web").Present)
			require.Equal(t, []string{trashDir}, entries(t, w.root))
			w.do("create", "web")
		})
	}
}

// TestLeftoversDoNotBlock: what an attempt of this very daemon left does not block a later
// step.
func TestLeftoversDoNotBlock(t *testing.T) {
	w := newWorld(t)
	w.write("x", ".new-birth-1", "file")
	w.do("create", "web")
	w.write("x", "web", stagePrefix+"snapshot-s", "file")
	w.do("snapshot", "web", "snapshot", "s")
	require.Empty(t, entries(t, w.path("web", snapshotsDir, "s")))
	w.write("precious", "web", stagePrefix+dataDir, "file")
	w.do("wipe", "web")
	w.write("precious too", "web", stagePrefix+dataDir, "file")
	w.do("restore", "web", "snapshot", "s")
	require.Equal(t, []string{"data", "data", "data", "data", "what was in the way of snapshot s"}, w.inTrash())
	require.Equal(t, []string{dataDir, guestFile, snapshotsDir}, entries(t, w.path("web")))
}

func TestOneDaemonForARoot(t *testing.T) {
	w := newWorld(t)
	must.Fail(New(w.cfg))(t, refusal.Conflict)
	w.restart()
}

func TestCrashInDestroy(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	before := w.observe("web")
	id := trashName("web", before.Incarnation)
	rec := trashed{Name: "web", Incarnation: before.Incarnation, What: wholeGuest, DestroyedAt: w.clock(), Until: w.clock().Add(time.Hour)}

	// There is a record, and the guest was not moved.
	w.crashed(func() { require.NoError(t, w.d.writeRecord(id, rec)) })
	require.Equal(t, before, w.observe("web"))
	require.Empty(t, entries(t, w.path(trashDir)))

	// The guest was moved.
	w.crashed(func() {
		meant := must.Get(w.d.root.stat("web"))(t)
		require.True(t, must.Get(w.d.put(w.d.root, "web", meant, id, rec))(t))
	})
	require.False(t, w.observe("web").Present)
	w.do("undelete", "web")
	require.Equal(t, before.Incarnation, w.observe("web").Incarnation)
}

func TestCrashInUndelete(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	before := w.observe("web")
	w.do("destroy", "web")
	w.crashed(func() { // moved back; the record is still there
		require.NoError(t, os.Rename(w.path(trashDir, trashName("web", before.Incarnation)), w.path("web")))
	})
	require.Equal(t, before.Incarnation, w.observe("web").Incarnation)
	require.Empty(t, w.observe("web").Trash)
	require.Empty(t, entries(t, w.path(trashDir)))
}

func TestCrashInRestore(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("old", "web", dataDir, "file")
	w.do("snapshot", "web", "snapshot", "s")
	w.write("newer", "web", dataDir, "file")
	stage := func() {
		g := must.Get(w.d.openGuest("web"))(t)
		defer g.close()
		snapshots := must.Get(g.dir.sub(snapshotsDir))(t)
		defer snapshots.close()
		require.NoError(t, w.d.stageCopy(w.ctx, snapshots, "s", g.dir, stagePrefix+dataDir))
	}
	before := w.observe("web")
	w.crashed(stage) // staged, not exchanged yet
	require.Equal(t, "newer", w.content("web", dataDir, "file"))
	require.Equal(t, before, w.observe("web"))

	w.crashed(func() { // exchanged; the old tree not moved away yet
		stage()
		require.NoError(t, unix.Renameat2(unix.AT_FDCWD, w.path("web", stagePrefix+dataDir), unix.AT_FDCWD,
			w.path("web", dataDir), unix.RENAME_EXCHANGE))
	})
	require.Equal(t, "old", w.content("web", dataDir, "file"))
	require.NoDirExists(t, w.path("web", stagePrefix+dataDir))
	require.Equal(t, []string{"data", "data"}, w.inTrash(), "what was not in use any more is kept for its time")
}

func TestCrashInSnapshot(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	before := w.observe("web")
	w.crashed(func() {
		g := must.Get(w.d.openGuest("web"))(t)
		defer g.close()
		require.NoError(t, w.d.stageCopy(w.ctx, g.dir, dataDir, g.dir, stagePrefix+"snapshot-s"))
	})
	require.Equal(t, before, w.observe("web"))
	w.do("snapshot", "web", "snapshot", "s")
}

func TestCrashInSetConfig(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "protected", true)
	before := w.observe("web")
	w.crashed(func() { w.write(`{"uuid":`, "web", stagePrefix+guestFile) })
	require.Equal(t, before, w.observe("web"))
	require.NoFileExists(t, w.path("web", stagePrefix+guestFile))
}

func TestCrashInSweep(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	inc := w.observe("web").Incarnation
	w.do("destroy", "web")
	id := trashName("web", inc)
	w.crashed(func() { require.NoError(t, os.Rename(w.path(trashDir, id), w.path(trashDir, purgePrefix+id))) })
	require.Empty(t, w.observe("web").Trash)
	w.refused(refusal.UnknownTarget, "undelete", "web")
	require.NoError(t, w.d.Sweep(w.ctx))
	require.Empty(t, entries(t, w.path(trashDir)))
}

// TestCrashLeftoverWithAMount: a leftover with a mount stays, because a delete would reach into
// the mount.
func TestCrashLeftoverWithAMount(t *testing.T) {
	w := newWorld(t)
	w.do("create", "bystander")
	w.write("precious", "bystander", dataDir, "file")
	require.NoError(t, os.MkdirAll(w.path(".new-b", "mnt"), 0o700))
	bindMount(t, w.path("bystander", dataDir), w.path(".new-b", "mnt"))
	w.restart()
	require.Equal(t, "precious", w.content(".new-b", "mnt", "file"))
	require.Contains(t, w.log.String(), "leftover kept")
}
