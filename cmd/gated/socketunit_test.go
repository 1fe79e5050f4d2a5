package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/test/must"
)

// underUnit is gated as a service manager starts it: the socket is descriptor 3.
func underUnit() int {
	if os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) != nil || os.Setenv("LISTEN_FDS", "1") != nil {
		return api.ExitInternal
	}
	return program()
}

// The uids of the daemon and of a caller, and the group of callers.
const (
	daemonUID = 64331
	callerUID = 64332
	callers   = 64333
)

// manager stands in for the service manager: it holds the socket and hears what the daemon says.
type manager struct {
	t      *testing.T
	state  string
	socket string
	passes *os.File
	notify *net.UnixConn
	daemon *exec.Cmd
	log    *lines
}

func newManager(t *testing.T) *manager {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be three users")
	}
	dir := must.Get(os.MkdirTemp("/tmp", "gu"))(t) // a socket's path is short
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	m := &manager{t: t, state: filepath.Join(dir, "state"), socket: filepath.Join(dir, "run", "s")}
	require.NoError(t, os.Mkdir(m.state, 0o700))
	require.NoError(t, os.Chown(m.state, daemonUID, daemonUID))
	require.NoError(t, os.Mkdir(filepath.Dir(m.socket), 0o755))
	key := filepath.Join(dir, "key")
	require.NoError(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", key).Run())
	out := m.run(daemonUID, api.ExitDone, "gated", "init", "--state", m.state, "--host", "pve1", "--operator", key+".pub")
	require.Contains(t, out, "made "+m.state)

	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: m.socket, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	require.NoError(t, os.Chown(m.socket, 0, callers))
	require.NoError(t, os.Chmod(m.socket, 0o660))
	// O_NONBLOCK is one flag for all who have the socket (open(2)). os/exec clears it for a file that was made with it,
	// and would do so while a daemon serves. A service manager does not, with NonBlocking=yes.
	f := must.Get(l.File())(t)
	m.passes = os.NewFile(uintptr(must.Get(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3))(t)), "unit")
	require.NoError(t, errors.Join(f.Close(), l.Close()))
	path := filepath.Join(dir, "n")
	m.notify = must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	require.NoError(t, os.Chmod(path, 0o666))
	t.Cleanup(func() {
		require.NoError(t, m.notify.Close())
		require.NoError(t, m.passes.Close())
	})
	return m
}

// command is this program under another name, as a uid, with none of the test's environment.
func (m *manager) command(uid uint32, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), "/proc/self/exe", argv[1:]...)
	cmd.Args[0], cmd.Dir = argv[0], "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "HOME=/nonexistent"}
	gid := uid
	if uid == callerUID {
		gid = callers
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// run runs one command, which exits with code, and returns what it printed.
func (m *manager) run(uid uint32, code int, argv ...string) string {
	m.t.Helper()
	cmd := m.command(uid, argv...)
	out, _ := cmd.CombinedOutput() // the code is compared
	require.Equal(m.t, code, cmd.ProcessState.ExitCode(), "%v: %s", argv, out)
	return string(out)
}

// start starts the daemon with the socket, and returns when it is ready.
func (m *manager) start(env ...string) {
	m.t.Helper()
	m.daemon = m.command(daemonUID, "underunit", "serve", "--state", m.state, "--socket", m.socket)
	m.daemon.Env = append(m.daemon.Env, append(env, "NOTIFY_SOCKET="+m.notify.LocalAddr().String())...)
	m.daemon.ExtraFiles = []*os.File{m.passes}
	m.log = new(lines)
	m.daemon.Stderr = m.log
	require.NoError(m.t, m.daemon.Start())
	m.says("^READY=1$")
}

func (m *manager) stop() {
	m.t.Helper()
	require.NoError(m.t, m.daemon.Process.Signal(syscall.SIGTERM))
	require.NoError(m.t, m.daemon.Wait(), m.log)
}

// says reads until the daemon says a match.
func (m *manager) says(want string) {
	m.t.Helper()
	require.NoError(m.t, m.notify.SetReadDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 512)
	for {
		n, err := m.notify.Read(buf)
		require.NoError(m.t, err, "%s: %s", want, m.log)
		if ok, _ := regexp.MatchString(want, string(buf[:n])); ok {
			return
		}
	}
}

// peer is the uid that the kernel names for the socket's listener (SO_PEERCRED).
func (m *manager) peer() uint32 {
	c := must.Get(net.DialUnix("unix", nil, &net.UnixAddr{Name: m.socket, Net: "unix"}))(m.t)
	defer c.Close()
	f := must.Get(c.File())(m.t)
	defer f.Close()
	return must.Get(unix.GetsockoptUcred(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED))(m.t).Uid
}

// refusesASecond starts a second daemon of the unit, also for another gate, and the first serves on.
func (m *manager) refusesASecond() {
	m.t.Helper()
	another := m.state + "-2"
	require.NoError(m.t, os.Mkdir(another, 0o700))
	require.NoError(m.t, os.Chown(another, daemonUID, daemonUID))
	m.run(daemonUID, api.ExitDone, "gated", "init", "--state", another, "--host", "pve2", "--operator", filepath.Join(filepath.Dir(m.state), "key.pub"))
	for state, says := range map[string]string{
		m.state: fmt.Sprintf("conflict: the process with pid %d uses the state directory ", m.daemon.Process.Pid),
		another: fmt.Sprintf("conflict: process %d serves %s already", m.daemon.Process.Pid, m.socket),
	} {
		second := m.command(daemonUID, "underunit", "serve", "--state", state, "--socket", m.socket)
		second.ExtraFiles = []*os.File{m.passes}
		said, _ := second.CombinedOutput() // the code is compared
		require.Equal(m.t, api.ExitRefused, second.ProcessState.ExitCode(), string(said))
		require.Contains(m.t, string(said), says)
		require.Contains(m.t, string(said), "callers were not told why this daemon cannot start", "they are the first one's")
		require.FileExists(m.t, m.socket)
	}
	require.Contains(m.t, m.run(callerUID, api.ExitDone, "gated", "status", "--socket", m.socket), " on pve1, ")
}

// Root listens, although the daemon is another user: callers need no GATED_UID. They wait while the daemon restarts.
func TestTheDaemonOfASocketUnit(t *testing.T) {
	m := newManager(t)
	settings := filepath.Join(m.state, "gated.yaml")
	text := string(must.Get(os.ReadFile(settings))(t))
	write := func(more string) { require.NoError(t, os.WriteFile(settings, []byte(text+more), 0o600)) }
	write("\nsocket_group: nogroup\n")
	m.start("WATCHDOG_USEC=100000")
	require.Equal(t, uint32(0), m.peer())
	out := m.run(callerUID, api.ExitDone, "gated", "status", "--socket", m.socket)
	require.Contains(t, out, ", uid "+strconv.Itoa(daemonUID)+",")
	require.Contains(t, m.log.String(), "socket_group has no effect, because a socket unit made the socket")
	m.says("^WATCHDOG=1$")
	m.says("^WATCHDOG=1$")

	// While it restarts, a call waits.
	m.stop()
	require.FileExists(t, m.socket)
	waits := m.command(callerUID, "gated", "status", "--socket", m.socket)
	var heard bytes.Buffer
	waits.Stdout, waits.Stderr = &heard, &heard
	require.NoError(t, waits.Start())
	m.start()
	require.NoError(t, waits.Wait(), "%s %s", heard.String(), m.log)
	require.Contains(t, heard.String(), " on pve1, gate ")

	// Without pings of the watchdog, which would fill the queue of messages meanwhile.
	m.refusesASecond()
	m.clientsOfUnits()
	m.passesNothingOn()
	m.reloads(write)
	m.stop()
	require.FileExists(t, m.socket)
}

// clientsOfUnits: what gated-metrics.service and gated-notify.service start works without GATED_UID.
func (m *manager) clientsOfUnits() {
	t := m.t
	dir := filepath.Join(filepath.Dir(m.state), "clients")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, callerUID, callers))
	m.run(callerUID, api.ExitDone, "gated", "metrics", "--textfile", dir, "--socket", m.socket)
	require.Contains(t, string(must.Get(os.ReadFile(filepath.Join(dir, "gated.prom")))(t)), "\ngated_up 1\n")

	settings := filepath.Join(dir, "notify.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("state: "+dir+"/outbox\nsinks: {a: {exec: {argv: [/bin/true]}, alarms: true}}\n"), 0o644))
	notifier := m.command(callerUID, "gated", "notify", "run", "--config", settings, "--socket", m.socket)
	follows := make(chan bool, 1)
	log := &lines{on: func(s string) {
		if strings.Contains(s, "follows the gate") {
			follows <- true
		}
	}}
	notifier.Stderr = log
	require.NoError(t, notifier.Start())
	select {
	case <-follows:
	case <-time.After(time.Minute):
		t.Error(log)
	}
	require.NoError(t, notifier.Process.Signal(syscall.SIGTERM))
	require.NoError(t, notifier.Wait(), log)
}

// passesNothingOn: a guest or command of the daemon inherits no socket.
func (m *manager) passesNothingOn() {
	dir := "/proc/" + strconv.Itoa(m.daemon.Process.Pid) + "/fdinfo/"
	looked := 0
	for _, e := range must.Get(os.ReadDir(dir))(m.t) {
		what, _ := os.Readlink("/proc/" + strconv.Itoa(m.daemon.Process.Pid) + "/fd/" + e.Name())
		text, err := os.ReadFile(dir + e.Name())
		if os.IsNotExist(err) || !strings.HasPrefix(what, "socket:") {
			continue // it was closed meanwhile, or is of the test's own parent
		}
		require.NoError(m.t, err)
		found := regexp.MustCompile(`(?m)^flags:\t([0-7]+)$`).FindSubmatch(text)
		require.NotNil(m.t, found, "%s", text)
		flags := must.Get(strconv.ParseUint(string(found[1]), 8, 64))(m.t)
		require.NotZero(m.t, flags&unix.O_CLOEXEC, "descriptor %s: %s", e.Name(), text)
		looked++
	}
	require.Positive(m.t, looked)
}

// reloads is the part about gated reload.
func (m *manager) reloads(write func(string)) {
	t := m.t
	out := m.run(0, api.ExitDone, "gated", "reload", "--socket", m.socket)
	require.Contains(t, out, "nothing changed\n")
	m.says("^RELOADING=1\nMONOTONIC_USEC=[0-9]+$")
	m.says("^READY=1$")
	require.Contains(t, m.run(callerUID, api.ExitRefused, "gated", "reload", "--socket", m.socket), "not_allowed: ")
	require.Contains(t, m.run(daemonUID, api.ExitUnreachable, "gated", "reload", "--socket", m.socket), "permission denied",
		"the group decides who may connect, also for the daemon's own user")

	write("\npolicy: {max_validity: 1h}\nlimits: {workers: 3}\n")
	out = m.run(0, api.ExitDone, "gated", "reload", "--socket", m.socket)
	require.Contains(t, out, "in force now: policy\n")
	require.Contains(t, out, "in force after a restart of the daemon: socket_group, limits\n")
	write("\nnonsense: true\n")
	out = m.run(0, api.ExitRefused, "gated", "reload", "--socket", m.socket)
	require.Regexp(t, `malformed: .*/gated\.yaml:[0-9]+:1: `, out)
	require.Contains(t, out, "what was in force stays")
	require.Contains(t, m.run(callerUID, api.ExitDone, "gated", "status", "--socket", m.socket), "settings")
	write("")
	out = m.run(0, api.ExitDone, "gated", "reload", "--socket", m.socket, "--json")
	require.Regexp(t, `^\{"changed":\["policy"\],"waits":\["socket_group"\],"policy":"[0-9a-f]{64}","revoked":".*"\}\n$`, strings.TrimLeft(out, " "))
}
