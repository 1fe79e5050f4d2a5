package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// launch starts the daemon with the socket, and does not wait.
func (m *manager) launch() {
	m.t.Helper()
	m.daemon = m.command(daemonUID, "underunit", "serve", "--state", m.state, "--socket", m.socket)
	m.daemon.ExtraFiles = []*os.File{m.passes}
	m.log = new(lines)
	m.daemon.Stderr = m.log
	require.NoError(m.t, m.daemon.Start())
}

// A daemon that cannot start says so to its callers: root hears the reason, others hear who knows it, because the reason
// quotes a file that they may not read. It touches nothing, and ends as it would without callers.
func TestADaemonThatCannotStartSaysWhy(t *testing.T) {
	m := newManager(t)
	settings := filepath.Join(m.state, "gated.yaml")
	text := must.Get(os.ReadFile(settings))(t)
	require.NoError(t, os.WriteFile(settings, append(text, "\ns3cret: true\n"...), 0o600))
	before := m.bytes()

	m.launch()
	out := m.run(callerUID, api.ExitInternal, "gated", "status", "--socket", m.socket)
	require.Equal(t, "unavailable: the daemon cannot start: its settings are refused. Only root may see more\n"+
		"  hint: sudo gated config check --state "+m.state+"\n    systemctl status gated\n    sudo journalctl -u gated -n 20\n", out)
	require.NotContains(t, m.run(callerUID, api.ExitInternal, "gated", "status", "--json", "--socket", m.socket), "s3cret")
	out = m.run(0, api.ExitInternal, "gated", "status", "--socket", m.socket)
	require.Regexp(t, `^unavailable: the daemon cannot start: .*/gated\.yaml:[0-9]+:1: .*s3cret.*\n  hint: mend line [0-9]+; the gate starts by itself within seconds\n`, out)
	require.Contains(t, out, "    gated config check --state "+m.state+"\n    systemctl status gated\n    journalctl -u gated -n 20\n")
	m.refusesABody()
	err := m.daemon.Wait()
	require.Error(t, err)
	require.Equal(t, api.ExitRefused, m.daemon.ProcessState.ExitCode(), m.log)
	require.Contains(t, m.log.String(), "malformed: ")
	require.Equal(t, before, m.bytes(), "it changed its state")

	// A call that waits in the socket has its answer from the next daemon.
	require.NoError(t, os.WriteFile(settings, text, 0o600))
	m.start()
	require.Contains(t, m.run(callerUID, api.ExitDone, "gated", "status", "--socket", m.socket), " on pve1, gate ")
	m.stop()
}

// Each cause is said to root with what mends it, and ends the daemon with its own exit code.
func TestWhyADaemonCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, m *manager)
		says  string
		code  int
	}{
		"another owner": {func(t *testing.T, m *manager) { require.NoError(t, os.Chown(m.state, callerUID, -1)) },
			`: the state directory .* belongs to uid 64332, and gated runs as uid 64331\n  hint: `, api.ExitRefused},
		"no state directory": {func(t *testing.T, m *manager) { require.NoError(t, os.Rename(m.state, m.state+"-away")) },
			`: .*/state: no such file or directory|: there is no gate in `, api.ExitRefused},
		"an unreadable database": {func(t *testing.T, m *manager) {
			require.NoError(t, os.WriteFile(filepath.Join(m.state, "gated.db"), make([]byte, 1<<16), 0o600))
		}, `: the database .*/gated\.db does not open: (?s:.*)\n  hint: .*:\n    gated restore FILE --state `, api.ExitInternal},
		"an empty database": {func(t *testing.T, m *manager) {
			require.NoError(t, os.Truncate(filepath.Join(m.state, "gated.db"), 0))
			require.NoError(t, os.RemoveAll(filepath.Join(m.state, "gated.db-wal")))
		}, `: the database .*/gated\.db does not open: the file is empty: (?s:.*)\n  hint: if no gate ever ran there, .*:\n    gated restore FILE --state `, api.ExitInternal},
		"a newer schema": {func(t *testing.T, m *manager) {
			f := must.Get(os.OpenFile(filepath.Join(m.state, "gated.db"), os.O_WRONLY, 0))(t)
			defer f.Close()
			_, err := f.WriteAt([]byte{0, 0, 3, 0xe7}, 60) // user_version, see fileformat2.html of SQLite
			require.NoError(t, err)
		}, `: the database .* has schema 999, and this gated knows [0-9]+\n  hint: `, api.ExitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			c.spoil(t, m)
			m.launch()
			out := m.run(0, api.ExitInternal, "gated", "status", "--socket", m.socket)
			require.Regexp(t, "^unavailable: the daemon cannot start"+c.says, out)
			require.Contains(t, out, "systemctl status gated\n    journalctl -u gated -n 20\n")
			require.Equal(t, "unavailable: the daemon cannot start: only root may see why\n"+
				"  hint: sudo gated status\n    systemctl status gated\n    sudo journalctl -u gated -n 20\n",
				m.run(callerUID, api.ExitInternal, "gated", "status", "--socket", m.socket), "no code, which reads like a verdict on the caller")
			require.Error(t, m.daemon.Wait())
			require.Equal(t, c.code, m.daemon.ProcessState.ExitCode(), m.log)
		})
	}
}

// refusesABody: a call with a body has its answer although nobody reads the body.
func (m *manager) refusesABody() {
	m.t.Helper()
	c := must.Get(client.New(client.Options{Socket: m.socket}))(m.t)
	defer c.Close()
	_, err := c.PutSet(m.t.Context(), "web", "", make([]byte, 8<<20))
	require.ErrorIs(m.t, err, refusal.Unavailable)
}

// bytes are the files of the state directory.
func (m *manager) bytes() map[string]string {
	out := map[string]string{}
	for _, e := range must.Get(os.ReadDir(m.state))(m.t) {
		if e.Type().IsRegular() {
			out[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(m.state, e.Name())))(m.t))
		}
	}
	return out
}
