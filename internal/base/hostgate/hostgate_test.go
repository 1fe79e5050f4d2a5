package hostgate

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// with is a host with files; a path that ends in a slash is a directory.
func with(t *testing.T, paths ...string) Host {
	h := Host{t.TempDir(), func() (string, error) { return "", errors.New("systemd does not answer") }}
	for _, path := range paths {
		at := h.Root + path
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if path[len(path)-1] != '/' {
			require.NoError(t, os.WriteFile(at, nil, 0o644))
		}
	}
	return h
}

const (
	systemd = "/run/systemd/system/"
	service = "/usr/lib/systemd/system/gated.service"
	enabled = "/etc/systemd/system/multi-user.target.wants/gated.service"
	socket  = "/etc/systemd/system/sockets.target.wants/gated.socket"
	state   = StateDir + "/gated.db"
)

// Whatever a host has: gated setup is named only where there is no state, and a unit only where systemd has it.
func TestTheNextCommand(t *testing.T) {
	for want, hosts := range map[string][]Host{
		"no gate was made on this host: sudo gated setup": {with(t), with(t, systemd, service, socket), with(t, StateDir+"/"),
			with(t, systemd, service, socket, StateDir+"/")},
		"mount its disk, or restore a backup:\nsystemctl stop gated.socket gated\nrunuser -u gated -- gated restore - --state " + StateDir + " < FILE\nsystemctl start gated\n": {with(t, systemd, service, enabled), with(t, systemd, service, enabled, StateDir+"/")},
		"systemctl start gated\nsystemctl status gated\n": {with(t, systemd, service, enabled, state), with(t, systemd, service, socket, state),
			with(t, systemd, "/etc/systemd/system/gated.service", socket, state)},
		"there is no database in " + StateDir + ", because a restore did not finish. Restore a backup:\nsystemctl stop gated.socket gated\nrunuser -u gated -- ": {
			with(t, systemd, service, enabled, StateDir+"/gated.db.before-restore")},
		"there is no database in " + StateDir + ". Restore a backup:\n": {with(t, systemd, service, enabled, StateDir+"/gated.yaml")},
		"systemctl enable --now gated.socket gated":                     {with(t, systemd, service, state)},
		"gated serve --state " + StateDir:                               {with(t, state), with(t, service, enabled, state), with(t, systemd, enabled, state)},
	} {
		for _, h := range hosts {
			require.Contains(t, h.Next(), want)
			if found, _ := os.ReadDir(h.Root + StateDir); len(found) > 0 {
				require.NotContains(t, h.Next(), "setup")
			}
		}
	}
}

// Who may not read the state directory cannot tell a gate from none.
func TestAStateDirectoryThatIsClosed(t *testing.T) {
	h := with(t, systemd, service, enabled, state)
	require.NoError(t, os.Chmod(h.Root+StateDir, 0))
	said := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, and with it the uid
		err := error(nil)
		if os.Geteuid() == 0 {
			err = syscall.Setfsuid(64331)
		}
		if err != nil {
			said <- err.Error()
			return
		}
		said <- h.Next()
	}()
	require.Contains(t, <-said, "only root can see whether one was made: sudo gated status")
}

func TestWhatStartsAGate(t *testing.T) {
	h := with(t, systemd, service, state)
	require.True(t, h.Starts(StateDir))
	require.False(t, h.Starts("/srv/g"))
	require.False(t, with(t, service, state).Starts(StateDir), "systemd does not run")
	require.Equal(t, "systemctl status gated\njournalctl -u gated -n 20", h.LookWhy())
	require.Empty(t, with(t, service, state).LookWhy())
	require.True(t, h.Prepared() && with(t, "/etc/gated/client.yaml").Prepared() && with(t, "/etc/systemd/system/gated.socket").Prepared())
	require.False(t, with(t, systemd).Prepared())
}
