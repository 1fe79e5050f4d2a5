package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// actorArg is the first argument under which this test binary is an actor: a
// process that does what the test tells it over the connection by which it is
// known.
const actorArg = "__actor"

func TestMain(m *testing.M) {
	MaybeOrphan()
	if len(os.Args) == 4 && os.Args[1] == actorArg {
		os.Exit(act(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// act connects, says its label and pid, and obeys until the connection ends.
func act(socket, label string) int {
	// What an actor leaves open would keep others from seeing it end.
	conn, err := net.Dial("unix", socket)
	if label == "inherited" {
		file := os.NewFile(3, "inherited")
		_ = conn.Close()
		conn, err = net.FileConn(file)
		_ = file.Close()
	}
	if err != nil {
		return 1
	}
	fmt.Fprintln(conn, label, os.Getpid())
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		answer, err := obey(socket, conn, strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Fprintln(conn, answer)
	}
	return 0
}

func obey(socket string, conn net.Conn, words []string) (string, error) {
	switch words[0] {
	case "start":
		return "ok", startActor(socket, words[1], words[2:])
	case "hand": // the connection goes to a child, and this process ends
		file, err := conn.(*net.UnixConn).File()
		if err != nil {
			return "", err
		}
		cmd := exec.Command("/proc/self/exe", actorArg, socket, "inherited")
		cmd.ExtraFiles = []*os.File{file}
		if err := cmd.Start(); err != nil {
			return "", err
		}
		if words[1] == "exit" {
			os.Exit(0)
		}
		_ = cmd.Wait() // the child speaks from now on, until the connection ends
		os.Exit(0)
	case "subreaper":
		return "ok", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case "reaper":
		pid, err := Reaper(context.Background())
		return strconv.Itoa(pid), err
	case "parent":
		return strconv.Itoa(os.Getppid()), nil
	case "exit":
		os.Exit(0)
	}
	return "", errors.New("what?")
}

// manyGroups are in the kernel's order, and more than fit at the first try.
var manyGroups = func() (groups []uint32) {
	for g := range uint32(3 * someGroups) {
		groups = append(groups, 70_000+g)
	}
	return groups
}()

// startActor starts another actor, in some way.
func startActor(socket, label string, how []string) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	cmd := exec.Command(self, actorArg, socket, label)
	cmd.Path = "/proc/self/exe" // which other uids reach, too
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	wait := false
	for _, h := range how {
		switch h {
		case "setsid":
			cmd.SysProcAttr.Setsid = true
		case "sh": // a shell in between, which stays
			cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@"; exit $?`}, cmd.Args...)
		case "orphan": // a shell in between, which ends
			cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@" & exit 0`}, cmd.Args...)
			wait = true
		case "nobody":
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		case "groups":
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534, Groups: manyGroups}
		case "pidns":
			cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if wait {
		return cmd.Wait()
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// actor is the test's end of one.
type actor struct {
	t     testing.TB
	stage *stage
	conn  *net.UnixConn
	lines *bufio.Reader
	peer  *Peer
	pid   int // as it says itself

	reaper int // as it says to Register
}

// stage is where actors appear.
type stage struct {
	t      testing.TB
	socket string
	mu     sync.Mutex
	came   map[string]chan *actor
	reaper int // who gets the test's own orphans
}

func newStage(t testing.TB) *stage {
	dir, err := os.MkdirTemp("", "stage") // t.TempDir's parent is closed to other uids
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &stage{t: t, socket: filepath.Join(dir, "s"), came: map[string]chan *actor{}}
	s.reaper = must.Get(Reaper(t.Context()))(t)
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: s.socket, Net: "unix"}))(t)
	require.NoError(t, os.Chmod(s.socket, 0o777))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			wg.Go(func() { s.meet(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return s
}

func (s *stage) meet(conn *net.UnixConn) {
	s.t.Cleanup(func() { _ = conn.Close() })
	peer, err := Connected(conn)
	if err != nil {
		s.t.Errorf("connected: %v", err)
		return
	}
	s.t.Cleanup(peer.Close)
	a := &actor{t: s.t, stage: s, conn: conn, peer: peer, lines: bufio.NewReader(conn)}
	line, err := a.lines.ReadString('\n')
	if err != nil {
		return // it inherited another connection
	}
	label, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
	a.pid, _ = strconv.Atoi(pid)
	a.reaper = s.reaper
	s.called(label) <- a
}

func (s *stage) called(label string) chan *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.came[label] == nil {
		s.came[label] = make(chan *actor, 1)
	}
	return s.came[label]
}

// start starts an actor from the test itself.
func (s *stage) start(label string, how ...string) *actor {
	s.t.Helper()
	require.NoError(s.t, startActor(s.socket, label, how))
	return s.await(label)
}

func (s *stage) await(label string) *actor {
	s.t.Helper()
	select {
	case a := <-s.called(label):
		return a
	case <-time.After(time.Minute):
		require.Fail(s.t, "an actor did not come", label)
		return nil
	}
}

// start has an actor start another one.
func (a *actor) start(label string, how ...string) *actor {
	a.t.Helper()
	require.Equal(a.t, "ok", a.say("start "+label+" "+strings.Join(how, " ")))
	return a.stage.await(label)
}

// say has an actor do something and returns what it answers.
func (a *actor) say(words string) string {
	a.t.Helper()
	must.Get(fmt.Fprintln(a.conn, words))(a.t)
	line := must.Get(a.lines.ReadString('\n'))(a.t)
	return strings.TrimSpace(line)
}

func (a *actor) number(words string) int {
	a.t.Helper()
	return must.Get(strconv.Atoi(a.say(words)))(a.t)
}

// end has an actor end, and waits until it has.
func (a *actor) end() {
	a.t.Helper()
	must.Get(fmt.Fprintln(a.conn, "exit"))(a.t)
	must.Fail(a.lines.ReadByte())(a.t, io.EOF)
	require.NoError(a.t, a.peer.handle.Wait(a.t.Context()))
}

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRegistry(t testing.TB, ended func(Registration)) *Registry {
	t.Helper()
	r := must.Get(New(Config{Now: func() time.Time { return newYear }, Ended: ended}))(t)
	require.Empty(t, r.Blind())
	t.Cleanup(r.Close)
	return r
}

// granted gives every registration the number of its name's length; dropped
// lets each go.
func granted(_ context.Context, r Registration) (int64, error) { return int64(len(r.Name)), nil }

func dropped(context.Context, Registration) error { return nil }

// measure has a say from now on what it measured itself.
func (a *actor) measure() *actor {
	a.t.Helper()
	a.reaper = a.number("reaper")
	return a
}

// register has a register the process pid under name.
func (a *actor) register(r *Registry, name string, pid int) error {
	a.t.Helper()
	_, err := r.Register(a.t.Context(), a.peer, Wish{Name: name, PID: pid, Reaper: a.reaper}, granted)
	return err
}

// is requires that a is known by name, by none if it is empty.
func (a *actor) is(r *Registry, name string, why ...any) {
	a.t.Helper()
	got, ok := r.Who(a.peer, 0)
	require.Equal(a.t, name, got.Name, why...)
	require.Equal(a.t, name != "", ok, why...)
}
