package local

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gated/internal/test/asunit"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func unitSettings(t *testing.T) map[string]string {
	t.Helper()
	s := must.Get(asunit.Settings())(t)
	require.Equal(t, "yes", s["NoNewPrivileges"])
	require.Equal(t, "gated", s["User"])
	return s
}

// asADaemon runs the matching tests as the recommended unit runs a daemon: as a user that is
// not root. It has the unit's capabilities, or caps if that is not empty. It returns their output.
func asADaemon(t *testing.T, caps, match string) string {
	t.Helper()
	needRoot(t, t.Name())
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skipf("%s needs setpriv", t.Name())
	}
	uid, _ := spareuids.Next(t.Cleanup)
	tmp := must.Get(os.MkdirTemp("/tmp", "daemon"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(tmp)) })
	require.NoError(t, os.Chown(tmp, int(uid), int(uid)))
	require.NoError(t, os.Chmod(tmp, 0o755))
	self := must.Get(os.ReadFile("/proc/self/exe"))(t)
	program := tmp + "/tests"
	require.NoError(t, os.WriteFile(program, self, 0o755))
	cmd := asunit.Command(t.Context(), unitSettings(t), uid, caps, program, "-test.v", "-test.count=1", "-test.run="+match)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// TestADaemonThatIsNotRoot: with the capabilities of contrib/systemd/guests.conf, such a daemon
// can do the same as root.
func TestADaemonThatIsNotRoot(t *testing.T) {
	unit := unitSettings(t)
	require.Equal(t, unit["CapabilityBoundingSet"], unit["AmbientCapabilities"], "nothing that a guest's program could get back")
	for _, c := range needed {
		require.Contains(t, strings.Fields(unit["AmbientCapabilities"]), c.name)
	}
	require.Len(t, strings.Fields(unit["AmbientCapabilities"]), len(needed), "and nothing more than is needed")
	names := []string{"TestEachGuestHasAUIDOfItsOwn", "TestAUIDIsNotUsedAgain", "TestAStopFindsWhatHidItself", "TestDataWithANameElsewhereIsNotGiven",
		"TestNoEscape", "TestEachLayerStands", "TestSnapshotRestoreWipe", "TestAmbientIsDropped", "TestSIGKILLAfterTheGrace",
		"TestNoProcessOutlivesItsGuest", "TestOnlyOneGuestsUIDIsKilled", "TestTheKillerKills", "TestTheKillerRefuses"}
	out := asADaemon(t, unitSettings(t)["AmbientCapabilities"], "^("+strings.Join(names, "|")+")$")
	for _, name := range names {
		require.Contains(t, out, "--- PASS: "+name+" ")
	}
}

// TestADaemonWithoutCapabilities: the daemon learns which capabilities it lacks.
func TestADaemonWithoutCapabilities(t *testing.T) {
	if os.Geteuid() == 0 {
		require.Contains(t, asADaemon(t, "", "^"+t.Name()+"$"), "--- PASS: "+t.Name()+" ")
		require.Contains(t, asADaemon(t, "CAP_SETUID CAP_SETGID", "^"+t.Name()+"$"), "--- PASS: "+t.Name()+" ")
		return
	}
	without := must.Get(lacking())(t)
	if len(without) == 0 {
		t.Skip("TestADaemonWithoutCapabilities needs a user without them")
	}
	require.ErrorContains(t, checkRange(UIDRange{1 << 30, 1<<30 + 1}), strings.Join(without, ", "))
	require.Contains(t, without, "CAP_CHOWN")
}

// TestAmbientIsDropped: programs that the daemon starts get none of its capabilities.
func TestAmbientIsDropped(t *testing.T) {
	needUIDs(t)
	ambient := func() string {
		out := must.Get(exec.Command("/bin/grep", "CapAmb", "/proc/self/status").Output())(t)
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "CapAmb:\t")
	}
	if os.Geteuid() != 0 {
		require.NotEqual(t, "0000000000000000", ambient(), "it was given some")
	}
	require.NoError(t, DropAmbient())
	for range 20 { // to meet more than one thread
		require.Equal(t, "0000000000000000", ambient())
	}
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.waitUp("web")
	require.NotEqual(t, own(), w.runsAs("web"), "guests become their users all the same")
	must.Get(unix.Getpgid(w.process("web").run.PID))(t)
}
