package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTheTrashHasWhatPeopleBringBack: of each operation that a look says can be undone by hand, the whole tree that it took is in the
// directory that the look names, until the time that it says.
func TestTheTrashHasWhatPeopleBringBack(t *testing.T) {
	said := regexp.MustCompile(`^can be undone by hand until (\S+): copy the old files out of (/.*)$`)
	for verb, kv := range map[string][]any{"wipe": nil, "restore": {"snapshot", "s"}, "snapshot-delete": {"snapshot", "s"}} {
		w := newWorld(t)
		w.do("create", "web")
		w.write("old", "web", dataDir, "file")
		w.do("snapshot", "web", "snapshot", "s")
		w.write("new", "web", dataDir, "sub", "file")
		took := map[string]string{"snapshot-delete": hashTree(t, w.path("web", snapshotsDir, "s"))}[verb]
		if took == "" {
			took = hashTree(t, w.path("web", dataDir))
		}
		facts := w.observe("web").Facts
		i := slices.IndexFunc(facts, func(f op.Fact) bool { return slices.Contains(f.OnUndo(), "guest."+verb) })
		require.GreaterOrEqual(t, i, 0, verb)
		m := said.FindStringSubmatch(facts[i].Text)
		require.NotNil(t, m, facts[i].Text)
		w.do(verb, "web", kv...)
		w.pass(must.Get(time.Parse(time.RFC3339, m[1]))(t).Sub(w.clock()) - time.Second)
		require.NoError(t, w.d.Sweep(w.ctx))
		require.True(t, slices.ContainsFunc(entries(t, m[2]), func(name string) bool {
			return !strings.HasSuffix(name, recordExt) && hashTree(t, filepath.Join(m[2], name)) == took
		}), "%s: %v", verb, entries(t, m[2]))
	}
}

func TestSnapshotRestoreWipe(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("one", "web", dataDir, "sub", "file")
	first := hashTree(t, w.path("web", dataDir))
	w.do("snapshot", "web", "snapshot", "s1")
	w.refused(refusal.Conflict, "snapshot", "web", "snapshot", "s1")
	w.refused(refusal.UnknownTarget, "restore", "web", "snapshot", "s2")
	w.refused(refusal.UnknownTarget, "snapshot-delete", "web", "snapshot", "s2")
	w.write("two", "web", dataDir, "sub", "file")
	w.write("new", "web", dataDir, "other")
	o := w.observe("web")
	require.Equal(t, []string{"s1"}, o.Snapshots)
	require.Len(t, o.Storage, 2)

	w.do("restore", "web", "snapshot", "s1")
	require.Equal(t, first, hashTree(t, w.path("web", dataDir)))
	require.Equal(t, first, hashTree(t, w.path("web", snapshotsDir, "s1")), "the snapshot stays")
	now := w.observe("web")
	require.Equal(t, o.Incarnation, now.Incarnation)
	require.NotEqual(t, o.Storage, now.Storage, "it is another data tree")

	w.do("wipe", "web")
	require.Empty(t, entries(t, w.path("web", dataDir)))
	w.do("snapshot-delete", "web", "snapshot", "s1")
	require.Empty(t, w.observe("web").Snapshots)
	require.Empty(t, w.observe("web").Trash, "parts are no guests")

	// The old data is in the trash until its time is over.
	require.Equal(t, []string{"data", "data", "snapshot s1"}, w.inTrash())
	w.pass(DefaultTrashKeep + time.Second)
	require.NoError(t, w.d.Sweep(w.ctx))
	require.Empty(t, w.inTrash())
	require.Empty(t, entries(t, w.path(trashDir)))
}

func entries(t *testing.T, path string) []string {
	t.Helper()
	list := must.Get(os.ReadDir(path))(t)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// inTrash lists the subjects of the records in the trash.
func (w *world) inTrash() []string {
	w.t.Helper()
	var what []string
	for _, name := range entries(w.t.(*testing.T), w.path(trashDir)) {
		if id, ok := strings.CutSuffix(name, recordExt); ok {
			rec := must.Get(w.d.record(id))(w.t)
			what = append(what, rec.What)
		}
	}
	slices.Sort(what)
	return what
}

func TestRestoreAndWipeStopTheGuest(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	w.do("snapshot", "web", "snapshot", "s")
	require.Equal(t, Running, w.observe("web").Running)
	w.do("wipe", "web")
	require.Equal(t, Stopped, w.observe("web").Running)
	w.do("start", "web")
	w.waitUp("web")
	w.do("restore", "web", "snapshot", "s")
	require.Equal(t, Stopped, w.observe("web").Running)
}

func TestH14(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	odd := w.path("web", dataDir, "deep")
	require.NoError(t, os.Mkdir(odd, 0o700))
	require.NoError(t, unix.Mkfifo(odd+"/fifo", 0o600))
	require.Contains(t, w.refused(refusal.TooComplex, "snapshot", "web", "snapshot", "s").Detail, "deep/fifo is a FIFO")
	require.NoError(t, os.Remove(odd+"/fifo"))
	require.NoError(t, unix.Mknod(odd+"/sock", unix.S_IFSOCK|0o600, 0))
	require.Contains(t, w.refused(refusal.TooComplex, "snapshot", "web", "snapshot", "s").Detail, "deep/sock is a socket")
	require.NoError(t, os.Remove(odd+"/sock"))
	if os.Geteuid() == 0 {
		require.NoError(t, unix.Mknod(odd+"/null", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		require.Contains(t, w.refused(refusal.TooComplex, "snapshot", "web", "snapshot", "s").Detail, "deep/null is a device node")
		require.NoError(t, os.Remove(odd+"/null"))
	}

	// A terabyte of holes takes little room.
	require.NoError(t, os.WriteFile(odd+"/sparse", nil, 0o600))
	require.NoError(t, os.Truncate(odd+"/sparse", 1<<40))
	w.do("snapshot", "web", "snapshot", "sparse")
	require.Less(t, allocated(t, w.path("web", snapshotsDir, "sparse", "deep", "sparse")), int64(1<<20))

	// Limits below, at and above the number of entries: deep and sparse are two.
	for limit, ok := range map[int64]bool{3: true, 2: true, 1: false} {
		w.d.entries = limit
		name := fmt.Sprintf("limit-%d", limit)
		if ok {
			w.do("snapshot", "web", "snapshot", name)
		} else {
			w.refused(refusal.TooComplex, "snapshot", "web", "snapshot", name)
			w.refused(refusal.TooComplex, "restore", "web", "snapshot", "sparse")
		}
	}
}

// TestASnapshotThatFailsHalfWay: such a snapshot leaves nothing behind.
func TestASnapshotThatFailsHalfWay(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	for i := range 10 {
		w.write("x", "web", dataDir, fmt.Sprint(i))
	}
	before := w.hash()
	// A FIFO appears between the check and the copy.
	fifo := w.path("web", dataDir, "fifo")
	p := &fakePermit{step: w.step("snapshot", "web", "snapshot", "s"), before: func() { _ = unix.Mkfifo(fifo, 0o600) }}
	err := w.d.did(w.ctx, p)
	require.ErrorContains(t, err, "fifo is a FIFO")
	require.False(t, driver.IsUnknown(err) || driver.IsTransient(err))
	require.NoError(t, os.Remove(fifo))
	require.Equal(t, before, w.hash())

	ctx, cancel := context.WithCancel(w.ctx)
	err = w.d.did(ctx, &fakePermit{step: w.step("snapshot", "web", "snapshot", "s"), before: cancel})
	require.True(t, driver.IsTransient(err), "%v", err)
	require.Equal(t, before, w.hash())
}

func TestASnapshotNeedsRoom(t *testing.T) {
	needRoot(t, t.Name())
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=80m,mode=700"); err != nil {
		t.Skipf("%s needs a tmpfs: %v", t.Name(), err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	w := newWorld(t, func(c *Config) { c.Root = filepath.Join(small, "guests") })
	w.root = w.cfg.Root
	w.do("create", "web")
	w.write(strings.Repeat("x", 12<<20), "web", dataDir, "big")
	require.Contains(t, w.refused(refusal.OverLimit, "snapshot", "web", "snapshot", "s").Detail, "76.0 MiB")
	require.NoError(t, os.Truncate(w.path("web", dataDir, "big"), 1<<20))
	w.do("snapshot", "web", "snapshot", "s")
}

// TestB19: mounts and hard links inside a guest never let a step reach files of others.
func TestB19(t *testing.T) {
	type taking struct{ verb, param string }
	verbs := []taking{{"destroy", ""}, {"wipe", ""}, {"restore", "s"}}
	run := func(w *world, v taking) error {
		if v.param != "" {
			return w.try(v.verb, "web", "snapshot", v.param)
		}
		return w.try(v.verb, "web")
	}
	setUp := func(t *testing.T) *world {
		w := newWorld(t)
		w.do("create", "web")
		w.do("create", "bystander")
		w.write("precious", "bystander", dataDir, "file")
		require.NoError(t, os.Mkdir(w.path("web", dataDir, "mnt"), 0o700))
		w.do("snapshot", "web", "snapshot", "s")
		return w
	}
	for _, v := range verbs {
		t.Run("mount "+v.verb, func(t *testing.T) {
			w := setUp(t)
			point := w.path("web", dataDir, "mnt")
			bindMount(t, w.path("bystander", dataDir), point)
			p := &fakePermit{step: w.step(v.verb, "web")}
			if v.param != "" {
				p.step.Params = op.Params{"snapshot": v.param}
			}
			err := w.d.did(w.ctx, p)
			require.ErrorIs(t, err, refusal.Conflict)
			require.ErrorContains(t, err, point)
			require.Nil(t, p.seen)
			require.Equal(t, "precious", w.content("bystander", dataDir, "file"))
			require.NoError(t, unix.Unmount(point, 0))
			require.NoError(t, run(w, v))
			require.Equal(t, "precious", w.content("bystander", dataDir, "file"))
		})
		t.Run("mount after the permit "+v.verb, func(t *testing.T) {
			needRoot(t, t.Name())
			w := setUp(t)
			point := w.path("web", dataDir, "mnt")
			p := &fakePermit{step: w.step(v.verb, "web"), before: func() {
				bindMount(t, w.path("bystander", dataDir), point)
			}}
			if v.param != "" {
				p.step.Params = op.Params{"snapshot": v.param}
			}
			require.ErrorIs(t, w.d.did(w.ctx, p), refusal.Conflict)
			require.NotNil(t, p.seen)
			require.Equal(t, "precious", w.content("web", dataDir, "mnt", "file"))
			require.NoError(t, unix.Unmount(point, 0))
			require.Equal(t, []string{"mnt"}, entries(t, w.path("web", dataDir)))
			require.Empty(t, w.inTrash())
		})
		t.Run("hard link "+v.verb, func(t *testing.T) {
			w := setUp(t)
			require.NoError(t, os.Link(w.path("bystander", dataDir, "file"), w.path("web", dataDir, "file")))
			w.write("in the way of the restore", "web", snapshotsDir, "s", "file")
			require.NoError(t, run(w, v))
			w.pass(DefaultTrashKeep + time.Second)
			require.NoError(t, w.d.Sweep(w.ctx))
			require.Empty(t, w.inTrash())
			require.Equal(t, "precious", w.content("bystander", dataDir, "file"))
		})
	}
	t.Run("snapshot of a mount", func(t *testing.T) {
		w := setUp(t)
		bindMount(t, w.path("bystander", dataDir), w.path("web", dataDir, "mnt"))
		w.refused(refusal.Conflict, "snapshot", "web", "snapshot", "s2")
	})
	t.Run("mount in the trash", func(t *testing.T) {
		w := setUp(t)
		w.do("destroy", "web")
		id := trashName("web", w.observe("web").Trash[0].Incarnation)
		bindMount(t, w.path("bystander", dataDir), w.path(trashDir, id, dataDir, "mnt"))
		w.pass(DefaultTrashKeep + time.Second)
		require.ErrorIs(t, w.d.Sweep(w.ctx), refusal.Conflict)
		require.Equal(t, "precious", w.content("bystander", dataDir, "file"))
		require.NoError(t, unix.Unmount(w.path(trashDir, id, dataDir, "mnt"), 0))
		require.NoError(t, w.d.Sweep(w.ctx))
		require.Empty(t, entries(t, w.path(trashDir)))
	})
	t.Run("the guest is a mount", func(t *testing.T) {
		w := setUp(t)
		bindMount(t, w.path("bystander"), w.path("web"))
		_, err := w.d.Observe(w.ctx, op.At(target("web")))
		require.ErrorIs(t, err, refusal.Conflict)
		require.ErrorContains(t, err, "mount point")
	})
}

func TestDestroyAndUndelete(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "labels", labels("a", "b"), "state", "running")
	w.write("data", "web", dataDir, "file")
	w.do("snapshot", "web", "snapshot", "s")
	w.waitUp("web")
	before := w.observe("web")
	pid := w.process("web").run.PID
	w.do("destroy", "web")
	require.False(t, exists(pid))
	gone := w.observe("web")
	require.False(t, gone.Present)
	require.Equal(t, []op.Trashed{{Incarnation: before.Incarnation, Until: w.clock().Add(DefaultTrashKeep)}}, gone.Trash)

	w.restart()
	w.refused(refusal.UnknownTarget, "destroy", "web")
	w.refused(refusal.UnknownTarget, "undelete", "other")
	w.refused(refusal.UnknownTarget, "undelete", "web", "incarnation", "x:1:2")
	w.do("undelete", "web", "incarnation", string(before.Incarnation))
	after := w.observe("web")
	before.Running, before.Facts, after.Facts = Stopped, nil, nil
	require.Equal(t, before, after)
	require.Equal(t, "data", w.content("web", dataDir, "file"))
	require.Empty(t, entries(t, w.path(trashDir)))
	w.do("start", "web")
}

func TestSeveralInTheTrash(t *testing.T) {
	w := newWorld(t)
	var incs []op.Incarnation
	for i := range 3 {
		w.do("create", "web")
		w.write(fmt.Sprint(i), "web", dataDir, "file")
		incs = append(incs, w.observe("web").Incarnation)
		w.do("destroy", "web")
		w.pass(time.Minute)
	}
	w.do("create", "we")
	w.do("destroy", "we")
	trash := w.observe("web").Trash
	require.Len(t, trash, 3)
	for i := range 3 {
		require.Equal(t, incs[i], trash[i].Incarnation, "oldest first")
	}
	require.Len(t, w.observe("we").Trash, 1)
	require.Contains(t, w.refused(refusal.Conflict, "undelete", "web").Hint, string(incs[2]))
	w.do("undelete", "web", "incarnation", string(incs[1]))
	require.Equal(t, "1", w.content("web", dataDir, "file"))
	require.Len(t, w.observe("web").Trash, 2)
	w.refused(refusal.Conflict, "undelete", "web", "incarnation", string(incs[0])) // the name is taken
}

// TestSweepKeepsItsTime: Sweep deletes nothing before its time is over.
func TestSweepKeepsItsTime(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.TrashKeep = time.Hour })
	w.do("create", "web")
	w.do("destroy", "web")
	for _, step := range []struct {
		pass time.Duration
		left int
	}{{0, 1}, {time.Hour - time.Nanosecond, 1}, {time.Nanosecond, 1}, {time.Nanosecond, 0}} {
		w.pass(step.pass)
		require.NoError(t, w.d.Sweep(w.ctx))
		require.Len(t, w.observe("web").Trash, step.left)
	}
	w.refused(refusal.UnknownTarget, "undelete", "web")
}

func TestSweepLeavesWhatItDoesNotUnderstand(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	w.do("destroy", "web")
	w.write("{", trashDir, "odd.json")
	w.write("x", trashDir, "odd", "file")
	w.write("x", trashDir, "no-record", "file")
	w.pass(1000 * time.Hour)
	require.NoError(t, w.d.Sweep(w.ctx))
	require.ElementsMatch(t, []string{"odd.json", "odd", "no-record"}, entries(t, w.path(trashDir)))
	w.restart()
	require.ElementsMatch(t, []string{"odd.json", "odd", "no-record"}, entries(t, w.path(trashDir)))
	require.Contains(t, w.log.String(), "no-record")
}

// TestAPermitIsNeeded: a permit that the gate refuses, or one for another incarnation, changes
// nothing.
func TestAPermitIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.write("x", "web", dataDir, "file")
	w.do("snapshot", "web", "snapshot", "s")
	w.do("create", "gone")
	w.do("destroy", "gone")
	before := w.hash()
	no := errors.New("no")
	for _, s := range []op.Step{w.step("create", "new"), w.step("undelete", "gone"), w.step("start", "web"), w.step("stop", "web"),
		w.step("restart", "web"), w.step("set-config", "web", "protected", true), w.step("snapshot", "web", "snapshot", "s2"),
		w.step("snapshot-delete", "web", "snapshot", "s"), w.step("restore", "web", "snapshot", "s"), w.step("wipe", "web"),
		w.step("destroy", "web")} {
		require.Contains(t, preparers, s.Op)
		require.ErrorIs(t, w.d.did(w.ctx, &fakePermit{step: s, refuse: no}), no, s.Op)
		require.Equal(t, before, w.hash(), s.Op)

		if s.Incarnation != "" {
			s.Incarnation += "1"
			p := &fakePermit{step: s}
			require.ErrorIs(t, w.d.did(w.ctx, p), refusal.StaleTarget, s.Op)
			require.Nil(t, p.seen)
		}
		require.Equal(t, before, w.hash(), s.Op)
	}
	for _, s := range op.Catalogue() {
		if _, does := preparers[s.Name]; s.Kind == w.d.Kind() {
			require.Equal(t, does, slices.Contains(w.observe("free").Ops, s.Name), "what it has not is refused before it is asked for: %s", s.Name)
		}
	}
}
