package ha

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
	"gated/internal/test/programs"
)

// patience bounds every wait.
const patience = time.Minute

// lease is how long a standby waits here.
const lease = 4 * time.Second

// world is a gate of two members, their PostgreSQL servers, and the cluster with the guests.
type world struct {
	t       *testing.T
	dir     string // short, for sockets
	bin     string
	pair    *postgres.Pair
	cluster *pvetest.Cluster
	key     string // alice's
}

func newWorld(t *testing.T) *world {
	postgres.Need(t)
	dir := must.Get(os.MkdirTemp("/tmp", "gha"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := &world{t: t, dir: dir, bin: filepath.Join(dir, "bin"), pair: postgres.NewPair(t), cluster: pvetest.New(t), key: filepath.Join(dir, "alice")}
	require.NoError(t, programs.Into(w.bin, "gated", "opsign"))
	w.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", w.key)
	return w
}

// run runs a program, which has to succeed, and returns what it printed.
func (w *world) run(name string, args ...string) string {
	w.t.Helper()
	if name == "gated" || name == "opsign" {
		name = filepath.Join(w.bin, name)
	}
	c := exec.CommandContext(w.t.Context(), name, args...)
	c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+w.dir+"/config", "XDG_STATE_HOME="+w.dir+"/xdg", "GATED_HOST=", "GATED_SOCKET=")
	var out, words bytes.Buffer
	c.Stdout, c.Stderr = &out, &words
	require.NoError(w.t, c.Run(), "%s %s: %s%s", name, strings.Join(args, " "), &out, &words)
	return out.String()
}

// say tells a reader of the demo what is played.
func (w *world) say(format string, args ...any) {
	fmt.Printf("%s\n", fmt.Sprintf(format, args...))
}

// member is a daemon on a host of its own, and its state.
type member struct {
	*world
	name   string
	state  string
	socket string
	client *client.Client

	mu   sync.Mutex
	log  bytes.Buffer
	cmd  *exec.Cmd
	done chan struct{}
}

func (w *world) member(name string) *member {
	m := &member{world: w, name: name, state: filepath.Join(w.dir, name), socket: filepath.Join(w.dir, name+".sock")}
	m.client = must.Get(client.New(client.Options{Socket: m.socket, Getenv: func(string) string { return "" }}))(w.t)
	w.t.Cleanup(m.client.Close)
	fscktest.Watch(w.t, filepath.Join(m.state, "gated.db"), life.Migrations())
	w.t.Cleanup(func() {
		if m.cmd != nil {
			m.kill()
		}
		if w.t.Failed() {
			w.t.Logf("log of %s:\n%s", name, &m.log)
		}
	})
	return m
}

// Write implements io.Writer for what the daemon logs.
func (m *member) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(b)
}

// guests is the section of gated.yaml for the cluster.
func (w *world) guests() string {
	token := filepath.Join(w.dir, "token")
	require.NoError(w.t, os.WriteFile(token, []byte(pvetest.TokenID+"="+pvetest.Secret+"\n"), 0o600))
	return fmt.Sprintf("proxmox:\n  url: %s\n  token_file: %s\n  fingerprint: %q\n  node: %s\n  storage: local-lvm\n  templates: {default: {kind: qemu, disk: 1, ostype: l26}}\n",
		strings.TrimSuffix(w.cluster.URL(), "/api2/json"), token, w.cluster.Fingerprint(), pvetest.Node)
}

// first makes the gate, with its ledger.
func (w *world) first() *member {
	w.t.Helper()
	m := w.member("node1")
	w.run("gated", "init", "--state", m.state, "--host", "cluster", "--operator", w.key+".pub", "--store", w.pair.DSN(), "--member", m.name, "--lease", lease.String())
	path := filepath.Join(m.state, "gated.yaml")
	text := must.Get(os.ReadFile(path))(w.t)
	require.NoError(w.t, os.WriteFile(path, append(text, w.guests()...), 0o600))
	return m
}

// join makes another member, with what its operator copied from one.
func (w *world) join(name string, from *member) *member {
	w.t.Helper()
	m := w.member(name)
	text := must.Get(os.ReadFile(filepath.Join(from.state, "gated.yaml")))(w.t)
	settings := filepath.Join(w.dir, name+".yaml")
	require.NoError(w.t, os.WriteFile(settings, bytes.Replace(text, []byte("member: "+from.name), []byte("member: "+name), 1), 0o600))
	w.run("gated", "member", "join", "--state", m.state, "--config", settings, "--key", filepath.Join(from.state, "gate.key"), "--yes")
	return m
}

// serve starts the daemon, and waits until it has a role.
func (m *member) serve(role string) {
	m.t.Helper()
	m.cmd, m.done = exec.Command(filepath.Join(m.bin, "gated"), "serve", "--state", m.state, "--socket", m.socket), make(chan struct{})
	m.cmd.Stdout, m.cmd.Stderr = m, m
	require.NoError(m.t, m.cmd.Start())
	go func(c *exec.Cmd, done chan struct{}) {
		_ = c.Wait()
		close(done)
	}(m.cmd, m.done)
	m.becomes(role)
}

// becomes waits until the member has a role, and returns how long that took.
func (m *member) becomes(role string) time.Duration {
	m.t.Helper()
	begun := time.Now()
	require.Eventually(m.t, func() bool {
		s, err := m.client.Status(m.t.Context())
		return err == nil && s.Member != nil && s.Member.Role == role
	}, patience, 20*time.Millisecond, "%s does not become %s", m.name, role)
	return time.Since(begun)
}

// kill ends the daemon as a power cut does.
func (m *member) kill() {
	m.t.Helper()
	_ = m.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-m.done
	m.cmd = nil
}

// submit asks for an operation on a guest, and waits until it ends or waits for a signature.
func (m *member) submit(name, guest string) api.Job {
	m.t.Helper()
	target := "guest/" + guest
	j, err := m.client.Submit(m.t.Context(), api.Submit{Op: &name, Target: &target, Reason: "demo"}, "")
	require.NoError(m.t, err)
	return m.await(j.ID)
}

func (m *member) await(id string) api.Job {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	j, err := m.client.AwaitJob(ctx, id, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	require.NoError(m.t, err)
	return j
}

// approve signs a request as it is, with opsign.
func (m *member) approve(request string) {
	m.t.Helper()
	m.run("opsign", "list", "--json", "--socket", m.socket)
	m.run("opsign", "show", request, "--socket", m.socket)
	m.run("opsign", "approve", request, "--key", m.key, "--yes", "--socket", m.socket)
}

// log returns every entry of the audit log.
func (m *member) entries() (out []api.Entry) {
	m.t.Helper()
	require.NoError(m.t, m.client.Events(m.t.Context(), 0, false, func(e api.Entry) error {
		out = append(out, e)
		return nil
	}))
	return out
}

func (m *member) status() api.Status {
	m.t.Helper()
	return must.Get(m.client.Status(m.t.Context()))(m.t)
}
