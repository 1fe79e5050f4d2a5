package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// tourist is a user whose shell has next to no environment, as after env -i, su or in a container.
type tourist struct {
	t    *testing.T
	home string
}

const touristUID = 64335

func newTourist(t *testing.T) *tourist {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	home := must.Get(os.MkdirTemp("/tmp", "gh"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	require.NoError(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", home+"/key").Run())
	require.NoError(t, os.Chmod(home+"/key.pub", 0o644))
	require.NoError(t, os.Chown(home, touristUID, touristUID))
	return &tourist{t, home}
}

func (u *tourist) command(env []string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), "/proc/self/exe", argv[1:]...)
	cmd.Args[0], cmd.Dir, cmd.Env = argv[0], u.home, append(env, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: touristUID, Gid: touristUID}}
	return cmd
}

func (u *tourist) run(env []string, code int, argv ...string) string {
	u.t.Helper()
	cmd := u.command(env, argv...)
	out, _ := cmd.CombinedOutput() // the code is compared
	require.Equal(u.t, code, cmd.ProcessState.ExitCode(), "%v: %s", argv, out)
	return string(out)
}

// serve starts the daemon, and returns when it is ready.
func (u *tourist) serve(env ...string) (stop func()) {
	u.t.Helper()
	path := filepath.Join(u.home, "n")
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(u.t)
	require.NoError(u.t, os.Chmod(path, 0o666))
	cmd := u.command(append(env, "NOTIFY_SOCKET="+path), "gated", "serve")
	log := new(lines)
	cmd.Stderr = log
	require.NoError(u.t, cmd.Start())
	require.NoError(u.t, notify.SetReadDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 100)
	n, err := notify.Read(buf)
	require.NoError(u.t, err, log.String())
	require.Equal(u.t, "READY=1", string(buf[:n]))
	return func() {
		require.NoError(u.t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(u.t, cmd.Wait(), log.String())
		require.NoError(u.t, notify.Close())
		require.NoError(u.t, os.Remove(path))
	}
}

// The tour works without XDG_RUNTIME_DIR: the daemon takes a place of the user's own, and each client looks there.
func TestAUserWithoutARuntimeDirectory(t *testing.T) {
	u := newTourist(t)
	bare := []string{"HOME=" + u.home}
	out := u.run(bare, api.ExitUnreachable, "gated", "status")
	require.Contains(t, out, "gated setup makes a gate; gated serve starts one that was made")
	require.Contains(t, out, u.home+"/.local/state/gated/gated.sock")
	out = u.run(bare, api.ExitDone, "gated", "init", "--operator", "key.pub")
	require.NotContains(t, out, "GATED_SOCKET")
	stop := u.serve(bare...)
	socket := u.home + "/.local/state/gated/gated.sock"
	require.Equal(t, os.FileMode(0o600), must.Get(os.Lstat(socket))(t).Mode().Perm())
	require.Equal(t, os.FileMode(0o700), must.Get(os.Lstat(filepath.Dir(socket)))(t).Mode().Perm())
	u.run(bare, api.ExitDone, "gated", "status")
	u.run(append(bare, "XDG_RUNTIME_DIR="+u.home), api.ExitDone, "gated", "status")
	u.run(bare, api.ExitDone, "gated", "submit", "guest.create", "web", "--wait")
	stop()
	require.NoFileExists(t, socket)
	u.run(bare, api.ExitDone, "gated", "fsck")

	// With a runtime directory, it is there; and a state directory elsewhere changes nothing about that.
	run := filepath.Join(u.home, "run")
	require.NoError(t, os.Mkdir(run, 0o700))
	require.NoError(t, os.Chown(run, touristUID, touristUID))
	session := append(bare, "XDG_RUNTIME_DIR="+run)
	stop = u.serve(session...)
	require.FileExists(t, run+"/gated/gated.sock")
	u.run(session, api.ExitDone, "gated", "status")
	stop()
	elsewhere := append(bare, "XDG_STATE_HOME="+u.home+"/st/ate")
	u.run(bare, api.ExitDone, "gated", "init", "--state", "elsewhere", "--operator", "key.pub")
	cmd := u.command(elsewhere, "gated", "serve", "--state", "elsewhere")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return u.command(elsewhere, "gated", "status").Run() == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// Without a home there is no place of the user's own. Both programs say what to do, and none takes a place in /tmp.
func TestAUserWithoutAHome(t *testing.T) {
	u := newTourist(t)
	out := u.run(nil, api.ExitUnreachable, "gated", "status")
	require.NotContains(t, out, "/tmp")
	out = u.run(nil, api.ExitDone, "gated", "init", "--state", "state", "--operator", "key.pub")
	require.Contains(t, out, "export GATED_SOCKET=")
	out = u.run(nil, api.ExitRefused, "gated", "serve", "--state", "state")
	require.Contains(t, out, "not_allowed: ")
	require.Contains(t, out, "export GATED_SOCKET=")
	require.NotContains(t, out, "internal")
}
