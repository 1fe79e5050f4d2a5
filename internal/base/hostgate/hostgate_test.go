package hostgate

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// with is a host with files; a path that ends in a slash is a directory. systemd says nothing.
func with(t *testing.T, paths ...string) Host {
	h := Host{Root: t.TempDir(), show: func(context.Context) (string, error) { return "", errors.New("systemd does not answer") }}
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
	yaml    = StateDir + "/gated.yaml"
	path    = "/run/gated/gated.sock"
)

// Whatever a host has: gated setup is named only where there is no state, and a unit only where systemd has it.
func TestTheNextCommand(t *testing.T) {
	for want, hosts := range map[string][]Host{
		"no gate was made on this host: sudo gated setup": {with(t), with(t, systemd, service, socket), with(t, StateDir+"/"), with(t, StateDir+"/lost+found/"),
			with(t, systemd, service, socket, StateDir+"/")},
		"mount its disk, or restore a backup:\ngated docs runbook    # section A new machine": {with(t, systemd, service, enabled),
			with(t, systemd, service, enabled, StateDir+"/"), with(t, systemd, service, enabled, StateDir+"/lost+found/")},
		"systemctl start gated\nsystemctl status gated\n": {with(t, systemd, service, enabled, state), with(t, systemd, service, socket, state),
			with(t, systemd, "/etc/systemd/system/gated.service", socket, state)},
		"also if a restore was cut off:\ngated docs runbook": {with(t, systemd, service, enabled, StateDir+"/gated.db.before-restore")},
		"also if a restore was cut off:\n" + map[bool]string{true: "sudo -s\n"}[os.Geteuid() != 0] + "systemctl stop gated.socket gated\n": {
			with(t, systemd, service, enabled, StateDir+"/gated.db.before-restore", yaml), with(t, systemd, service, enabled, yaml)},
		"systemctl enable --now gated.socket gated":                                {with(t, systemd, service, state)},
		"gated serve --state " + StateDir:                                          {with(t, state), with(t, service, enabled, state), with(t, systemd, enabled, state)},
		"\nIf no gate ever ran there, move its files away, then: sudo gated setup": {with(t, systemd, service, socket, yaml)},
	} {
		for _, h := range hosts {
			require.Contains(t, h.Next(t.Context(), path), want)
			if h.at(state) {
				require.NotContains(t, h.Next(t.Context(), path), "setup")
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
		said <- h.Next(t.Context(), path)
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

// A restore is typed as the owner of the directory, whoever that is: root's gate is not given to another user. The gate starts
// only after a look, and no way leads back to a command that refuses without gated.yaml.
func TestTheWayOfARestore(t *testing.T) {
	owners := map[int]string{0: "", 64331: "setpriv --reuid 64331 --clear-groups "} // no account has that uid
	if me := os.Geteuid(); me != 0 {
		owners = map[int]string{me: As(0, uint32(me))}
	}
	for owner, as := range owners {
		h := with(t, systemd, service, yaml)
		require.NoError(t, os.Chown(h.Root+StateDir, owner, -1))
		restore := "gated restore FILE --state " + StateDir
		if as != "" {
			restore = as + "gated restore - --state " + StateDir + " < FILE"
		}
		first := map[bool]string{true: "sudo -s\n"}[os.Geteuid() != 0]
		require.Equal(t, first+"systemctl stop gated.socket gated\n"+restore+"\n"+as+"gated trust show --state "+StateDir+
			"    # who may sign now: read it\n"+as+"gated fsck --state "+StateDir+" && systemctl start gated", h.Restore(StateDir))
		require.NoError(t, os.Remove(h.Root+yaml))
		require.NotContains(t, h.Restore(StateDir), "restore")
	}
	h := with(t, "/srv/g/gated.yaml")
	require.Equal(t, "gated restore FILE --state /srv/g", h.Restore("/srv/g"))
	require.NotContains(t, h.Restore("/srv/none"), "restore")
	require.Equal(t, "sudo ", As(7, 0))
	require.Equal(t, "sudo setpriv --reuid 64331 --clear-groups ", As(7, 64331))
	if u, err := user.Current(); os.Geteuid() != 0 && err == nil {
		require.Equal(t, "runuser -u "+u.Username+" -- ", As(0, uint32(os.Geteuid())))
		require.Equal(t, "sudo runuser -u "+u.Username+" -- ", As(7, uint32(os.Geteuid())))
	}
	require.Equal(t, "gated restore FILE --state '/srv/my g'", with(t, "/srv/my g/gated.yaml").Restore("/srv/my g"))
}
