package matrix_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/asunit"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"
)

// escapeArg makes this program a guest's that attacks the daemon which started it.
const escapeArg = "attack-the-gate"

// attackGate tries what a guest's program could do to its gate, and leaves in its
// data what came of each. Its arguments are the state directory, the socket and
// another guest's data.
func attackGate(args []string) int {
	state, socket, other := args[0], args[1], args[2]
	daemon := os.Getppid() // which started it
	text := &strings.Builder{}
	for _, try := range []struct {
		what string
		err  error
	}{
		{"chmod state", unix.Chmod(state, 0o777)},
		{"chmod gated.db", unix.Chmod(state+"/gated.db", 0o666)},
		{"chmod gate.key", unix.Chmod(state+"/gate.key", 0o666)},
		{"chmod another guest", unix.Chmod(other, 0o777)},
		{"truncate gate.key", unix.Truncate(state+"/gate.key", 0)},
		{"read gate.key", readable(state + "/gate.key")},
		{"write allowed_signers", os.WriteFile(state+"/allowed_signers", []byte("mine"), 0o600)},
		{"put desired state", callGate(socket, "PUT", "/v1/desired/web", "host: pve1\n")},
		{"take a backup", callGate(socket, "GET", "/v1/backup", "")},
		{"limit", unix.Prlimit(daemon, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)},
		{"trace", unix.PtraceSeize(daemon)},
		{"stop", unix.Kill(daemon, unix.SIGSTOP)},
		{"end", unix.Kill(daemon, unix.SIGKILL)},
	} {
		fmt.Fprintf(text, "%s: %v\n", try.what, try.err)
	}
	if os.WriteFile("tried.new", []byte(text.String()), 0o600) != nil || os.Rename("tried.new", "tried") != nil {
		return 1
	}
	select {}
}

// callGate succeeds if the gate does what it is asked to.
func callGate(socket, method, path, body string) error {
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	req, err := http.NewRequest(method, "http://gated"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}

// readable succeeds if a file can be read.
func readable(path string) error { return failure(os.ReadFile(path)) }

// TestAGuestUnderTheRecommendedUnit: a daemon that runs as contrib/systemd runs it,
// with the drop-in for guests, and a guest that attacks it under the guest's own uid.
func TestAGuestUnderTheRecommendedUnit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestAGuestUnderTheRecommendedUnit needs root")
	}
	u := newUnit(t)
	u.start()
	limits := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/limits", u.pid)))(t))
	require.Equal(t, op.StateSucceeded, u.submit("guest.create", "other", op.Params{}))
	require.Equal(t, op.StateSucceeded, u.submit("guest.create", "web", op.Params{"command": "attack", "state": "running"}))
	tried := filepath.Join(u.state, "guests", "web", "data", "tried")
	require.Eventually(t, func() bool { return exists(tried) }, time.Minute, 10*time.Millisecond, u.said)
	lines := strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(tried))(t))), "\n")
	require.Len(t, lines, 13)
	for _, line := range lines {
		require.NotContains(t, line, "<nil>")
	}
	for path, mode := range map[string]os.FileMode{"": 0o700, "gated.db": 0o600, "gate.key": 0o600, "guests": 0o700} {
		require.Equal(t, mode, must.Get(os.Stat(filepath.Join(u.state, path)))(t).Mode().Perm(), path)
	}
	require.Equal(t, limits, string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/limits", u.pid)))(t)))

	// The gate goes on, and says what held.
	s := must.Get(u.client.Status(t.Context()))(t)
	require.Equal(t, u.uid, s.UID)
	for _, l := range s.Layers {
		require.True(t, l.Stands, "%+v", l)
	}
	require.Equal(t, op.StateSucceeded, u.submit("guest.stop", "web", op.Params{}))

	// The daemon's own uid is no operator of its.
	require.ErrorContains(t, u.asDaemon("PUT", "/v1/desired/web", "host: pve1\n"), "403")
	require.ErrorContains(t, u.asDaemon("GET", "/v1/backup", ""), "403")
	require.NoError(t, u.asDaemon("GET", "/v1/status", ""))

	u.stop()
	require.NoError(t, u.run(orders{What: "fsck", Dir: u.state}, u.log).Wait(), u.said())
}

// unit is a gate under the unit's settings.
type unit struct {
	t          *testing.T
	dir, state string
	socket     string
	program    string
	uid        uint32
	pid        int
	settings   map[string]string
	log        *os.File
	client     *client.Client
	stop       func()
}

func newUnit(t *testing.T) *unit {
	settings := must.Get(asunit.Settings())(t)
	dir := must.Get(os.MkdirTemp("/tmp", "gu"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	u := &unit{t: t, dir: dir, state: dir + "/state", socket: dir + "/run/s", program: dir + "/gated", settings: settings,
		log: must.Get(os.Create(dir + "/log"))(t)}
	u.uid, _ = spareuids.Next(t.Cleanup)
	for path, mode := range map[string]os.FileMode{u.state: octal(t, settings["StateDirectoryMode"]), dir + "/run": 0o755} {
		require.NoError(t, os.Mkdir(path, mode))
		require.NoError(t, os.Chmod(path, mode))
		require.NoError(t, os.Chown(path, int(u.uid), int(u.uid)))
	}
	require.NoError(t, os.WriteFile(u.program, must.Get(os.ReadFile("/proc/self/exe"))(t), 0o755))
	require.NoError(t, os.Chmod(u.program, 0o755))
	require.NoError(t, os.WriteFile(dir+"/alice.pub", []byte(keyOf(t, "alice").pub+" alice@example.com\n"), 0o644))
	u.client = must.Get(client.New(client.Options{Socket: u.socket, Getenv: func(name string) string {
		if name == "GATED_UID" {
			return strconv.FormatUint(uint64(u.uid), 10)
		}
		return ""
	}}))(t)
	t.Cleanup(u.client.Close)
	return u
}

func octal(t *testing.T, text string) os.FileMode {
	n := must.Get(strconv.ParseUint(text, 8, 32))(t)
	return os.FileMode(n)
}

// said is what the daemon and what else it ran has printed.
func (u *unit) said() string { return string(must.Get(os.ReadFile(u.log.Name()))(u.t)) }

// run starts this program with orders as the unit would.
func (u *unit) run(o orders, out *os.File) *exec.Cmd {
	u.t.Helper()
	text := must.Get(json.Marshal(o))(u.t)
	cmd := asunit.Command(u.t.Context(), u.settings, u.uid, u.settings["AmbientCapabilities"], u.program)
	cmd.Dir, cmd.Stderr, cmd.Stdout = "/", out, out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", helperEnv + "=" + string(text)}
	require.NoError(u.t, cmd.Start())
	return cmd
}

// start makes the gate, with a guest's program that attacks it, and starts its daemon.
func (u *unit) start() {
	t := u.t
	require.NoError(t, u.run(orders{What: "init", Dir: u.state, Call: []string{u.dir + "/alice.pub"}}, u.log).Wait(), u.said())
	conf := u.state + "/gated.yaml"
	text := strings.Replace(string(must.Get(os.ReadFile(conf))(u.t)), "single_user: true", "single_user: false", 1)
	first, last := spareuids.Next(t.Cleanup)
	text += fmt.Sprintf("local:\n  guest_uids: %d-%d\n  commands:\n    attack: {argv: [%s, %s, %s, %s, %s]}\n", first, last,
		u.program, escapeArg, u.state, u.socket, u.state+"/guests/other/data")
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	serving := u.run(orders{What: "daemon", Dir: u.state, Call: []string{u.socket}}, u.log)
	u.pid = serving.Process.Pid // sh and setpriv execute what they start
	u.stop = sync.OnceFunc(func() {
		_ = serving.Process.Kill()
		_ = serving.Wait() // that it was killed
	})
	t.Cleanup(u.stop)
	require.Eventually(t, func() bool {
		_, err := u.client.Status(t.Context())
		return err == nil
	}, time.Minute, 10*time.Millisecond, u.said)
}

func (u *unit) submit(name, target string, p op.Params) op.State {
	u.t.Helper()
	full := "guest/" + target
	j, err := u.client.Submit(u.t.Context(), api.Submit{Op: &name, Target: &full, Params: p, Reason: "test"}, "")
	require.NoError(u.t, err)
	j, err = u.client.AwaitJob(u.t.Context(), j.ID, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	require.NoError(u.t, err)
	return j.State
}

// asDaemon makes a call as the daemon's own uid.
func (u *unit) asDaemon(method, path, body string) error {
	out := must.Get(os.CreateTemp(u.dir, "call"))(u.t)
	defer out.Close()
	if u.run(orders{What: "ask", Dir: u.socket, Call: []string{method, path, body}}, out).Wait() != nil {
		return fmt.Errorf("%s", must.Get(os.ReadFile(out.Name()))(u.t))
	}
	return nil
}
