package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/proc"
)

// One guest that does not end keeps no other one's processes alive.
func TestAGuestThatDoesNotEndKeepsNoOtherAlive(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.do("start", "web")
	uid := w.runsAs("web")
	g, err := w.d.openGuest("web")
	require.NoError(t, err)
	defer g.close()
	stuck := cgroup(t.TempDir()) // the kernel never says that it is empty
	require.NoError(t, os.WriteFile(filepath.Join(string(stuck), "cgroup.events"), []byte("populated 1\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(string(stuck), "cgroup.kill"), nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := make(chan []verdict, 1)
	go func() {
		found <- w.d.killLost(ctx, []lostGuest{{name: "stuck", inc: "stuck", group: stuck, run: &runFile{UID: new(uint32)}},
			{name: "web", inc: g.incarnation(), uid: uid, run: &runFile{UID: &uid}}})
	}()
	require.Eventually(t, func() bool { none, err := proc.NoneOf(uid); return none && err == nil }, time.Minute, time.Millisecond)
	cancel()
	require.Error(t, (<-found)[0].err)
}

// An administrator copies the directory of a guest. The copy names the guest's process and its uid.
func TestACopyOfAGuestEndsNothing(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep")
	w.do("start", "web")
	aside := filepath.Join(t.TempDir(), "web")
	require.NoError(t, exec.Command("cp", "-a", w.path("web"), aside).Run())
	w.do("restart", "web") // now the copy names a process that is gone
	pid := w.process("web").run.PID
	require.NoError(t, exec.Command("cp", "-a", aside, w.path("web2")).Run())
	w.restart()
	require.True(t, exists(pid), "it runs on")
}
