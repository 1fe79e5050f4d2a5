package browser_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/test/programs"
	"gated/internal/test/spareuids"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/page"
	"gated/internal/web/passkey/passkeytest"
)

// patience is how long a test waits for one thing of a gate.
const patience = time.Minute

// programs are built once, for all tests.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // the tests are over
	}
	os.Exit(code)
}

// bin is the directory of gated and opsign.
func bin(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "gb"); built.err != nil {
			return
		}
		built.err = programs.Build(built.dir+"/", "gated/cmd/gated", "gated/cmd/opsign")
	})
	require.NoError(t, built.err)
	return built.dir
}

// gate is a daemon with guests of its own, a console before it on http://localhost, and a
// browser.
type gate struct {
	t      *testing.T
	dir    string
	env    []string
	origin string
	rpID   string
	cert   *access.Certificate // nil: the console speaks plain http
	client *client.Client
	set    *gates.Set
	daemon *exec.Cmd
}

// newGate starts a gate. Its operator alice and a recovery key have key files. policy is a list of rules for
// gated.yaml.
func newGate(t *testing.T, policy string) *gate {
	t.Helper()
	return newGateAt(t, policy, "http://localhost", nil)
}

// newGateAt is newGate for a console at another host, whose certificate is given.
func newGateAt(t *testing.T, policy, host string, cert *access.Certificate) *gate {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	origin := fmt.Sprintf("%s:%d", host, l.Addr().(*net.TCPAddr).Port)
	g := newDaemon(t, "pve1", fmt.Sprintf("passkeys:\n  origins: [%s]\n  synced: allow\n%s", origin, policy))
	_, g.rpID, _ = strings.Cut(host, "://")
	g.cert, g.origin = cert, origin
	g.console(l)
	return g
}

// newDaemon starts a gate without a console. settings are sections for gated.yaml.
func newDaemon(t *testing.T, host, settings string) *gate {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "gb"))(t) // short, for the socket
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	g := &gate{t: t, dir: dir}
	g.env = append(os.Environ(), "PATH="+bin(t)+":"+os.Getenv("PATH"), "HOME="+dir, "GATED_SOCKET="+g.path("s"), "XDG_STATE_HOME="+dir,
		"XDG_CONFIG_HOME="+dir)
	for _, name := range []string{"alice", "vault"} {
		g.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name+"@example.com", "-f", g.path(name))
	}
	g.run("gated", "init", "--state", g.path("state"), "--host", host, "--operator", g.path("alice.pub"), "--recovery", g.path("vault.pub"))
	local := spareuids.Line()
	if local != "" {
		local = "local:\n" + local
	}
	g.settle(local + settings)
	g.serve()
	g.client = must.Get(client.New(client.Options{Socket: g.path("s"), Getenv: func(string) string { return "" }}))(t)
	t.Cleanup(g.client.Close)
	return g
}

// settle adds sections to gated.yaml.
func (g *gate) settle(sections string) {
	g.t.Helper()
	f := must.Get(os.OpenFile(g.path("state/gated.yaml"), os.O_APPEND|os.O_WRONLY, 0))(g.t)
	_, err := f.WriteString(sections)
	require.NoError(g.t, errors.Join(err, f.Close()))
}

func (g *gate) path(name string) string { return filepath.Join(g.dir, name) }

// run runs a program that has to succeed.
func (g *gate) run(program string, args ...string) string {
	g.t.Helper()
	out, code := g.exit(program, args...)
	require.Zero(g.t, code, "%s %v: %s", program, args, out)
	return out
}

// exit runs a program and returns what it wrote and its exit code.
func (g *gate) exit(program string, args ...string) (string, int) {
	g.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if found, err := exec.LookPath(program); err == nil && program == "ssh-keygen" {
		program = found
	} else {
		program = filepath.Join(bin(g.t), program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = g.env, g.dir
	out, err := cmd.CombinedOutput()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		require.NoError(g.t, err, "%s", out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// serve starts the daemon, and waits until it says that it is ready.
func (g *gate) serve() {
	g.t.Helper()
	at := g.path("n")
	_ = os.Remove(at) // of the last start
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"}))(g.t)
	g.t.Cleanup(func() { _ = notify.Close() })
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(bin(g.t), "gated"), "serve", "--state", g.path("state"), "--socket", g.path("s"))
	cmd.Env, cmd.Dir, cmd.Stderr = append(g.env, "NOTIFY_SOCKET="+at), g.dir, &log
	require.NoError(g.t, cmd.Start())
	g.daemon = cmd
	g.t.Cleanup(func() {
		g.halt(cmd)
		if g.t.Failed() {
			g.t.Logf("the daemon: %s", log.String())
		}
	})
	require.NoError(g.t, notify.SetReadDeadline(time.Now().Add(patience)))
	for b := make([]byte, 4096); ; {
		n, err := notify.Read(b)
		require.NoError(g.t, err)
		if strings.Contains(string(b[:n]), "READY=1") {
			break
		}
	}
	// The daemon tells each reload, too, and waits if nobody reads.
	require.NoError(g.t, notify.SetReadDeadline(time.Time{}))
	go func() { _, _ = io.Copy(io.Discard, notify) }() // it ends as notify is closed
}

// halt ends a daemon, if it has not ended.
func (g *gate) halt(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = cmd.Wait()                          // its exit code is no part of these tests
	}
}

// console serves the pages until the test ends.
func (g *gate) console(l net.Listener) {
	g.t.Helper()
	status := must.Get(g.client.Status(context.Background()))(g.t)
	known := client.KnownGate{Address: client.UnixAddress(g.path("s")), Host: status.Host, Gate: status.Gate}
	g.set = must.Get(gates.New(gates.Config{Now: time.Now, Known: []client.KnownGate{known}}))(g.t)
	wall := must.Get(access.New(access.Config{Origins: []string{g.origin}, SignIn: "/sign-in", Now: time.Now,
		Limits: access.Limits{TriesPerMinute: 1000}}))(g.t)
	pages := must.Get(page.New(page.Config{Gates: g.set, Wall: wall, Origin: g.origin, RPID: g.rpID, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler)}))(g.t)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.set.Run(ctx) })                    // it returns nil
	running.Go(func() { _ = wall.Serve(ctx, pages, g.cert, l) }) // it ends with ctx
	g.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	g.until(func(s gates.Gate) bool { return s.Err == nil })
}

// until waits until what the console knows of the gate is as wanted.
func (g *gate) until(wanted func(gates.Gate) bool) {
	g.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for changes := g.set.Changes(ctx); ; {
		all := g.set.All()
		if wanted(all[0]) {
			return
		}
		if _, more := <-changes; !more {
			require.FailNow(g.t, "it did not come", "%+v", all[0])
		}
	}
}

// address returns the address of a request's page.
func (g *gate) address(id string) string { return g.origin + "/g/" + g.set.All()[0].Name + "/r/" + id }

// doomed makes a guest, and asks for its end. It returns the request's id.
func (g *gate) doomed(name, reason string) (id string) {
	g.t.Helper()
	g.run("gated", "submit", "guest.create", name, "--wait")
	return g.asked("guest.destroy", name, "--reason", reason)
}

// asked submits what has to wait for a signature, and returns its id once the console knows
// of it.
func (g *gate) asked(args ...string) (id string) {
	g.t.Helper()
	out, code := g.exit("gated", append([]string{"submit"}, args...)...)
	require.Equal(g.t, api.ExitWaits, code, "%s", out)
	id, _, _ = strings.Cut(out, " ")
	g.known(id)
	return id
}

// known waits until the console knows of an open request.
func (g *gate) known(id string) {
	g.t.Helper()
	g.until(func(s gates.Gate) bool { _, ok := s.Request(id); return ok })
}

// enrol makes a passkey in a tab, and has the gate list it: its holder proves in the browser
// that it is there, and the recovery key signs, which no rule binds.
func (g *gate) enrol(tab *browser.Tab, principal string) {
	g.t.Helper()
	tab.Open(g.origin + "/enrol")
	tab.Type("#principal", principal)
	tab.Click("#enrol")
	tab.Wait("#made")
	out, code := g.exit("gated", "trust", "rotate", "--add", tab.Text("[data-made=line]"), "--reason", "a passkey of "+principal)
	require.Equal(g.t, api.ExitWaits, code, "%s", out)
	id, _, _ := strings.Cut(out, " ")
	g.known(id)
	g.signIn(tab, id)
	g.approve(tab)
	tab.WaitText("main", "Your passkey has proved itself")
	g.run("opsign", "approve", id, "--role", "recovery", "--key", g.path("vault"), "--yes")
	g.until(func(s gates.Gate) bool {
		return strings.Contains(s.Trust.Text, principal+" namespaces") && s.Trust.Epoch == s.Status.Epoch
	})
}

// signIn opens a request without a session, and signs in.
func (g *gate) signIn(tab *browser.Tab, id string) {
	g.t.Helper()
	tab.Open(g.address(id))
	tab.Click("#sign-in")
	tab.Wait("#decide-title")
}

// approve approves the request that is open in a tab. What cannot be undone wants a name.
func (g *gate) approve(tab *browser.Tab) {
	g.t.Helper()
	g.begin(tab)
	if typed := browser.Eval[string](tab, `document.querySelector("form[data-decide]").dataset.typed`); typed != "" {
		tab.Type("#typed", typed)
	}
	tab.Click("#approve")
}

// begin begins to fill in the form of the request that is open in a tab, if it has a field for a reason. No news
// swaps the page from then on.
func (g *gate) begin(tab *browser.Tab) {
	g.t.Helper()
	tab.Wait("#approve")
	browser.Eval[bool](tab, `document.querySelectorAll("#reason").forEach((field) => { field.value = "because"; }) ?? true`)
}

// keygenVerifies has ssh-keygen verify each signature that the gate keeps of a request, with
// the gate's own list.
func (g *gate) keygenVerifies(id string, people ...string) {
	g.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	payload := must.Get(g.client.Payload(ctx, id))(g.t)
	r := must.Get(g.client.Request(ctx, id))(g.t)
	list := string(must.Get(os.ReadFile(g.path("state/allowed_signers")))(g.t))
	var signed []string
	for _, s := range r.Signatures {
		signed = append(signed, s.Principal)
		require.NoError(g.t, passkeytest.KeygenVerifies(g.t, list, s.Principal, s.Role.Namespace(), s.Armor, payload))
	}
	require.Equal(g.t, people, signed)
}
