package ha

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// refused runs gated, which has to exit with a code, and returns what it printed.
func (w *world) refused(code int, args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), filepath.Join(w.bin, "gated"), args...).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(w.t, err, &exit, "%s: %s", strings.Join(args, " "), out)
	require.Equal(w.t, code, exit.ExitCode(), "%s: %s", strings.Join(args, " "), out)
	return string(out)
}

// TestALedgerIsMadeShorterAndRepaired by the commands: beside a running daemon, with a member that begins with the base
// and one that is behind it, and after PostgreSQL lost groups.
func TestALedgerIsMadeShorterAndRepaired(t *testing.T) {
	w := newWorld(t)
	one := w.first()
	one.serve(api.RoleActive)
	behind := w.join("node2", one)
	require.Equal(t, op.StateSucceeded, one.submit("guest.create", "web").State)

	out := w.run("gated", "member", "ledger", "compact", "--state", one.state, "--json")
	require.Contains(t, out, `"dropped":`)
	require.NotContains(t, out, `"base":0`)
	require.Equal(t, op.StateSucceeded, one.submit("guest.create", "db").State, "the daemon goes on")
	require.Contains(t, w.run("gated", "member", "ledger", "verify", "--state", one.state), "the base of group")
	require.Contains(t, w.refused(int(api.ExitRefused), "serve", "--state", behind.state, "--socket", behind.socket), "gated member join")

	two := w.join("node3", one)
	w.run("gated", "fsck", "--ledger", "--state", two.state)
	w.run("gated", "fsck", "--ledger", "--state", one.state)
	told := len(one.entries())
	require.Contains(t, w.refused(int(api.ExitRefused), "member", "ledger", "repair", "--yes", "--state", one.state), "uses the state directory")
	one.kill()

	w.pair.First.Exec(t, `DELETE FROM gated.groups`)
	require.Contains(t, w.refused(int(api.ExitRefused), "serve", "--state", one.state, "--socket", one.socket), "gated member ledger repair")
	require.Contains(t, w.refused(int(api.ExitRefused), "member", "ledger", "compact", "--state", one.state), "would be lost")
	require.Contains(t, w.refused(int(api.ExitUsage), "member", "ledger", "repair", "--state", one.state), "no terminal")
	require.Contains(t, w.refused(int(api.ExitRefused), "member", "ledger", "repair", "--yes", "--state", two.state), "another member decided last")
	out = w.run("gated", "member", "ledger", "repair", "--yes", "--state", one.state, "--json")
	require.Contains(t, out, `"entries_here":`)
	require.Contains(t, w.refused(int(api.ExitRefused), "member", "ledger", "repair", "--yes", "--state", one.state), "nothing to repair")

	one.serve(api.RoleActive)
	require.GreaterOrEqual(t, len(one.entries()), told, "nothing that was told is lost")
	require.Equal(t, op.StateSucceeded, one.submit("guest.create", "mail").State)
	w.run("gated", "fsck", "--ledger", "--state", one.state)
	status := must.Get(one.client.Status(t.Context()))(t)
	require.Equal(t, "node1", status.Member.Name)
}
