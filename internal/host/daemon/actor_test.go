package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// The first arguments under which this test binary is an actor, a process that
// calls the daemon as the test tells it line by line, or one that does one thing
// and ends.
const (
	actorArg = "__actor"
	onceArg  = "__once"
)

// player is what an actor knows.
type player struct {
	socket string
	token  string // the file that it is in
	client *client.Client
}

func newPlayer(socket string) *player {
	p := &player{socket: socket}
	p.connect()
	return p
}

func (p *player) connect() {
	c, err := client.New(client.Options{Socket: p.socket, ReadToken: agent.ReadTokenFile, Getenv: func(name string) string {
		if name == "GATED_AGENT_TOKEN_FILE" {
			return p.token
		}
		return ""
	}})
	if err != nil {
		panic(err)
	}
	p.client = c
}

// act obeys lines of in, each with one line of out.
func act(socket string, in io.Reader, out io.Writer) {
	p := newPlayer(socket)
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, p.answer(strings.Fields(lines.Text())))
	}
}

func (p *player) answer(words []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	says, err := p.obey(ctx, words)
	if err == nil {
		return "ok " + strings.ReplaceAll(says, "\n", " ")
	}
	var taken *client.Conflicted
	if errors.As(err, &taken) {
		says = holders(taken.Conflicts)
	}
	return fmt.Sprintf("error %s %s %s", refusal.CodeOf(err), says, strings.ReplaceAll(err.Error(), "\n", " "))
}

func holders(list []api.Conflict) string {
	var who []string
	for _, c := range list {
		who = append(who, c.Reservation.Agent)
	}
	return strings.Join(who, ",")
}

func (p *player) obey(ctx context.Context, words []string) (string, error) {
	rest := words[1:]
	switch words[0] {
	case "register":
		reaper, err := agent.Reaper(ctx)
		if err != nil {
			return "", err
		}
		a, err := p.client.RegisterAgent(ctx, api.RegisterAgent{Name: rest[0], PID: os.Getpid(), Reaper: reaper})
		return a.ID, err
	case "token": // NAME FILE
		a, err := p.client.RegisterAgent(ctx, api.RegisterAgent{Name: rest[0], Token: true})
		if err == nil {
			err = agent.WriteTokenFile(rest[1], a.Token)
		}
		return a.ID, err
	case "use":
		p.token = strings.Join(rest, " ") // none for nothing
		p.connect()
		return "", nil
	case "unregister":
		a, err := p.client.Unregister(ctx, rest[0])
		return a.ID, err
	case "self":
		me, err := p.client.Self(ctx)
		if err != nil || me.Agent == nil {
			return "- " + me.Why, err
		}
		return me.Agent.ID, nil
	case "once": // a child of this process does the rest
		cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{onceArg, p.socket}, rest...)...)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	case "scratch", "destroy":
		return p.guest(ctx, words[0], rest[0])
	}
	return p.reserved(ctx, words)
}

// reserved does what is done with reservations.
func (p *player) reserved(ctx context.Context, words []string) (string, error) {
	rest := words[1:]
	var r api.Reservation
	var err error
	switch words[0] {
	case "reserve", "keep", "wait": // DIR PATTERN…
		in := api.Reserve{Scope: placeOf(rest[0]), Patterns: rest[1:], Keep: words[0] == "keep", Reason: "to work there"}
		if words[0] == "wait" {
			in.WaitSeconds = 30
		}
		r, err = p.client.Reserve(ctx, in)
	case "imagine": // a directory that is not there
		r, err = p.client.Reserve(ctx, api.Reserve{Scope: api.Place{Path: rest[0], Device: 1, Inode: 2}, Patterns: rest[1:]})
	case "lie": // about which directory it is
		at := placeOf(rest[0])
		at.Inode++
		r, err = p.client.Reserve(ctx, api.Reserve{Scope: at, Patterns: rest[1:]})
	case "scope":
		s, err := p.client.RegisterScope(ctx, placeOf(rest[0]))
		return s.ID, err
	case "renew":
		r, err = p.client.Renew(ctx, rest[0], time.Hour)
	case "release":
		r, err = p.client.Release(ctx, rest[0])
	case "transfer":
		r, err = p.client.Transfer(ctx, rest[0], rest[1])
	case "check":
		found, err := p.client.Check(ctx, api.Check{Scope: placeOf(rest[0]), Patterns: rest[1:]})
		return holders(found.Conflicts), err
	default:
		return "", refusal.New(refusal.Malformed, "what is %q?", words[0])
	}
	return r.ID, err
}

// guest makes a scratch guest, or asks for the end of one.
func (p *player) guest(ctx context.Context, what, name string) (string, error) {
	s := ask("guest."+what, name)
	if what == "scratch" {
		s = ask("guest.create", name, "scratch", true)
	}
	j, err := p.client.Submit(ctx, s, "")
	if err != nil {
		return "", err
	}
	j, err = p.client.AwaitJob(ctx, j.ID, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	return j.ID + " " + string(j.State), err
}

// placeOf is a directory as its caller sees it.
func placeOf(dir string) api.Place {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		panic(err)
	}
	return api.Place{Path: dir, Device: uint64(st.Dev), Inode: st.Ino}
}

// actor is the test's end of one.
type actor struct {
	w    *world
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	gone bool
}

// actor starts one; as, if not nil, is whom it runs as.
func (w *world) actor(as *syscall.Credential) *actor {
	w.t.Helper()
	self := must.Get(os.Executable())(w.t)
	cmd := exec.Command(self, actorArg, w.socket)
	cmd.Path = "/proc/self/exe" // which other uids reach, too
	cmd.Stderr = w.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	in := must.Get(cmd.StdinPipe())(w.t)
	out := must.Get(cmd.StdoutPipe())(w.t)
	require.NoError(w.t, cmd.Start())
	a := &actor{w: w, cmd: cmd, in: in, out: bufio.NewReader(out)}
	w.t.Cleanup(a.kill)
	require.Equal(w.t, "ready", a.line())
	return a
}

func (a *actor) line() string {
	a.w.t.Helper()
	line := must.Get(a.out.ReadString('\n'))(a.w.t, a.w.log)
	return strings.TrimSpace(line)
}

// begin has an actor do something; line then says what came of it.
func (a *actor) begin(format string, args ...any) {
	a.w.t.Helper()
	must.Get(fmt.Fprintf(a.in, format+"\n", args...))(a.w.t)
}

// does returns what came of what an actor was told, which must work.
func (a *actor) does(format string, args ...any) string {
	a.w.t.Helper()
	a.begin(format, args...)
	says, ok := strings.CutPrefix(a.line(), "ok")
	require.True(a.w.t, ok, "%s\n%s", says, a.w.log)
	return strings.TrimSpace(says)
}

// cannot requires that what an actor is told is refused.
func (a *actor) cannot(code refusal.Code, format string, args ...any) string {
	a.w.t.Helper()
	a.begin(format, args...)
	line := a.line()
	require.True(a.w.t, strings.HasPrefix(line, "error "+string(code)+" "), "%s: %s", fmt.Sprintf(format, args...), line)
	return line
}

// soonCannot waits until what an actor is told is refused with that code. Until then it is unavailable.
func (a *actor) soonCannot(code refusal.Code, format string, args ...any) {
	a.w.t.Helper()
	var line string
	require.Eventually(a.w.t, func() bool {
		a.begin(format, args...)
		line = a.line()
		return !strings.HasPrefix(line, "error "+string(refusal.Unavailable)+" ")
	}, patience, 10*time.Millisecond, fmt.Sprintf(format, args...))
	require.True(a.w.t, strings.HasPrefix(line, "error "+string(code)+" "), "%s: %s", fmt.Sprintf(format, args...), line)
}

// kill ends an actor and returns when it has ended.
func (a *actor) kill() {
	if a.gone {
		return
	}
	a.gone = true
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// serving is a daemon that serves, and a directory in which agents reserve.
func serving(t *testing.T) (w *world, dir string) {
	t.Helper()
	w = newWorld(t)
	w.init()
	w.serve()
	return w, w.checkout("repo")
}

// checkout is a directory to reserve paths in.
func (w *world) checkout(name string) string {
	w.t.Helper()
	dir := must.Get(filepath.EvalSymlinks(w.dir))(w.t)
	dir = filepath.Join(dir, name)
	require.NoError(w.t, os.MkdirAll(dir, 0o755))
	return dir
}

// awaitEvent returns the first event of that kind that concerns somebody.
func (w *world) awaitEvent(concerns, kind string) api.Entry {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	found := errors.New("found")
	var e api.Entry
	require.ErrorIs(w.t, w.client.EventsFor(ctx, concerns, 0, true, func(one api.Entry) error {
		if e = one; e.Kind == kind {
			return found
		}
		return nil
	}), found, kind)
	return e
}

// reservations is all that are in force, each as "r1 builder".
func (w *world) reservations() []string {
	w.t.Helper()
	all := must.Get(w.client.AllReservations(w.t.Context(), client.ReservationQuery{}))(w.t)
	out := []string{}
	for _, r := range all {
		out = append(out, r.ID+" "+r.Agent)
	}
	return out
}

// agents is who is registered.
func (w *world) agents() []string {
	w.t.Helper()
	all := must.Get(w.client.Agents(w.t.Context()))(w.t)
	out := []string{}
	for _, a := range all {
		out = append(out, a.ID)
	}
	return out
}
