package matrix_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/test/must"
)

// stage is a whole daemon on a world's state, and actors: processes that call
// it.
type stage struct {
	*world
	dir     string // for sockets, which others reach
	repo    string
	control string

	mu   sync.Mutex
	came map[string]chan *actor

	stop  context.CancelFunc
	ended chan error
}

// onStage is a row in which processes call a whole daemon: scene prepares, and
// what it returns attacks.
func onStage(id, what string, want refusal.Code, scene func(s *stage) (attack func() error)) attack {
	return attack{id: id, what: what, want: want, bare: true, run: func(w *world) error {
		w.setClock(time.Since(w.now())) // the daemon's own
		w.restart()
		w.makeGuest("victim")
		w.settle()
		s := newStage(w)
		w.shut()
		s.serve()
		attack := scene(s)
		s.halt()
		w.arm()
		w.shut()
		s.serve() // actors and what they hold are still there
		err := attack()
		s.halt()
		return err
	}}
}

func newStage(w *world) *stage {
	w.t.Helper()
	dir := must.Get(os.MkdirTemp("", "gs"))(w.t)
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(w.t, os.Chmod(dir, 0o755))
	s := &stage{world: w, dir: dir, control: filepath.Join(dir, "c"), came: map[string]chan *actor{}}
	s.repo = filepath.Join(must.Get(filepath.EvalSymlinks(dir))(w.t), "repo")
	require.NoError(w.t, os.Mkdir(s.repo, 0o700))
	require.NoError(w.t, os.Chmod(s.repo, 0o777)) // whoever comes may write there
	l := must.Get(net.Listen("unix", s.control))(w.t)
	require.NoError(w.t, os.Chmod(s.control, 0o777))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.meet(conn) })
		}
	})
	w.cleanup(func() { _ = l.Close(); wg.Wait() })
	return s
}

// alone waits until the daemon knows that every agent has ended.
func (s *stage) alone() {
	s.t.Helper()
	c := must.Get(client.New(client.Options{Socket: s.socket(), Getenv: func(string) string { return "" }}))(s.t)
	defer c.Close()
	require.Eventually(s.t, func() bool { return len(must.Get(c.Agents(s.ctx))(s.t)) == 0 }, time.Minute, time.Millisecond)
}

func (s *stage) socket() string { return filepath.Join(s.dir, "s") }

// serve starts the daemon and waits until it answers.
func (s *stage) serve() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s.stop, s.ended = stop, ended
	go func() {
		//fsck:none each row ends with fsck
		ended <- daemon.Serve(ctx, daemon.ServeOptions{StateDir: s.world.dir, Socket: s.socket(), Logger: slog.New(slog.DiscardHandler)})
	}()
	s.cleanup(stop)
	require.Eventually(s.t, func() bool {
		conn, err := net.Dial("unix", s.socket())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	if os.Getuid() == 0 { // so that other uids reach it, as with socket_group
		require.NoError(s.t, os.Chown(s.socket(), -1, callers))
		require.NoError(s.t, os.Chmod(s.socket(), 0o660))
	}
}

// halt stops the daemon and opens what it leaves.
func (s *stage) halt() {
	s.t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		require.NoError(s.t, err)
	case <-time.After(time.Minute):
		s.t.Fatal("the daemon does not stop")
	}
	s.setClock(time.Since(s.now()))
	s.open()
}

// actor is the test's end of one.
type actor struct {
	*stage
	conn  net.Conn
	lines *bufio.Reader
	pid   int // as it says itself
}

func (s *stage) meet(conn net.Conn) {
	s.cleanup(func() { _ = conn.Close() }) // it ends with that
	a := &actor{stage: s, conn: conn, lines: bufio.NewReader(conn)}
	line, err := a.lines.ReadString('\n')
	if err != nil {
		return
	}
	label, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
	a.pid, _ = strconv.Atoi(pid)
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

// actor starts one from the test itself.
func (s *stage) actor(label string, how ...string) *actor {
	s.t.Helper()
	cmd := must.Get(actorCommand(s.control, s.socket(), label, how))(s.t)
	require.NoError(s.t, cmd.Start())
	s.cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return s.await(label)
}

// starts has an actor start another one.
func (a *actor) starts(label string, how ...string) *actor {
	a.t.Helper()
	a.does("start %s %s", label, strings.Join(how, " "))
	return a.await(label)
}

// tries has an actor do something and returns why it was refused.
func (a *actor) tries(format string, args ...any) error {
	a.t.Helper()
	return failure(a.say(fmt.Sprintf(format, args...)))
}

// does has an actor do something that works.
func (a *actor) does(format string, args ...any) string {
	a.t.Helper()
	return must.Get(a.say(fmt.Sprintf(format, args...)))(a.t)
}

func (a *actor) say(words string) (string, error) {
	a.t.Helper()
	must.Get(fmt.Fprintln(a.conn, words))(a.t)
	line := must.Get(a.lines.ReadString('\n'))(a.t)
	code, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if code == "ok" {
		return text, nil
	}
	return "", refusal.New(refusal.Code(code), "%s", text)
}

// ends has an actor end, and waits until its process is gone.
func (a *actor) ends() {
	a.t.Helper()
	fd := must.Get(unix.PidfdOpen(a.pid, 0))(a.t)
	defer unix.Close(fd)
	must.Get(fmt.Fprintln(a.conn, "exit"))(a.t)
	_, err := a.lines.ReadByte()
	require.Error(a.t, err)
	// Its first thread may be gone while others are not: the pidfd tells of the last.
	for n := 0; n == 0; {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			require.NoError(a.t, err)
			require.Positive(a.t, n, "it does not end")
		} else {
			n = 0
		}
	}
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}
