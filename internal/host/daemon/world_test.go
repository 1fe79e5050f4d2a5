package daemon_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/host/unit"
	"gated/internal/people/pubkey"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// TestMain is a guest's process first, where a test's daemon started one.
func TestMain(m *testing.M) {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	switch {
	case len(os.Args) == 3 && os.Args[1] == actorArg:
		act(os.Args[2], os.Stdin, os.Stdout)
		os.Exit(0)
	case len(os.Args) > 3 && os.Args[1] == onceArg:
		fmt.Println(newPlayer(os.Args[2]).answer(os.Args[3:]))
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "adopt" {
		_, err := life.AdoptSigners(context.Background(), os.Args[2], filepath.Join(os.Args[2], "allowed_signers"), agreed)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Members wait for leases, and need no processor meanwhile. What the command line says counts more.
	if err := errors.Join(flag.Set("test.parallel", "6"), os.Unsetenv("NOTIFY_SOCKET")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// reexec is this program as another process, which does one thing.
func reexec(t *testing.T, args ...string) *exec.Cmd {
	self := must.Get(os.Executable())(t)
	return exec.CommandContext(t.Context(), self, args...)
}

// patience bounds every wait. It is never waited for where things work.
const patience = 30 * time.Second

const testHost = "pve1"

// world is a state directory, an operator's key, and the daemon that serves.
type world struct {
	t      *testing.T
	dir    string // holds everything; short, for sockets
	state  string
	socket string
	pub    string
	signer ssh.Signer
	client *client.Client
	unit   unit.Place // of its daemons

	notify *net.UnixConn
	stop   context.CancelFunc
	ended  chan error
	log    *logText
}

// logText collects what daemons log.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grew <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until the log has grown to contain text after the length from.
func (l *logText) await(t *testing.T, from int, text string) {
	t.Helper()
	limit := time.After(patience)
	for !strings.Contains(l.String()[from:], text) {
		select {
		case <-l.grew:
		case <-limit:
			t.Fatalf("the daemon did not log %q:\n%s", text, l)
		}
	}
}

func newWorld(t *testing.T) *world {
	w := newUnheard(t)
	path := filepath.Join(w.dir, "n")
	w.notify = must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { require.NoError(t, w.notify.Close()) })
	t.Setenv("NOTIFY_SOCKET", path)
	return w
}

// newUnheard is newWorld without a service manager, for tests that run in parallel: the environment belongs to all of them.
func newUnheard(t *testing.T) *world {
	dir, err := os.MkdirTemp("/tmp", "gd") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := &world{t: t, dir: dir, state: filepath.Join(dir, "state"), socket: filepath.Join(dir, "s"), log: &logText{grew: make(chan struct{}, 1)}}
	_, key := must.Two(ed25519.GenerateKey(nil))(t)
	w.signer = must.Get(ssh.NewSignerFromKey(key))(t)
	w.pub = w.file("alice.pub", strings.TrimSpace(string(ssh.MarshalAuthorizedKey(w.signer.PublicKey())))+" alice@example.com\n")
	w.client = must.Get(client.New(client.Options{Socket: w.socket, Getenv: func(string) string { return "" }}))(t)
	t.Cleanup(w.client.Close)
	return w
}

func (w *world) file(name, text string) string {
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (w *world) options() life.InitOptions {
	return life.InitOptions{StateDir: w.state, Host: testHost, Operators: []pubkey.Arg{{Path: w.pub}}}
}

func (w *world) init() life.InitResult {
	w.t.Helper()
	fscktest.Watch(w.t, filepath.Join(w.state, "gated.db"), life.Migrations())
	return must.Get(life.Init(w.t.Context(), w.options()))(w.t)
}

// newInitialised is newWorld after init.
func newInitialised(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.init()
	return w
}

// newServing is newInitialised with a daemon that runs.
func newServing(t *testing.T) *world {
	t.Helper()
	w := newInitialised(t)
	w.serve()
	return w
}

// haltSound stops the daemon and runs fsck.
func (w *world) haltSound() {
	w.t.Helper()
	w.halt()
	w.sound()
}

// signers is the path of the file that says who may sign.
func (w *world) signers() string { return filepath.Join(w.state, "allowed_signers") }

// fingerprint is alice's.
func (w *world) fingerprint() string { return ssh.FingerprintSHA256(w.signer.PublicKey()) }

// config adds lines to gated.yaml.
func (w *world) config(lines string) {
	path := filepath.Join(w.state, "gated.yaml")
	text := must.Get(os.ReadFile(path))(w.t)
	require.NoError(w.t, os.WriteFile(path, append(text, lines...), 0o600))
}

// run is Serve until stop, with what it returned.
func (w *world) run(ctx context.Context) error {
	o := daemon.ServeOptions{StateDir: w.state, Socket: w.socket, Logger: slog.New(slog.NewTextHandler(w.log, nil))}
	o.RunsBy(w.unit)
	//fsck:none init has it watched
	return daemon.Serve(ctx, o)
}

// serve starts a daemon and returns when it says that it is ready.
func (w *world) serve() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	w.stop, w.ended = stop, make(chan error, 1)
	go func() {
		err := w.run(ctx)
		w.tellEnd()
		w.ended <- err
	}()
	w.t.Cleanup(func() {
		if w.stop != nil {
			w.halt()
		}
	})
	w.said("READY=1")
}

// hasEnded follows all that a daemon told the service manager, so that a test does not wait for more.
const hasEnded = "the daemon has ended"

// tellEnd sends hasEnded. A deadline on the socket would hide what is still unread in it, or meet the wait for the next daemon.
func (w *world) tellEnd() {
	conn, err := net.DialUnix("unixgram", nil, w.notify.LocalAddr().(*net.UnixAddr))
	if err != nil {
		return // the test is over
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(hasEnded)) // as above
}

// said waits until the daemon tells the service manager something.
func (w *world) said(want string) {
	w.t.Helper()
	require.NoError(w.t, w.notify.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 512)
	for reloads := false; ; {
		n, err := w.notify.Read(buf)
		if err != nil {
			w.t.Fatalf("the daemon did not say %s: %v\n%s", want, err, w.log)
		}
		got := string(buf[:n])
		begins := strings.HasPrefix(got, "RELOADING=1\n")
		if want != got && (begins || reloads && got == "READY=1") {
			reloads = begins // the test is about something else
			continue
		}
		require.Equal(w.t, want, got, "%s", w.log)
		return
	}
}

// halt stops the daemon, which has to end without an error.
func (w *world) halt() {
	w.t.Helper()
	w.stop()
	w.stop = nil
	w.said("STOPPING=1")
	select {
	case err := <-w.ended:
		require.NoError(w.t, err)
	case <-time.After(patience):
		w.t.Fatal("the daemon does not stop")
	}
	w.forget()
}

// forget takes what is left of an ended daemon: its end, and READY=1 of a reload that ended meanwhile. The next daemon is
// not meant.
func (w *world) forget() {
	w.t.Helper()
	raw := must.Get(w.notify.SyscallConn())(w.t)
	require.NoError(w.t, w.notify.SetReadDeadline(time.Time{}))
	require.NoError(w.t, raw.Read(func(fd uintptr) bool {
		buf := make([]byte, 512)
		for {
			if _, _, err := syscall.Recvfrom(int(fd), buf, syscall.MSG_DONTWAIT); err != nil {
				return true
			}
		}
	}))
}

func ask(name, target string, kv ...any) api.Submit {
	p := gateworld.Params(kv...)
	full := "guest/" + target
	return api.Submit{Op: &name, Target: &full, Params: p, Reason: "test"}
}

// submit hands in a job and waits until it ends or waits for a signature.
func (w *world) submit(s api.Submit) api.Job {
	w.t.Helper()
	j := must.Get(w.client.Submit(w.t.Context(), s, ""))(w.t)
	return w.await(j.ID)
}

func (w *world) await(id string) api.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	j, err := w.client.AwaitJob(ctx, id, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	require.NoError(w.t, err)
	return j
}

// envelope signs the request as it is now.
func (w *world) envelope(id string) api.Envelope {
	w.t.Helper()
	b := must.Get(w.client.Payload(w.t.Context(), id))(w.t)
	sig := must.Get(sshsig.Sign(bytes.NewReader(b), w.signer, sshsig.HashSHA512, op.Operational.Namespace()))(w.t)
	return api.EnvelopeOf(b, string(sshsig.Armor(sig)))
}

func (w *world) approve(id string) error {
	_, err := w.client.Approve(w.t.Context(), id, w.envelope(id))
	return err
}

// create makes a guest and its request for destruction.
func (w *world) waiting(name string) (request string) {
	w.t.Helper()
	require.Equal(w.t, op.StateSucceeded, w.submit(ask("guest.create", name)).State)
	j := w.submit(ask("guest.destroy", name))
	require.Equal(w.t, op.StatePending, j.State)
	return *j.Request
}

func (w *world) status() api.Status {
	w.t.Helper()
	return must.Get(w.client.Status(w.t.Context()))(w.t)
}

func (w *world) health(name string) api.Health {
	w.t.Helper()
	for _, h := range w.status().Health {
		if h.Name == name {
			return h
		}
	}
	w.t.Fatalf("status says nothing of %s", name)
	return api.Health{}
}

// events calls fn with every event from the first on until it returns an error,
// which it returns.
func (w *world) events(fn func(api.Entry) error) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.client.Events(ctx, 0, true, fn)
}

// sound runs fsck, also beside a daemon.
func (w *world) sound() {
	w.t.Helper()
	require.Empty(w.t, must.Get(life.Fsck(w.t.Context(), w.state))(w.t).Problems)
}

// tree lists everything below a directory with modes, sizes and contents of
// files, so that "nothing changed" can be said.
func tree(t *testing.T, dir string) string {
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// SQLite leaves these beside a database that was only read.
		if strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "-wal") && info.Size() == 0 {
			return nil
		}
		fmt.Fprintf(&b, "%s %v", path, info.Mode())
		if info.Mode().IsRegular() && filepath.Base(path) != "lock" {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %s", op.SHA256(text))
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

// refused asserts the code of a refusal, and that it says what to do.
func refused(t *testing.T, err error, code refusal.Code, texts ...string) {
	t.Helper()
	require.ErrorIs(t, err, code)
	var r *refusal.Refusal
	require.True(t, errors.As(err, &r))
	for _, text := range texts {
		require.Contains(t, r.Detail+"\n"+r.Hint, text)
	}
}
