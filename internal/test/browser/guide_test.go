package browser_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// consoleUID is the user gated-console of the test. It is in no range of guests' uids.
const consoleUID = 64336

// reader follows the guide to the console with a gate, a browser and a terminal of their own.
type reader struct {
	*gate
	guide   *printed
	console *service
	cert    *x509.Certificate
	origin  string
	device  *browser.Authenticator
}

// The guide "Approve from a phone" is followed as printed, from the settings of the gate to the
// last line of its table, with real processes: the gate, the console as its unit starts it, opsign
// in a terminal, and chromium with an authenticator.
func TestTheGuideToThePhone(t *testing.T) {
	t.Parallel()
	needsScanner(t)
	r := newReader(t)
	r.gateAccepts()
	at := r.consoleRuns()
	tab := browser.StartAt(t, at, r.cert).Tab(t)
	r.device = tab.Authenticator(browser.Phone)
	r.madeAndListed(tab)
	r.approves(tab)
	r.looksElsewhere(tab)
	r.goesWrong(tab)
	r.behindAProxy()
	r.onTheOwnMachine(tab)
	r.guide.finished()
}

// newReader starts the gate, and says what is another text here than in the guide and in the unit.
func newReader(t *testing.T) *reader {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to have a user for the console")
	}
	members := must.Get(user.LookupGroup("nogroup"))(t)
	g := newDaemon(t, "vm1", "socket_group: nogroup\n")
	gid := uint32(must.Get(strconv.ParseUint(members.Gid, 10, 32))(t))
	for _, dir := range []string{g.dir, bin(t)} {
		require.NoError(t, os.Chmod(dir, 0o711)) // the console's user has to reach the socket and the programs
	}
	for _, dir := range []string{"etc", "run", "home", ".ssh", "fake"} {
		require.NoError(t, os.Mkdir(g.path(dir), 0o755))
	}
	for _, dir := range []string{"run", "home"} {
		require.NoError(t, os.Chown(g.path(dir), consoleUID, consoleUID))
	}
	require.NoError(t, os.Chmod(g.path(".ssh"), 0o700))
	require.NoError(t, os.Rename(g.path("alice"), g.path(".ssh/id_ed25519")))
	require.NoError(t, os.Rename(g.path("alice.pub"), g.path(".ssh/id_ed25519.pub")))
	uid := strconv.Itoa(consoleUID)
	r := &reader{gate: g, cert: certificate(t, g.dir)}
	r.guide = readPage(t, "docs/guides/phone.md",
		elsewhere{"/etc/gated/", g.path("etc") + "/"},
		elsewhere{"-g gated-console", "-g " + uid},
		elsewhere{"systemctl enable --now gated-console", ":"}, // the test does it
		elsewhere{"systemctl restart gated-console", ":"},
		elsewhere{"--listen :443", "--listen 127.0.0.1:0"}, // chromium is told that it is :443
		elsewhere{"/run/gated-console/", g.path("run") + "/"},
		elsewhere{"runuser -u gated-console --", "setpriv --reuid=" + uid + " --regid=" + uid + " --groups=" + members.Gid + " --"},
		elsewhere{"HOME=/var/lib/gated-console", "HOME=" + g.path("home")},
		elsewhere{"opsign web\n", "opsign web --port 0\n"},
	)
	unit := readPage(t, "contrib/systemd/gated-console.service",
		elsewhere{"/usr/local/bin/gated", filepath.Join(bin(t), "gated")},
		elsewhere{"/etc/gated/", g.path("etc") + "/"},
		elsewhere{"HOME=/var/lib/gated-console", "HOME=" + g.path("home")},
	)
	r.console = &service{t: t, unit: unit, dir: g.dir, uid: consoleUID, gids: []uint32{consoleUID, gid}, path: g.path("fake") + ":" + bin(t) + ":" + os.Getenv("PATH")}
	return r
}

// sh runs printed lines in a shell, and returns what they print. The last one has to end so.
func (r *reader) sh(code int, lines string, env ...string) string {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "set -e\n"+lines)
	cmd.Dir, cmd.Env = r.dir, append(r.env, env...)
	out, _ := cmd.CombinedOutput() // the code is compared
	require.Equal(r.t, code, cmd.ProcessState.ExitCode(), "%s\n%s", lines, out)
	return string(out)
}

// gateAccepts is step 1.
func (r *reader) gateAccepts() {
	r.settle(r.guide.block("passkeys:\n"))
	r.sh(0, r.guide.inline("gated reload"))
}

// consoleRuns is step 2. It returns where the console listens. It has two gates, of which one is
// reached by ssh: a program that runs a command as sshd does.
func (r *reader) consoleRuns() (at string) {
	r.sh(0, r.guide.block("install "))
	info := must.Get(os.Stat(r.path("etc/console.key")))(r.t)
	require.Equal(r.t, os.FileMode(0o640), info.Mode().Perm())
	r.console.start()
	r.console.stop()

	far := newDaemon(r.t, "pve1", "socket_group: nogroup\n")
	require.NoError(r.t, os.Chmod(far.dir, 0o711))
	require.NoError(r.t, os.WriteFile(r.path("fake/ssh"), []byte(`#!/bin/sh
while test "$1" != --; do shift; done
test "$2" = pve1 || exit 255
shift 2
exec env -i "PATH=$PATH" "GATED_SOCKET=`+far.path("s")+`" /bin/sh -c "$*"
`), 0o755))
	// As runuser has it: nothing of this shell's own gate, but where the gate of this host is.
	r.sh(0, r.guide.block("runuser "), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "PATH="+r.console.path)
	at = r.console.start()
	require.Contains(r.t, r.console.log.String(), "gates=2")
	line, _, _ := strings.Cut(string(must.Get(os.ReadFile(r.path("etc/console.env")))(r.t)), "\n")
	r.origin = strings.TrimPrefix(line, "ORIGIN=")
	return at
}

// signsIn opens a link without a session and signs in, until the console has heard of what lists
// the passkey.
func (r *reader) signsIn(tab *browser.Tab, link string) {
	r.t.Helper()
	const there, refused = "#decide-title", "form [role=status][data-kind=refused]"
	for end := time.Now().Add(patience); ; {
		tab.Open(link)
		tab.Click("#sign-in")
		tab.Wait(there + ", " + refused)
		if browser.Eval[bool](tab, `document.querySelector("`+there+`") !== null`) {
			return
		}
		require.True(r.t, time.Now().Before(end), tab.Text(refused))
	}
}

// madeAndListed is steps 3 and 4.
func (r *reader) madeAndListed(tab *browser.Tab) {
	tab.Open(r.guide.inline(r.origin + "/enrol"))
	tab.Type("#principal", r.guide.inline("alice@example.com"))
	require.Contains(r.t, r.guide.text, "press *"+tab.Text("#enrol")+"*")
	tab.Click("#enrol")
	tab.Wait("#made")
	command, line, fingerprint := tab.Text("[data-made=command]"), tab.Text("[data-made=line]"), tab.Text("[data-made=fingerprint]")
	_, key, _ := strings.Cut(line, "sk-ecdsa-sha2-nistp256@openssh.com ")
	want := strings.ReplaceAll(r.guide.block("gated trust rotate "), " \\\n    ", " ")
	require.Equal(r.t, strings.TrimSpace(strings.Replace(want, "AAAA...", key, 1)), command)
	tab.Click(`#made a[href="/sign-in"]`)
	tab.Click("#sign-in")
	r.guide.reads(r.saidNo(tab))

	out := r.sh(api.ExitWaits, command)
	approve := r.guide.inline("opsign approve ")
	id := strings.TrimPrefix(approve, "opsign approve ")
	require.True(r.t, strings.HasPrefix(out, id+" "), out)
	require.Contains(r.t, out, "its holder: on a page of console.example.com")
	r.signsIn(tab, r.link(id))
	r.gate.approve(tab)
	tab.WaitText("main", "Your passkey has proved itself")
	s := r.types(approve)
	require.Contains(r.t, s.agrees(), fingerprint)
	s.ends()
	require.Contains(r.t, must.Get(r.client.Trust(context.Background()))(r.t).Text, line)
	tab.Open(r.origin + "/")
	tab.WaitText("main", "Nothing waits")
}

// saidNo returns why the page did not do what was asked.
func (r *reader) saidNo(tab *browser.Tab) string {
	r.t.Helper()
	tab.Wait("form [role=status][data-kind=refused]")
	return tab.Text("form [role=status]")
}

// link is the address of a request as messages have it: by the gate's id.
func (r *reader) link(id string) string {
	r.t.Helper()
	return r.origin + "/g/" + string(must.Get(r.client.Status(context.Background()))(r.t).Gate) + "/r/" + id
}

// asks has a submitter ask for what has to wait, and returns its id.
func (r *reader) asks(args ...string) (id string) {
	r.t.Helper()
	out, code := r.exit("gated", append([]string{"submit"}, args...)...)
	require.Equal(r.t, api.ExitWaits, code, out)
	id, _, _ = strings.Cut(out, " ")
	return id
}

// doom makes a guest and asks for its end.
func (r *reader) doom(name string, labels ...string) (id string) {
	r.t.Helper()
	r.run("gated", append([]string{"submit", "guest.create", name, "--wait"}, labels...)...)
	return r.asks("guest.destroy", name, "--reason", "no longer needed")
}

// done waits until a step has run, and has ssh-keygen verify alice's signature.
func (r *reader) done(id string) {
	r.t.Helper()
	r.run("gated", "wait", strings.TrimSuffix(id, ".1"))
	r.keygenVerifies(id, "alice@example.com")
}

// approves is step 5, once by each way to a request.
func (r *reader) approves(tab *browser.Tab) {
	id := r.doom("web-1")
	tab.Open(r.origin + "/")
	tab.Click(`main a[href$="/r/` + id + `"]`)
	tab.WaitText("main", "What would be lost")
	r.gate.approve(tab)
	r.done(id)
	tab.WaitText("main", "The request is succeeded")

	id = r.doom("web-2")
	tab.Open(r.messages(id))
	r.gate.approve(tab)
	r.done(id)

	id = r.doom("web-3")
	tab.Open(r.link(id))
	address := scanned(r.t, tab)
	require.Equal(r.t, tab.URL(), address)
	tab.Open(r.origin + "/")
	tab.Open(address)
	r.gate.approve(tab)
	r.done(id)
}

// messages returns the link in the message about a request.
func (r *reader) messages(id string) string {
	r.t.Helper()
	pipe := r.path("messages")
	require.NoError(r.t, syscall.Mkfifo(pipe, 0o600))
	f := must.Get(os.OpenFile(pipe, os.O_RDWR, 0))(r.t)
	defer func() { require.NoError(r.t, f.Close()) }()
	require.NoError(r.t, os.WriteFile(r.path("notify.yaml"), fmt.Appendf(nil,
		"%s\nsinks:\n  me: {exec: {argv: [/bin/sh, -c, 'cat >%s']}, roles: [operational], alarms: true}\n", r.guide.inline("console: "), pipe), 0o600))
	s := r.types(r.guide.inline("gated notify") + " run --config " + r.path("notify.yaml"))
	defer func() { require.NoError(r.t, s.cmd.Process.Signal(syscall.SIGTERM)) }()
	require.NoError(r.t, f.SetReadDeadline(time.Now().Add(patience)))
	for lines := bufio.NewScanner(f); ; {
		require.True(r.t, lines.Scan(), "no message: %v", lines.Err())
		var m struct {
			Request *struct{ ID, Link string } `json:"request"`
		}
		require.NoError(r.t, json.Unmarshal(lines.Bytes(), &m, json.MatchCaseInsensitiveNames(true)))
		if m.Request != nil && m.Request.ID == id {
			return m.Request.Link
		}
	}
}
