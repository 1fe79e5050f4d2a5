package client

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/hostgate"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// env is an environment for Options.Getenv.
type env map[string]string

func (e env) get(name string) string { return e[name] }

func open(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = env{}.get
	}
	c := must.Get(New(o))(t)
	t.Cleanup(c.Close)
	return c
}

// listen makes a socket on which nothing answers.
func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	t.Cleanup(func() { _ = l.Close() }) // it may be closed already
	return l
}

// answer serves h at path.
func answer(t *testing.T, path string, h http.HandlerFunc) *http.Server {
	t.Helper()
	l := listen(t, path)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return s
}

// says answers every call with a status that names its host.
func says(host string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"host":"`+host+`"}`) }
}

func unreachable(t *testing.T, err error) *Unreachable {
	t.Helper()
	var gone *Unreachable
	require.ErrorAs(t, err, &gone)
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	return gone
}

func tried(gone *Unreachable) []string {
	var out []string
	for _, a := range gone.Tried {
		out = append(out, a.Path)
	}
	return out
}

func TestSearchOrder(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Getenv: env{"XDG_RUNTIME_DIR": "/r", "GATED_SOCKET": "/e"}.get}, []string{"/e"}},
		{Options{Socket: "/s", Getenv: env{"XDG_RUNTIME_DIR": "/r", "GATED_SOCKET": "/e"}.get}, []string{"/s"}},
	} {
		require.Equal(t, c.want, open(t, c.o).paths)
	}
}

func TestTheFirstThatExistsIsAsked(t *testing.T) {
	dir := t.TempDir()
	system, mine := filepath.Join(dir, "sys"), filepath.Join(dir, "gated", "gated.sock")
	o := Options{System: system, Getenv: env{"XDG_RUNTIME_DIR": dir}.get}

	gone := unreachable(t, errOf(open(t, o).Status(t.Context())))
	require.Equal(t, []string{mine, system}, tried(gone))
	require.ErrorIs(t, gone, fs.ErrNotExist)
	require.ErrorContains(t, gone, mine)
	require.ErrorContains(t, gone, system)
	require.ErrorContains(t, gone, "gated serve")

	answer(t, system, says("system"))
	st := must.Get(open(t, o).Status(t.Context()))(t)
	require.Equal(t, "system", st.Host)

	answer(t, mine, says("mine"))
	st = must.Get(open(t, o).Status(t.Context()))(t)
	require.Equal(t, "mine", st.Host)
}

// A dead socket of one's own does not send the call to another gate.
func TestADeadSocketEndsTheSearch(t *testing.T) {
	dir := t.TempDir()
	system, mine := filepath.Join(dir, "sys"), filepath.Join(dir, "gated", "gated.sock")
	answer(t, system, says("system"))
	l := listen(t, mine)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	c := open(t, Options{System: system, Getenv: env{"XDG_RUNTIME_DIR": dir}.get})
	gone := unreachable(t, errOf(c.Status(t.Context())))
	require.Equal(t, []string{mine}, tried(gone))
	require.ErrorIs(t, gone, errNobody)
}

func TestWhatIsNoSocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorIs(t, unreachable(t, errOf(open(t, Options{Socket: file}).Status(t.Context()))), errNotSocket)
	long := "/" + strings.Repeat("x", maxSocketPath)
	require.ErrorIs(t, unreachable(t, errOf(open(t, Options{Socket: long}).Status(t.Context()))), errTooLong)
	require.ErrorIs(t, unreachable(t, errOf(open(t, Options{Socket: long[:maxSocketPath]}).Status(t.Context()))), fs.ErrNotExist)
}

func errOf(_ api.Status, err error) error { return err }

func TestGatedUIDMustBeANumber(t *testing.T) {
	for _, bad := range []string{"root", "-1", "4294967295", "4294967296", "0x0", " 0", "1,2"} {
		must.Fail(New(Options{Getenv: env{"GATED_UID": bad}.get}))(t, refusal.Malformed, bad)
	}
	c := open(t, Options{Getenv: env{"GATED_UID": "4294967294"}.get})
	require.True(t, c.trusted[4294967294])
}

func TestAnswersThatAreNotAGates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var h http.HandlerFunc
	answer(t, path, func(w http.ResponseWriter, r *http.Request) { h(w, r) })
	c := open(t, Options{Socket: path})
	text := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"html":           text(500, "text/html", "<p>no"),
		"no type":        text(403, "", `{"code":"not_allowed"}`),
		"broken problem": text(403, api.ProblemType, `{"code":`),
		"no code":        text(403, api.ProblemType, `{}`),
		"redirect":       text(302, "text/html", ""),
		"broken json":    text(200, api.ContentType, `{"host":`),
		"twice":          text(200, api.ContentType, `{"host":"a","host":"b"}`),
		"two":            text(200, api.ContentType, `{"host":"a"}{}`),
		"another type":   text(200, api.ContentType, `{"host":7}`),
	} {
		h = answer
		_, err := c.Status(t.Context())
		require.ErrorIs(t, err, refusal.Internal, name)
		require.Equal(t, api.ExitInternal, api.Exit(err), name)
	}
	h = text(499, api.ProblemType+"; charset=utf-8", `{"code":"from_the_future","detail":"d","new":1}`)
	must.Fail(c.Status(t.Context()))(t, refusal.Code("from_the_future"))
}

// TestIDsThatNoAddressHas: a caller's empty variable is named before any daemon is asked.
func TestIDsThatNoAddressHas(t *testing.T) {
	c := open(t, Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
	for _, id := range []string{"", ".", "..", "../agents", "j1/..", "j1//", "j1/", "/j1"} {
		_, job := c.Job(t.Context(), id)
		_, wait := c.WaitJob(t.Context(), id, api.UntilEnded)
		_, cancel := c.Cancel(t.Context(), id)
		_, request := c.Request(t.Context(), id)
		for _, err := range []error{job, wait, cancel, request} {
			require.Equal(t, refusal.Malformed, refusal.As(err).Code, id)
			require.Contains(t, err.Error(), strconv.Quote(id)+" is no id and no name")
		}
	}
	for _, id := range []string{"j1", "a b", "a/b", "%2F", "j1?x#y"} {
		_, err := c.Job(t.Context(), id)
		unreachable(t, err)
	}
}

func TestALostAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := open(t, Options{Socket: path}).Approve(t.Context(), "j1.1", api.EnvelopeOf([]byte("{}"), "s"))
	gone := unreachable(t, err)
	require.Equal(t, []string{path}, tried(gone))
	require.ErrorContains(t, err, "before the answer")
	require.True(t, gone.Asked, "nobody knows whether it counted")
}

func TestDeadlines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := open(t, Options{Socket: path})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := errOf(c.Status(ctx))
	unreachable(t, err)
	require.ErrorContains(t, err, "no answer in time")

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, errOf(c.Status(ctx)), context.Canceled)
}

// A queue that is full is asked again.
func TestAFullQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd := must.Get(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	first := must.Get(net.Dial("unix", path))(t)
	must.Fail(net.Dial("unix", path))(t, syscall.EAGAIN)

	c := open(t, Options{Socket: path})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	must.Fail(c.dial(ctx))(t, context.DeadlineExceeded)

	got := make(chan error, 1)
	go func() {
		conn, err := c.dial(t.Context())
		if err == nil {
			err = conn.Close()
		}
		got <- err
	}()
	taken, _ := must.Two(syscall.Accept(fd))(t)
	require.NoError(t, <-got)
	require.NoError(t, syscall.Close(taken))
	require.NoError(t, first.Close())
}

func event(n int) string {
	return "id: " + strconv.Itoa(n) + "\ndata: {\"seq\":" + strconv.Itoa(n) + ",\"kind\":\"planned\"}\n\n"
}

// A stream that breaks is resumed where it broke, and nothing comes twice.
func TestEventsResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var asked []string
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after"))
		_, _ = io.WriteString(w, ": heartbeat\n\n"+event(1)+event(2))
		if len(asked) > 1 {
			_, _ = io.WriteString(w, event(3))
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	stop := errors.New("enough")
	var got []int64
	var told []string
	o := Options{Socket: path, Lost: func() { told = append(told, "lost") }, Back: func() { told = append(told, "back") }}
	require.ErrorIs(t, open(t, o).Events(t.Context(), 0, true, func(e api.Entry) error {
		if got = append(got, e.Seq); len(got) == 3 {
			return stop
		}
		return nil
	}), stop)
	require.Equal(t, []int64{1, 2, 3}, got)
	require.Equal(t, []string{"0", "2"}, asked)
	require.Equal(t, []string{"lost", "back"}, told)
}

// Who follows waits over a start that fails. Who begins to follow then, and what fn itself is refused, hear so at once.
func TestEventsOverAStartThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	n, fails := 0, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(503)
		_, _ = io.WriteString(w, `{"code":"unavailable","detail":"the daemon cannot start: x"}`)
	}
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 2 || n == 3 {
			fails(w)
			return
		}
		_, _ = io.WriteString(w, event(1)+event(n))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := open(t, Options{Socket: path})
	stop := errors.New("enough")
	var got []int64
	require.ErrorIs(t, c.Events(t.Context(), 0, true, func(e api.Entry) error {
		if got = append(got, e.Seq); len(got) == 2 {
			return stop
		}
		return nil
	}), stop)
	require.Equal(t, []int64{1, 4}, got)
	require.Equal(t, 4, n)

	own := refusal.New(refusal.Unavailable, "of fn")
	require.Equal(t, own, c.Events(t.Context(), 4, true, func(api.Entry) error { return own }))
	require.Equal(t, 5, n)
	n = 1
	err := c.Events(t.Context(), 0, true, func(api.Entry) error { return nil })
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "the daemon cannot start: x")
	require.Equal(t, 2, n)
}

func TestEventsThatEndForGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "false", r.URL.Query().Get("follow"))
		_, _ = io.WriteString(w, event(1))
	})
	n := 0
	require.NoError(t, open(t, Options{Socket: path}).Events(t.Context(), 0, false, func(api.Entry) error { n++; return nil }))
	require.Equal(t, 1, n)
}

func TestEventsThatAreRefusedAreNotTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	n := 0
	answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"code":"over_limit","detail":"d"}`)
	})
	err := open(t, Options{Socket: path}).Events(t.Context(), 0, true, func(api.Entry) error { return nil })
	require.ErrorIs(t, err, refusal.OverLimit)
	require.Equal(t, 1, n)
}

// Only a client that was connected waits for the daemon to come back.
func TestEventsOfADaemonThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	waits := func() { require.Fail(t, "it waits") }
	c := open(t, Options{Socket: path, Lost: func() { waits() }})
	follow := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return c.Events(ctx, 0, true, func(api.Entry) error { return nil })
	}
	require.False(t, unreachable(t, follow(time.Minute)).Asked)
	waits = func() {}

	s := answer(t, path, says("h"))
	must.Get(c.Status(t.Context()))(t)
	require.NoError(t, s.Close())
	require.ErrorIs(t, follow(50*time.Millisecond), context.DeadlineExceeded)
}

// A person whose call is not answered is told so once, and the call goes on. Streams and waits are slow by their nature.
func TestASlowGateIsSaidOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	goOn, arrived := make(chan struct{}), make(chan bool, 8)
	var hangs atomic.Bool
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		select {
		case arrived <- true:
		default: // nobody waits for it
		}
		if hangs.Load() {
			<-goOn
		}
		w.Header().Set("Content-Type", api.ContentType)
		_, _ = io.WriteString(w, "{}")
	})
	said := make(chan string, 8)
	c := open(t, Options{Socket: path, Slow: func(socket string) { said <- socket }})
	c.slowAfter = time.Hour
	_, err := c.Status(t.Context())
	require.NoError(t, err, "the client is connected: nothing is said of a gate before that")
	<-arrived
	hangs.Store(true)
	c.slowAfter = time.Millisecond
	ended := make(chan error, 4)
	waits := call{method: http.MethodGet, path: "/v1/status", wait: time.Minute}
	slow := open(t, Options{Socket: path, Slow: func(string) { said <- "by its nature" }})
	slow.slowAfter = c.slowAfter
	for _, ask := range []func() error{
		func() error { return slow.Events(t.Context(), 0, false, func(api.Entry) error { return nil }) },
		func() error { _, err := slow.Backup(t.Context(), io.Discard); return err }, // the daemon makes the copy first
		func() error { _, _, err := slow.bytes(t.Context(), waits); return err },
		func() error { _, err := c.Status(t.Context()); return err },
	} {
		go func() { ended <- ask() }()
		<-arrived
	}
	require.Equal(t, path, <-said)
	close(goOn)
	for range 4 {
		require.NoError(t, <-ended)
	}
	for range 50 {
		_, err := c.Status(t.Context())
		require.NoError(t, err)
	}
	require.Empty(t, said)

	quiet := open(t, Options{Socket: path, Slow: func(socket string) { said <- socket }})
	quiet.slowAfter = time.Hour
	_, err = quiet.Status(t.Context())
	require.NoError(t, err)
	gone := open(t, Options{Socket: path + "-none", Slow: func(socket string) { said <- socket }})
	gone.slowAfter = 0
	_, err = gone.Status(t.Context())
	unreachable(t, err)
	require.Empty(t, said, "nobody was connected")
}

// Where no gate was named and the host has none, its making is said, and once.
func TestWithoutAnyGate(t *testing.T) {
	home, search := t.TempDir(), "gated setup makes a gate; gated serve starts one that was made"
	c := open(t, Options{Getenv: env{"HOME": home, "XDG_RUNTIME_DIR": home}.get, System: filepath.Join(home, "none"), File: filepath.Join(home, "client.yaml")})
	c.host.Root = home
	_, err := c.Status(t.Context())
	gone := unreachable(t, err)
	require.Greater(t, len(gone.Tried), 1)
	require.Equal(t, 1, strings.Count(gone.Error(), search), gone)
	require.Equal(t, search, gone.Tried[len(gone.Tried)-1].Hint)
	c.host.Root = t.TempDir()
	require.NoError(t, os.MkdirAll(c.host.Root+hostgate.StateDir, 0o755))
	_, err = c.Status(t.Context())
	require.NotContains(t, unreachable(t, err).Error(), "setup", "the host has one")
}
