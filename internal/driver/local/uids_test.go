package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func own() uint32 { return uint32(os.Geteuid()) }

// ownerOf is the owner of a file of a guest.
func (w *world) ownerOf(parts ...string) uint32 {
	w.t.Helper()
	return must.Get(os.Lstat(w.path(parts...)))(w.t).Sys().(*syscall.Stat_t).Uid
}

// runsAs is the real uid or gid of a guest's process. It first checks that all four are the
// same and that the process has no other group.
func (w *world) runsAs(name string) uint32 {
	w.t.Helper()
	b := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", w.process(name).run.PID)))(w.t)
	var uid uint32
	for line := range strings.Lines(string(b)) {
		key, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		switch key {
		case "Uid", "Gid":
			require.Equal(w.t, []string{f[0], f[0], f[0], f[0]}, f)
			n := 0
			must.Get(fmt.Sscan(f[0], &n))(w.t)
			require.True(w.t, uid == 0 || uid == uint32(n))
			uid = uint32(n)
		case "Groups":
			require.Empty(w.t, f)
		case "CapEff", "CapPrm", "CapInh", "CapAmb":
			require.Equal(w.t, []string{"0000000000000000"}, f)
		case "NoNewPrivs":
			require.Equal(w.t, []string{"1"}, f)
		}
	}
	return uid
}

// TestEachGuestHasAUIDOfItsOwn: and the guest keeps it in every operation.
func TestEachGuestHasAUIDOfItsOwn(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.write("one", "web", dataDir, "sub", "file")
	require.NoError(t, os.Symlink("file", w.path("web", dataDir, "sub", "link")))
	w.do("snapshot", "web", "snapshot", "before")
	require.Equal(t, own(), w.ownerOf("web", dataDir), "what never ran needs none")
	w.do("start", "web")
	w.waitUp("web")
	uid := w.runsAs("web")
	require.True(t, w.cfg.GuestUIDs.has(uid), uid)
	for _, path := range []string{"", "sub", "sub/file", "sub/link", "up"} {
		require.Equal(t, uid, w.ownerOf("web", dataDir, path), path)
	}
	require.Equal(t, own(), w.ownerOf("web", guestFile))
	require.Equal(t, own(), w.ownerOf("web"))

	w.do("create", "db", "command", "sleep", "state", "running")
	w.waitUp("db")
	require.NotEqual(t, uid, w.runsAs("db"))

	w.do("restore", "web", "snapshot", "before")
	require.Equal(t, own(), w.ownerOf("web", dataDir, "sub", "file"), "as it was then")
	w.do("start", "web")
	w.waitUp("web")
	require.Equal(t, uid, w.runsAs("web"))
	require.Equal(t, uid, w.ownerOf("web", dataDir, "sub", "file"))
	w.do("wipe", "web")
	require.Equal(t, uid, w.ownerOf("web", dataDir))
	w.do("start", "web")
	w.waitUp("web")
	require.Equal(t, uid, w.runsAs("web"))
	w.restart()
	require.Equal(t, uid, w.process("web").uid, "a new daemon knows it")
	w.do("destroy", "web")
	w.restart()
	w.do("undelete", "web")
	w.do("start", "web")
	w.waitUp("web")
	require.Equal(t, uid, w.runsAs("web"))
}

// TestAUIDIsNotUsedAgain: a uid stays taken while a file of it can exist. Such a file may be
// live, in the trash whole or in part, or under a name without a record. The uid also stays
// taken while a process has it.
func TestAUIDIsNotUsedAgain(t *testing.T) {
	needUIDs(t)
	w := newWorld(t, func(c *Config) { c.GuestUIDs.Last = c.GuestUIDs.First + 1 })
	start := func(name string) error {
		w.do("create", name, "command", "sleep")
		return w.try("start", name)
	}
	full := func(why string) {
		t.Helper()
		require.ErrorIs(t, start("new"), refusal.OverLimit, why)
		w.do("destroy", "new")
	}
	require.NoError(t, start("a"))
	require.NoError(t, start("b"))
	full("both run")
	a, b := w.runsAs("a"), w.runsAs("b")
	w.do("destroy", "a")
	full("one is in the trash")
	w.restart()
	full("and the daemon was restarted")

	// Records and the table are lost, but the trees are enough.
	for _, path := range entries(t, w.path(trashDir)) {
		if strings.HasPrefix(path, "a~") && strings.HasSuffix(path, recordExt) {
			require.NoError(t, os.Remove(w.path(trashDir, path)))
		}
	}
	require.NoError(t, os.Remove(w.path(uidsFile)))
	w.restart()
	full("its record is lost")
	for _, path := range entries(t, w.path(trashDir)) {
		if strings.HasPrefix(path, "a~") {
			require.NoError(t, os.RemoveAll(w.path(trashDir, path)))
		}
	}

	// A replaced part stays longer than its guest.
	require.NoError(t, start("c"))
	require.Equal(t, a, w.runsAs("c"))
	w.do("wipe", "c")
	for _, path := range entries(t, w.path(trashDir)) {
		if !strings.Contains(path, "part") {
			require.NoError(t, os.RemoveAll(w.path(trashDir, path)))
		}
	}
	require.NoError(t, os.RemoveAll(w.path("c")))
	full("a part is in the trash")
	w.pass(DefaultTrashKeep + time.Second)
	require.NoError(t, w.d.Sweep(w.ctx))

	// A process without a record has the uid.
	stray := w.strayOf(a)
	full("a process has it")
	require.NoError(t, unix.Kill(stray, unix.SIGKILL))
	waitFor(t, "the stray's end", func() bool { return unix.Kill(stray, 0) != nil })
	require.NoError(t, start("d"))
	require.Equal(t, a, w.runsAs("d"))
	require.Equal(t, b, w.runsAs("b"))
}

// strayOf starts a process with a uid, without a record of it.
func (w *world) strayOf(uid uint32) int {
	w.t.Helper()
	p := must.Get(os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Env: []string{}, Dir: "/",
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}}))(w.t)
	go func() { _, _ = p.Wait() }() // the test kills it
	w.t.Cleanup(func() { _ = p.Kill() })
	return p.Pid
}

// TestAStopFindsWhatHidItself: a process that left its session and emptied its environment
// still has the guest's uid.
func TestAStopFindsWhatHidItself(t *testing.T) {
	needUIDs(t)
	w := newWorld(t, withCommand("hides", sh(`setsid env -i /bin/sh -c 'echo $$ > hidden; exec sleep 1000' &
		while ! [ -s hidden ]; do :; done; echo up > up; exec sleep 1001`)))
	w.do("create", "web", "command", "hides", "state", "running")
	w.waitUp("web")
	hidden := w.pidIn("web", dataDir, "hidden")
	require.True(t, exists(hidden))
	w.do("stop", "web")
	waitFor(t, "the end of what hid itself", func() bool { return !exists(hidden) })

	// It works as well if the first process ended while no daemon watched.
	w.do("start", "web")
	w.waitUp("web")
	hidden = w.pidIn("web", dataDir, "hidden")
	leader := w.process("web").run.PID
	require.NoError(t, w.d.Close())
	require.NoError(t, unix.Kill(leader, unix.SIGKILL))
	w.open()
	waitFor(t, "the end of what hid itself", func() bool { return !exists(hidden) })
}

// TestDataWithANameElsewhereIsNotGiven: if the file became the guest's, its other owner would
// lose it.
func TestDataWithANameElsewhereIsNotGiven(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.write("one", "web", dataDir, "first")
	outside := filepath.Join(filepath.Dir(w.root), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
	require.NoError(t, os.Link(outside, w.path("web", dataDir, "shared")))
	err := w.try("start", "web")
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "shared")
	for _, parts := range [][]string{{"web", dataDir}, {"web", dataDir, "first"}, {"web", dataDir, "shared"}} {
		require.Equal(t, own(), w.ownerOf(parts...), parts)
	}

	// Two names inside the tree do no harm.
	require.NoError(t, os.Remove(w.path("web", dataDir, "shared")))
	require.NoError(t, os.Mkdir(w.path("web", dataDir, "sub"), 0o700))
	require.NoError(t, os.Link(w.path("web", dataDir, "first"), w.path("web", dataDir, "sub", "second")))
	device := w.path("web", dataDir, "null")
	mknod := unix.Mknod(device, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	w.do("start", "web")
	require.Equal(t, w.runsAs("web"), w.ownerOf("web", dataDir, "sub", "second"))
	if os.Geteuid() == 0 {
		require.NoError(t, mknod)
		require.Equal(t, own(), w.ownerOf("web", dataDir, "null"), "a device is nobody's data")
	}
	info := must.Get(os.Lstat(outside))(t)
	require.Equal(t, own(), info.Sys().(*syscall.Stat_t).Uid)
}

// TestATableThatCannotBeReadIsRefused: a new table would give uids a second time.
func TestATableThatCannotBeReadIsRefused(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.do("stop", "web")
	good := w.content(uidsFile)
	require.NoError(t, w.d.Close())
	for _, bad := range []string{"", "{", `{"next":1,"held":{"a":5,"b":5}}`, `{"next":1}`, `{"next":1,"held":{"a":0}}`, `{"next":1,"held":{"../x":7}}`,
		`{"next":1,"held":{},"more":1}`} {
		w.write(bad, uidsFile)
		must.Fail(New(w.cfg))(t, refusal.Conflict, bad)
	}
	w.write(good, uidsFile)
	w.open()
}

// TestRangesThatAreRefused: a range with the daemon's own uid, or one that other users' user
// namespaces reach.
func TestRangesThatAreRefused(t *testing.T) {
	require.ErrorIs(t, checkRange(UIDRange{own(), own() + 5}), refusal.BadParams)
	r := UIDRange{1000, 1009}
	for line, bad := range map[string]bool{
		"alice:1009:1": true, "alice:1010:1": false, "alice:990:10": false, "alice:990:11": true, "alice:1:100000": true,
		"# alice:1000:1": true, "alice:1000:0": false, "alice:x:1": false, "alice:1000": false, "1000:4294967295:1": false,
	} {
		require.Equal(t, bad, overlap("bob:5000:5\n"+line+"\n", r) != "", line)
	}
}

// FuzzParseUIDs: a table that was read is written as the same again, and has no uid twice.
func FuzzParseUIDs(f *testing.F) {
	f.Add([]byte(`{"next":7,"held":{"birth-1":5,"birth-2":6}}`))
	f.Add([]byte(`{"next":0,"held":{}}`))
	f.Add([]byte(`{"next":-1,"held":{"a":4294967296}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := parseUIDs(b)
		if err != nil {
			return
		}
		seen := map[uint32]bool{}
		for uuid, uid := range table.Held {
			require.NoError(t, checkBirth(uuid))
			require.False(t, seen[uid])
			require.NotZero(t, uid)
			seen[uid] = true
		}
		root := must.Get(openDir(t.TempDir()))(t)
		defer root.close()
		require.NoError(t, table.write(root))
		again := must.Get(root.read(uidsFile))(t)
		require.Equal(t, table, must.Get(parseUIDs(again))(t))
	})
}
