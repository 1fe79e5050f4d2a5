package crash

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/client"
	"gated/internal/daemon"
	"gated/internal/op"
	"gated/internal/sign"
)

// patience bounds every wait. It is never waited for where things work.
const patience = 30 * time.Second

// machine is a state directory and the program that serves it, over many lives.
type machine struct {
	t      *testing.T
	dir    string
	state  string
	root   string
	socket string
	key    string
	signer sign.Signer
	client *client.Client

	cmd    *exec.Cmd
	notify *net.UnixConn
	log    lifeLog // of the life that is or was
	ended  chan error
}

func newMachine(t *testing.T) *machine {
	dir, err := os.MkdirTemp("/tmp", "gk") // a socket's path is short
	require.NoError(t, err)
	m := &machine{t: t, dir: dir, state: filepath.Join(dir, "state"), root: filepath.Join(dir, "state", "guests"),
		socket: filepath.Join(dir, "s"), key: filepath.Join(dir, "alice")}
	t.Cleanup(m.clear)
	m.makeKey()
	out, err := exec.Command(filepath.Join(bin, "gated"), "init", "--state", m.state, "--host", "pve1", "--operator", m.key+".pub").CombinedOutput()
	require.NoError(t, err, string(out))
	conf := filepath.Join(m.state, "gated.yaml")
	text, err := os.ReadFile(conf)
	require.NoError(t, err)
	text = append(text, "local:\n  trash_keep: 2s\n  stop_grace: 1s\n  commands:\n    sleep: {argv: [/bin/sleep, \"3600\"]}\n"...)
	require.NoError(t, os.WriteFile(conf, text, 0o600))
	m.client, err = client.New(client.Options{Socket: m.socket, Getenv: func(string) string { return "" }})
	require.NoError(t, err)
	path := filepath.Join(dir, "n")
	m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	return m
}

func (m *machine) makeKey() {
	pub, priv, err := ed25519.GenerateKey(nil)
	require.NoError(m.t, err)
	block, err := ssh.MarshalPrivateKey(priv, "alice@example.com")
	require.NoError(m.t, err)
	require.NoError(m.t, os.WriteFile(m.key, pem.EncodeToMemory(block), 0o600))
	public, err := ssh.NewPublicKey(pub)
	require.NoError(m.t, err)
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))) + " alice@example.com\n"
	require.NoError(m.t, os.WriteFile(m.key+".pub", []byte(line), 0o600))
	m.signer, err = sign.KeyFile(m.key, nil)
	require.NoError(m.t, err)
}

// start starts the daemon and returns when it says that it is ready.
func (m *machine) start() {
	m.t.Helper()
	m.log.Reset()
	m.cmd = exec.Command(filepath.Join(bin, "gated"), "serve", "--state", m.state, "--socket", m.socket)
	m.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + filepath.Join(m.dir, "n")}
	m.cmd.Stderr = &m.log
	require.NoError(m.t, m.cmd.Start())
	m.ended = make(chan error, 1)
	require.NoError(m.t, m.notify.SetReadDeadline(time.Now().Add(patience)))
	go func(cmd *exec.Cmd, ended chan error) {
		err := cmd.Wait()
		if !killed(err) {
			_ = m.notify.SetReadDeadline(time.Unix(1, 0)) // who waits for it need not
		}
		ended <- err
	}(m.cmd, m.ended)
	buf := make([]byte, 512)
	n, err := m.notify.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		m.t.Fatalf("the daemon does not start: %q %v\n%s", buf[:n], err, m.log.String())
	}
}

func killed(err error) bool {
	exit, ok := err.(*exec.ExitError)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill ends the daemon as a power cut would, and waits for its end.
func (m *machine) kill() {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Kill())
	err := <-m.ended
	m.cmd = nil
	if !killed(err) {
		m.t.Fatalf("the daemon had ended by itself: %v\n%s", err, m.log.String())
	}
}

// clear ends everything that was started, each by its pid.
func (m *machine) clear() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		<-m.ended
	}
	for pid := range m.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if m.client != nil {
		m.client.Close()
	}
	if m.notify != nil {
		_ = m.notify.Close()
	}
	require.NoError(m.t, os.RemoveAll(m.dir))
}

// processes finds the guests' processes of this machine, and whose each is: by
// where they work, and by the mark that the driver gives them.
func (m *machine) processes() map[int]op.Incarnation {
	found := map[int]op.Incarnation{}
	entries, err := os.ReadDir("/proc")
	require.NoError(m.t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err != nil || !strings.HasPrefix(cwd, m.root+"/") {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // it ended meanwhile
		}
		inc := ""
		for _, kv := range strings.Split(string(env), "\x00") {
			if v, ok := strings.CutPrefix(kv, "GATED_GUEST="); ok {
				inc = v
			}
		}
		found[pid] = op.Incarnation(inc)
	}
	return found
}

// sound runs fsck, which needs no daemon and minds none.
func (m *machine) sound(when string) {
	m.t.Helper()
	r, err := daemon.Fsck(context.Background(), m.state)
	require.NoError(m.t, err, when)
	require.Empty(m.t, r.Problems, when)
}

// data returns the digest of a guest's files, "" where there are none.
func digest(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		b.WriteString(strings.TrimPrefix(path, dir) + " " + op.SHA256(text) + "\n")
		return err
	})
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return op.SHA256(b.Bytes())
}
