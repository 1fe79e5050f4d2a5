package crash

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
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

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/people/sign"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"
)

// patience bounds every wait. It is never waited for where things work.
const patience = 2 * time.Minute

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

	store   string   // where its ledger is; "" is nowhere
	program string   // the gated that serves it
	env     []string // more of it than every program gets

	cmd    *exec.Cmd
	notify *net.UnixConn // of this life alone: an earlier one may have said more than was read
	log    lifeLog       // of the life that is or was
	ended  chan error
}

// localConf is what guests may run, and how long what was destroyed is kept.
const localConf = "local:\n%s  trash_keep: %s\n  stop_grace: 1s\n  commands:\n    sleep: {argv: [/bin/sleep, \"3600\"]}\n"

func newMachine(t *testing.T) *machine {
	return newMachineOf(t, filepath.Join(bin, "gated"), 2*time.Second)
}

// newMachineOf makes one that a program serves, with signers beside alice.
func newMachineOf(t *testing.T, program string, keep time.Duration, signers ...string) *machine {
	return newMachineOn(t, "", program, keep, signers...)
}

// newMachineOn is newMachineOf with a ledger in PostgreSQL, of which it is the only member. "" is no ledger.
func newMachineOn(t *testing.T, store, program string, keep time.Duration, signers ...string) *machine {
	dir, err := os.MkdirTemp("/tmp", "gk") // a socket's path is short
	require.NoError(t, err)
	m := &machine{t: t, dir: dir, state: filepath.Join(dir, "state"), root: filepath.Join(dir, "state", "guests"),
		socket: filepath.Join(dir, "s"), key: filepath.Join(dir, "alice"), program: program, store: store}
	uids := spareuids.Line(t.Cleanup) // given back after the machine's end
	t.Cleanup(m.clear)
	m.makeKey()
	args := []string{"init", "--state", m.state, "--host", "pve1", "--operator", m.key + ".pub"}
	for _, file := range signers {
		args = append(args, "--operator", file)
	}
	if store != "" {
		args = append(args, "--store", store, "--member", "node1", "--lease", "3s")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	conf := filepath.Join(m.state, "gated.yaml")
	text := must.Get(os.ReadFile(conf))(t)
	text = []byte(strings.Replace(string(text), "\nsingle_user: false\n", "\nsingle_user: true\n", 1)) // commands run as who tests
	text = fmt.Appendf(text, localConf+commandConf, uids, keep, m.marks())
	require.NoError(t, os.WriteFile(m.marks(), nil, 0o600))
	require.NoError(t, os.WriteFile(conf, text, 0o600))
	m.client = must.Get(client.New(client.Options{Socket: m.socket, Getenv: func(string) string { return "" }}))(t)
	return m
}

func (m *machine) makeKey() {
	writeKey(m.t, m.key, "alice@example.com")
	m.signer = must.Get(sign.KeyFile(m.key, nil))(m.t)
}

// writeKey makes a key in two files and returns its fingerprint.
func writeKey(t *testing.T, path, owner string) string {
	pub, priv := must.Two(ed25519.GenerateKey(nil))(t)
	block := must.Get(ssh.MarshalPrivateKey(priv, owner))(t)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	public := must.Get(ssh.NewPublicKey(pub))(t)
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))) + " " + owner + "\n"
	require.NoError(t, os.WriteFile(path+".pub", []byte(line), 0o600))
	return ssh.FingerprintSHA256(public)
}

// start starts the daemon and returns when it says that it is ready.
func (m *machine) start() {
	m.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := m.begin()
		// A busy machine may not connect in the time that the daemon gives its ledger. Service managers start it again then.
		away := m.store != "" && strings.Contains(m.log.String(), "the ledger is away") && time.Now().Before(end)
		if err != nil && !away {
			m.t.Fatalf("the daemon does not start: %v\n%s", err, m.log.String())
		}
		if err == nil {
			return
		}
	}
}

// begin is start, and returns errCut where the daemon was killed before it was
// ready, or why it ended.
func (m *machine) begin() error {
	m.log.Reset()
	notify, err := m.listen()
	if err != nil {
		return err
	}
	cmd, ended := exec.Command(m.program, "serve", "--state", m.state, "--socket", m.socket), make(chan error, 1)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + filepath.Join(m.dir, "n")}, m.env...)
	cmd.Stderr = &m.log
	if err := errors.Join(notify.SetReadDeadline(time.Now().Add(patience)), cmd.Start()); err != nil {
		return err
	}
	m.cmd, m.ended = cmd, ended
	gone := make(chan bool)
	go func() {
		err := cmd.Wait()
		close(gone)
		_ = notify.SetReadDeadline(time.Unix(1, 0)) // the wait below is over
		ended <- err
	}()
	for buf := make([]byte, 512); ; {
		n, err := notify.Read(buf)
		switch {
		case err == nil && string(buf[:n]) == "READY=1":
			return m.decides(gone)
		case err == nil: // no other word says that it serves
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			return m.notReady(gone)
		}
	}
}

// listen makes the socket at which the next life of the daemon tells how it stands.
func (m *machine) listen() (*net.UnixConn, error) {
	if m.notify != nil {
		_ = m.notify.Close() // of the last life
	}
	path := filepath.Join(m.dir, "n")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	m.notify = notify
	return notify, err
}

// decides waits until a member of a ledger decides: it may have to wait for the lease of its own last life.
func (m *machine) decides(gone chan bool) error {
	for end := time.After(patience); m.store != ""; {
		s, err := m.client.Status(context.Background())
		if err == nil && s.Member != nil && s.Member.Role == api.RoleActive {
			break
		}
		select {
		case <-gone:
			return m.notReady(gone)
		case <-end:
			return m.notReady(gone)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// notReady says why the daemon did not get there; gone is closed where it ended.
func (m *machine) notReady(gone chan bool) error {
	late := false
	select {
	case <-gone:
	default:
		late = true
		_ = m.cmd.Process.Kill()
	}
	err := <-m.ended
	m.cmd = nil
	switch {
	case late:
		return errors.New("it is not ready in time")
	case killed(err):
		return errCut
	default:
		return fmt.Errorf("it ended by itself: %w", err)
	}
}

// finish ends the daemon as a service manager does, and reports whether it was
// killed on the way.
func (m *machine) finish() (cut bool) {
	m.t.Helper()
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	return m.over()
}

// over waits for the end of the daemon, and reports whether it was killed.
func (m *machine) over() (cut bool) {
	m.t.Helper()
	select {
	case err := <-m.ended:
		m.cmd = nil
		if cut = killed(err); !cut && err != nil {
			m.t.Fatalf("the daemon ended badly: %v\n%s", err, m.log.String())
		}
		return cut
	case <-time.After(2 * patience):
		m.t.Fatalf("the daemon does not end\n%s", m.log.String())
		return false
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
		m.cmd = nil
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
	entries := must.Get(os.ReadDir("/proc"))(m.t)
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
	r := must.Get(life.Fsck(context.Background(), m.state))(m.t, when)
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
