package local

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func labels(kv ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func TestCreateAndObserve(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, Absent, w.observe("web").Running)
	require.False(t, w.observe("web").Present)
	w.do("create", "web", "memory", int64(512), "cpus", int64(2), "command", "sleep", "labels", labels("tier", "prod"), "protected", true)
	o := w.observe("web")
	require.True(t, o.Present)
	require.Equal(t, "birth-1", o.Birth)
	require.Regexp(t, regexp.MustCompile(`^birth-1:\d+:\d{15,}$`), string(o.Incarnation))
	require.Equal(t, op.Params{"memory": int64(512), "cpus": int64(2), "command": "sleep", "labels": labels("tier", "prod"),
		"protected": true}, o.Spec)
	require.True(t, o.Fingerprint.Valid())
	require.Len(t, o.Storage, 1)
	require.Regexp(t, regexp.MustCompile(`^data:\d+:\d+$`), string(o.Storage[0]))
	info := must.Get(os.Stat(w.path("web")))(t)
	require.Equal(t, os.FileMode(0o700)|os.ModeDir, info.Mode())

	w.do("create", "plain")
	require.Equal(t, op.Params{"command": "", "labels": labels(), "protected": false}, w.observe("plain").Spec)
	w.refused(refusal.Conflict, "create", "web")
}

func TestListAgreesWithObserve(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.do("create", fmt.Sprintf("g%d", i), "labels", labels("n", fmt.Sprint(i)))
	}
	w.do("snapshot", "g1", "snapshot", "s")
	w.write("not a guest", "README")
	list := must.Get(w.d.List(w.ctx))(t)
	require.Len(t, list, 6)
	require.Equal(t, Unknown, list[0].Running) // README
	for i, o := range list[1:] {
		full := w.observe(fmt.Sprintf("g%d", i))
		require.NotEmpty(t, full.Facts)
		full.Facts = nil
		require.Equal(t, full, o)
	}
}

// TestFingerprint: which changes must change it, and which must not.
func TestFingerprint(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "memory", int64(64*1024))
	last := w.observe("web").Fingerprint
	same := func(what string) {
		t.Helper()
		require.Equal(t, last, w.observe("web").Fingerprint, what)
	}
	other := func(what string) {
		t.Helper()
		now := w.observe("web").Fingerprint
		require.NotEqual(t, last, now, what)
		last = now
	}
	w.write("hello", "web", dataDir, "file")
	same("data written")
	w.do("start", "web")
	w.waitUp("web")
	same("started")
	w.do("stop", "web")
	same("stopped")
	w.restart()
	same("the daemon restarted")
	w.do("set-config", "web", "protected", true)
	other("protected")
	w.do("set-config", "web", "labels", labels("a", "b"))
	other("labels")
	w.do("set-config", "web", "memory", int64(128*1024))
	same("a limit on memory loses nothing")
	w.do("set-config", "web", "cpus", int64(3))
	same("a limit on cpus loses nothing")
	w.do("set-config", "web", "command", "once")
	other("command")
	w.do("snapshot", "web", "snapshot", "s1")
	other("snapshot")
	w.do("wipe", "web")
	other("other data")
	w.write("put there by hand", "web", "extra", "file")
	other("other storage")
	require.NoError(t, os.RemoveAll(w.path("web", "extra")))
	before := w.observe("web")
	w.do("destroy", "web")
	w.do("undelete", "web")
	require.Equal(t, before.Incarnation, w.observe("web").Incarnation)
	require.Equal(t, before.Fingerprint, w.observe("web").Fingerprint)
}

// TestB18 copies a scratch guest's guest.json into another guest.
func TestB18(t *testing.T) {
	stale := func(t *testing.T, w *world, names ...string) {
		t.Helper()
		for _, name := range names {
			must.Fail(w.d.Observe(w.ctx, op.At(target(name))))(t, refusal.StaleTarget, name)
			w.refused(refusal.StaleTarget, "destroy", name)
			w.refused(refusal.StaleTarget, "wipe", name)
		}
		list := must.Get(w.d.List(w.ctx))(t)
		for _, o := range list {
			switch {
			case o.Target.Name == "bystander":
				require.Equal(t, Stopped, o.Running)
			default:
				require.Equal(t, Unknown, o.Running, o.Target.Name)
				require.Empty(t, o.Incarnation)
			}
		}
	}
	setUp := func(t *testing.T) *world {
		w := newWorld(t)
		for _, name := range []string{"scratch", "real", "bystander"} {
			w.do("create", name)
			w.write(name, name, dataDir, "file")
			w.observe(name)
		}
		return w
	}
	t.Run("written over", func(t *testing.T) {
		w := setUp(t)
		w.write(w.content("scratch", guestFile), "real", guestFile)
		stale(t, w, "real", "scratch")
	})
	t.Run("hard link", func(t *testing.T) {
		w := setUp(t)
		require.NoError(t, os.Remove(w.path("real", guestFile)))
		require.NoError(t, os.Link(w.path("scratch", guestFile), w.path("real", guestFile)))
		stale(t, w, "real", "scratch")
	})
	t.Run("a copy of the whole guest", func(t *testing.T) {
		w := setUp(t)
		require.NoError(t, os.CopyFS(w.path("copy"), os.DirFS(w.path("scratch"))))
		require.NoError(t, os.RemoveAll(w.path("real")))
		stale(t, w, "copy", "scratch")
	})
	for _, part := range []int{1, 2} { // an inode is used again, but never with the same birth time
		t.Run(fmt.Sprintf("part %d of the incarnation is another", part), func(t *testing.T) {
			w := setUp(t)
			number := strings.Split(string(w.observe("real").Incarnation), ":")[part]
			other := number[:len(number)-1] + string('0'+('9'-number[len(number)-1]))
			require.Len(t, other, len(number))
			w.write(strings.Replace(w.content("real", guestFile), number, other, 1), "real", guestFile)
			must.Fail(w.d.Observe(w.ctx, op.At(target("real"))))(t, refusal.StaleTarget)
			w.refused(refusal.StaleTarget, "destroy", "real")
		})
	}
	t.Run("with the directory's own inode filled in", func(t *testing.T) {
		w := setUp(t)
		b := []byte(w.content("real", guestFile))
		w.write(strings.Replace(string(b), w.observe("real").Birth, w.observe("scratch").Birth, 1), "real", guestFile)
		stale(t, w, "real", "scratch")
	})
}

// TestNeverAbsent: if something cannot be read, its name does not count as free.
func TestNeverAbsent(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"no guest.json":        func(w *world) { require.NoError(w.t, os.Remove(w.path("web", guestFile))) },
		"truncated guest.json": func(w *world) { require.NoError(w.t, os.Truncate(w.path("web", guestFile), 20)) },
		"guest.json a symlink": func(w *world) {
			require.NoError(w.t, os.Rename(w.path("web", guestFile), w.path("web", dataDir, "g")))
			require.NoError(w.t, os.Symlink(dataDir+"/g", w.path("web", guestFile)))
		},
		"guest.json a FIFO": func(w *world) {
			require.NoError(w.t, os.Remove(w.path("web", guestFile)))
			require.NoError(w.t, unix.Mkfifo(w.path("web", guestFile), 0o600))
		},
		"no data": func(w *world) { require.NoError(w.t, os.Remove(w.path("web", dataDir))) },
		"data a link to another guest's": func(w *world) {
			require.NoError(w.t, os.Remove(w.path("web", dataDir)))
			require.NoError(w.t, os.Symlink("../other/data", w.path("web", dataDir)))
		},
		"the guest a link to another": func(w *world) {
			require.NoError(w.t, os.Rename(w.path("web"), w.path(".gone")))
			require.NoError(w.t, os.Symlink("other", w.path("web")))
		},
		"the guest a file": func(w *world) {
			require.NoError(w.t, os.Rename(w.path("web"), w.path(".gone")))
			w.write("x", "web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.do("create", "web")
			w.do("create", "other")
			w.write("mine", "other", dataDir, "file")
			spoil(w)
			must.Fail(w.d.Observe(w.ctx, op.At(target("web"))))(t, refusal.Conflict)
			for _, verb := range []string{"create", "destroy", "wipe", "start", "undelete"} {
				w.refused(refusal.Conflict, verb, "web")
			}
			list := must.Get(w.d.List(w.ctx))(t)
			require.Len(t, list, 2)
			require.Equal(t, Unknown, list[1].Running)
			require.True(t, list[1].Present)
			require.Equal(t, "mine", w.content("other", dataDir, "file"))
		})
	}
}

// TestB15 gives the driver names that op would have refused.
func TestB15(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	for _, name := range []string{"..", "../web", "/etc", "web/data", ".trash", ".new-x", "", "web\x00", "*", "we[b]"} {
		must.Fail(w.d.Observe(w.ctx, op.At(target(name))))(t, refusal.Malformed, "%q", name)
		for _, verb := range []string{"destroy", "wipe", "create", "undelete"} {
			s := w.step(verb, "web")
			s.Target.Name = name
			p := &fakePermit{step: s}
			require.ErrorIs(t, w.d.did(w.ctx, p), refusal.Malformed, "%s %q", verb, name)
			require.Nil(t, p.seen)
		}
	}
	s := w.step("snapshot", "web", "snapshot", "../../x")
	require.ErrorIs(t, w.d.did(w.ctx, &fakePermit{step: s}), refusal.BadParams)
}

// TestP16 moves other storage into a guest. It counts as storage that was not made with the
// guest.
func TestP16(t *testing.T) {
	w := newWorld(t)
	w.do("create", "scratch")
	w.do("create", "real")
	w.write("precious", "real", dataDir, "file")
	made := w.observe("scratch").Storage
	move := func(from, to string) {
		require.NoError(t, os.Rename(w.path(from), w.path(to)))
		now := w.observe("scratch").Storage
		require.NotEqual(t, made, now, to)
		require.NoError(t, os.Rename(w.path(to), w.path(from)))
		require.Equal(t, made, w.observe("scratch").Storage)
	}
	move("real/data", "scratch/snapshots/s")
	move("real/data", "scratch/disk")
	move("real/data", "scratch/snapshots/.odd \u202e name")
	require.NoError(t, os.Remove(w.path("scratch", dataDir)))
	require.NoError(t, os.Rename(w.path("real", dataDir), w.path("scratch", dataDir)))
	require.NotEqual(t, made, w.observe("scratch").Storage)
}

func TestFacts(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	text := func(name string) string {
		t.Helper()
		for _, f := range w.observe("web").Facts {
			require.NoError(t, op.CheckText(f.Name, f.Text))
			if f.Name == name {
				return f.Text
			}
		}
		return ""
	}
	require.Equal(t, "0", text("files"))
	require.Equal(t, "never", text("last write"))
	require.Equal(t, "none", text("snapshots"))
	require.Equal(t, "none", text("process"))
	w.write(strings.Repeat("x", 3000), "web", dataDir, "sub", "file")
	w.do("snapshot", "web", "snapshot", "s1")
	require.Equal(t, "1", text("files"))
	require.Contains(t, text("bytes"), "2.9 KiB (")
	require.Contains(t, text("last write"), "Z")
	require.Equal(t, "s1", text("snapshots"))
	require.Contains(t, text("backups"), "none known")
	require.Contains(t, text("depends on it"), "nothing known")
	require.Equal(t, "can be undone until 2026-03-02T12:00:00Z", text("destroy"))
	require.Equal(t, "can be undone by hand until 2026-03-02T12:00:00Z: copy the old files out of "+w.path(trashDir), text("wipe, restore, snapshot-delete"))
	w.do("start", "web")
	require.Contains(t, text("process"), "sleep, running since 2026-03-01T12:00:00Z (pid ")
	require.Contains(t, text("limits"), "not limited")
}

func TestNewRefusesAnUnsoundRoot(t *testing.T) {
	base := t.TempDir()
	at := func(name string) Config { return Config{Root: filepath.Join(base, name), Now: newWorldClock} }
	open := func(c Config) error {
		d, err := New(c)
		if err == nil {
			_ = d.Close()
		}
		return err
	}
	require.NoError(t, open(at("fresh")))
	require.NoError(t, open(at("fresh")), "again")
	require.NoError(t, os.Symlink("fresh", filepath.Join(base, "link")))
	require.ErrorIs(t, open(at("link")), refusal.Conflict)
	require.NoError(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	require.ErrorIs(t, open(at("file")), refusal.Conflict)
	require.NoError(t, os.Mkdir(filepath.Join(base, "open"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(base, "open"), 0o750))
	require.ErrorIs(t, open(at("open")), refusal.Conflict)
	require.ErrorIs(t, open(Config{Root: "relative", Now: newWorldClock}), refusal.BadParams)
	require.Error(t, open(Config{Root: filepath.Join(base, "fresh")}), "no clock")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(filepath.Join(base, "fresh"), 65534, 65534))
		require.ErrorIs(t, open(at("fresh")), refusal.Conflict)
	}
}

func TestCommandsAreChecked(t *testing.T) {
	for name, c := range map[string]Command{
		"no argv":       {},
		"relative":      {Argv: []string{"sh"}},
		"nul":           {Argv: []string{"/bin/sh", "a\x00b"}},
		"env name":      {Argv: []string{"/bin/sh"}, Env: map[string]string{"A=B": "c"}},
		"env nul":       {Argv: []string{"/bin/sh"}, Env: map[string]string{"A": "\x00"}},
		"the mark":      {Argv: []string{"/bin/sh"}, Env: map[string]string{markVar: "x"}},
		"unknown user":  {Argv: []string{"/bin/sh"}, User: "no-such-user-here"},
		"negative user": {Argv: []string{"/bin/sh"}, User: "-1"},
	} {
		_, err := checkCommands(map[string]Command{"web": c})
		require.ErrorIs(t, err, refusal.BadParams, name)
		require.ErrorContains(t, err, "web", name)
	}
	_, err := checkCommands(map[string]Command{"../web": {Argv: []string{"/bin/sh"}}})
	require.ErrorIs(t, err, refusal.BadParams)
	must.Get(checkCommands(testCommands))(t)
	for _, root := range []string{"root", "0"} {
		_, err = checkCommands(map[string]Command{"web": {Argv: []string{"/bin/sh"}, User: root}})
		require.ErrorIs(t, err, refusal.BadParams)
	}
	if !switches() {
		_, err = checkCommands(map[string]Command{"web": {Argv: []string{"/bin/sh"}, User: "nobody"}})
		require.ErrorIs(t, err, refusal.BadParams)
	}
}
