package local

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/proc"
	"gated/internal/test/must"
)

// sleeper starts a process of a uid, and ends it with the test.
func sleeper(t *testing.T, uid uint32) *proc.FD {
	t.Helper()
	var fd int
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{PidFD: &fd}
	if uid != own() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}
	}
	require.NoError(t, cmd.Start())
	p := must.Get(proc.NewFD(fd))(t)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); p.Close() })
	return p
}

// TestOnlyOneGuestsUIDIsKilled: kill(-1) reaches every process of a uid. So the uid must belong
// to one guest of this gate, and to nobody else.
func TestOnlyOneGuestsUIDIsKilled(t *testing.T) {
	needUIDs(t)
	w := newWorld(t)
	w.do("create", "web", "command", "sleep", "state", "running")
	w.do("create", "db", "command", "sleep", "state", "running")
	w.waitUp("db")
	web, db, inc := w.process("web").uid, w.process("db").uid, w.process("web").inc
	first, last := w.cfg.GuestUIDs.First, w.cfg.GuestUIDs.Last
	require.ErrorContains(t, w.d.checkKill(inc, own()), "are not killed")
	for uid, why := range map[uint32]string{0: "are not killed", overflowUID: "no user's", 1<<32 - 1: "no user's",
		first - 1: "does not have it", last + 1: "does not have it", last: "0 guests have it"} {
		require.ErrorContains(t, w.d.checkKill(inc, uid), why)
	}
	require.NoError(t, w.d.checkKill(inc, web))
	require.ErrorContains(t, w.d.checkKill(inc, db), "another guest's")
	require.ErrorContains(t, w.d.endUID(w.ctx, inc, db), "another guest's")
	w.d.uids.table.Held["birth-of-another"] = web
	require.ErrorContains(t, w.d.checkKill(inc, web), "2 guests have it")
	delete(w.d.uids.table.Held, "birth-of-another")

	// A uid that is refused keeps its processes. That they are there is an error.
	w.d.accounts["other"] = account{Switch: true, UID: web}
	require.ErrorContains(t, w.d.endUID(w.ctx, inc, web), "the command other runs as it")
	delete(w.d.accounts, "other")
	require.False(t, w.process("web").Ended())

	// The kill ends the processes of this uid and no others.
	mine, victim, neighbour := sleeper(t, own()), sleeper(t, web), sleeper(t, last)
	require.NoError(t, w.d.endUID(w.ctx, inc, web))
	require.True(t, victim.Ended())
	require.False(t, mine.Ended())
	require.False(t, neighbour.Ended())
	require.False(t, w.process("db").Ended())
	require.False(t, must.Get(proc.NoneOf(db))(t))
}

// TestTheKillerKills: a uid has 32 bits. The numbers are none of package spareuids, so no other test has them.
func TestTheKillerKills(t *testing.T) {
	needUIDs(t)
	for _, uid := range []uint32{1<<31 - 1, 1<<31 + 253, 1<<32 - 4} {
		victim := sleeper(t, uid)
		require.NoError(t, killAllOf(t.Context(), uid))
		require.NoError(t, victim.Wait(t.Context()))
	}
}

// TestTheKillerRefuses: if somebody starts it by hand, it kills neither root's processes nor
// those of the user who started it.
func TestTheKillerRefuses(t *testing.T) {
	mine := sleeper(t, own())
	for _, uid := range []string{"0", strconv.Itoa(os.Geteuid()), "", "-1", "x", "4294967296", "0x1"} {
		out, err := exec.Command("/proc/self/exe", killArg, uid).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%q: %s", uid, out)
		require.Equal(t, 1, exit.ExitCode(), "%q: %s", uid, out)
	}
	require.False(t, mine.Ended())
}
