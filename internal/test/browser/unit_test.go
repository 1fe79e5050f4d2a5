package browser_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// service is a process that is started as its unit says, without systemd. scripts/demo-debian.sh has the unit under it.
type service struct {
	t    *testing.T
	unit *printed
	dir  string // of the test
	uid  uint32
	gids []uint32 // the first one is the user's own
	path string

	cmd *exec.Cmd
	log *logged
}

// logged collects what a process writes. Its methods may run at the same time.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to what was written.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// setting returns the value of a line of the unit.
func (s *service) setting(name string) string {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(s.unit.text)
	require.NotNil(s.t, m, "the unit has no %s", name)
	return s.unit.local(m[1])
}

// start starts the process and waits until it is ready. It returns where it says that it listens.
func (s *service) start() (at string) {
	s.t.Helper()
	require.Equal(s.t, "notify", s.setting("Type"))
	env := map[string]string{}
	for line := range strings.Lines(string(must.Get(os.ReadFile(s.setting("EnvironmentFile")))(s.t))) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		require.True(s.t, ok, line)
		env[name] = value
	}
	// systemd.service(5), section Command lines: ${NAME} is one word, and $NAME as many as it has.
	var argv []string
	for _, word := range strings.Fields(s.setting("ExecStart")) {
		switch name := strings.Trim(word, "${}"); {
		case word == "${"+name+"}":
			argv = append(argv, env[name])
		case word == "$"+name:
			argv = append(argv, strings.Fields(env[name])...)
		default:
			argv = append(argv, word)
		}
	}
	at = filepath.Join(s.dir, "ready")
	_ = os.Remove(at) // of the last start
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"}))(s.t)
	defer func() { require.NoError(s.t, notify.Close()) }()
	require.NoError(s.t, os.Chmod(at, 0o666))
	s.log = &logged{}
	s.cmd = s.as(argv[0], argv[1:]...)
	s.cmd.Env = append(s.cmd.Env, s.setting("Environment"), "NOTIFY_SOCKET="+at)
	s.cmd.Stderr = s.log
	require.NoError(s.t, s.cmd.Start())
	s.t.Cleanup(s.stop)
	require.NoError(s.t, notify.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, 4096)
	n, err := notify.Read(b)
	require.NoError(s.t, err, s.log.String())
	require.Equal(s.t, "READY=1", string(b[:n]))
	listening := regexp.MustCompile(`msg=listening .* at=(\S+) gates=`)
	require.Eventually(s.t, func() bool { return listening.MatchString(s.log.String()) }, patience, time.Millisecond)
	return listening.FindStringSubmatch(s.log.String())[1]
}

// stop ends the process, if it has not ended, as systemctl stop does.
func (s *service) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(s.t, s.cmd.Wait(), s.log.String())
	if s.t.Failed() {
		s.t.Logf("the console: %s", s.log.String())
	}
}

// as is a command of the unit's user.
func (s *service) as(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = s.dir, []string{"PATH=" + s.path, "GATED_SOCKET=" + filepath.Join(s.dir, "s")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.uid, Gid: s.gids[0], Groups: s.gids}}
	return cmd
}
