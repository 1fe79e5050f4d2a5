package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/openapi"
	"gated/internal/test/servicetest"
)

// world is a server on a socket of its own, with every service behind it.
type world struct {
	*servicetest.World
	server  *Server
	path    string
	http    *http.Client
	stop    context.CancelFunc
	ended   chan error
	mu      sync.Mutex
	refused []string // what Config.Refused was told: uid, code, what

	commits, asked atomic.Int64 // by the store; for the status
	hold           atomic.Pointer[servicetest.Hold]
}

// configOf are the services of a world, for the daemon's own uid.
func configOf(w *servicetest.World) Config {
	return Config{Gate: w.Gate, Desired: w.Desired, Guests: w.Shown, Commands: w.Commands, Log: w.Log, Waits: w.Waits, Canary: w.Canary,
		Agents: w.Agents, Reservations: w.Reservations, Backup: w.Backup, BackupVerified: w.BackupVerified,
		Steering: []api.SteeringRule{{From: "command/drop-db", InsteadOf: []string{"dropdb *"}, Op: op.Run, Name: "drop-db", Params: []string{}}},
		Verified: func() api.Verified {
			at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			return api.Verified{OK: true, Entries: 3, Hash: strings.Repeat("a", 64), At: &at, Detail: "verified up to entry 3 at the start"}
		},
		Backends: func(context.Context) ([]api.Backend, error) {
			return []api.Backend{{Name: "local", State: api.BackendOK}}, nil
		},
		Health: func(context.Context) api.HealthReport {
			return api.HealthReport{State: api.HealthOK, Checks: []api.HealthCheck{{Name: "journal", State: api.HealthOK}}}
		},
		Metrics: func(context.Context) ([]byte, error) {
			return []byte("# HELP gated_up x\n# TYPE gated_up gauge\ngated_up 1\n"), nil
		},
		Reload: func(ctx context.Context) (api.Reloaded, error) {
			_, err := w.Gate.AuditHead(ctx) // a reload needs the database
			return api.Reloaded{Changed: []string{"policy"}, Waits: []string{"local"}}, err
		},
		TakeOver: func(ctx context.Context) error {
			_, err := w.Gate.AuditHead(ctx) // a takeover needs the database
			return err
		},
		UID: uint32(os.Getuid()), SingleUser: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
}

// status waits if the test holds it.
func (w *world) status(ctx context.Context) (api.Status, error) {
	w.asked.Add(1)
	if h := w.hold.Load(); h != nil {
		if err := h.Wait(ctx); err != nil {
			return api.Status{}, err
		}
	}
	return api.Status{Host: servicetest.Host, Isolation: "uid"}, nil
}

// holdStatus makes calls for the status wait.
func (w *world) holdStatus() *servicetest.Hold {
	h := servicetest.NewHold()
	w.hold.Store(h)
	return h
}

// reached is how often something came through to what the services stand on: commits, looks at guests, questions for the
// status. Plain reads of the database are not counted.
func (w *world) reached() int64 { return w.commits.Load() + w.Guests.Looks() + w.asked.Load() }

// socketDir returns a short directory that every uid can pass through, which
// t.TempDir is not.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gated")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// start serves a new world on a socket until the test ends. change may alter the configuration; gid is the socket's
// group, or -1.
func start(t *testing.T, gid int, change func(*Config)) *world {
	t.Helper()
	return startOn(t, servicetest.New(t), gid, change)
}

// startOn is start for a world that the test made.
func startOn(t *testing.T, behind *servicetest.World, gid int, change func(*Config)) *world {
	t.Helper()
	w := &world{World: behind, path: filepath.Join(socketDir(t), "gated.sock"), ended: make(chan error, 1)}
	w.Store.OnCommit(func() { w.commits.Add(1) })
	c := configOf(w.World)
	c.Status = w.status
	c.Refused = func(_ context.Context, by op.Requester, what string, r *refusal.Refusal) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, by.String()+" "+string(r.Code)+" "+what)
	}
	if change != nil {
		change(&c)
	}
	socket, err := Listen(w.path, gid)
	require.NoError(t, err)
	w.server = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.ended <- w.server.Serve(ctx, socket) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		for {
			conn, err := d.DialContext(ctx, "unix", w.path)
			if !errors.Is(err, syscall.EAGAIN) {
				return conn, err
			}
			<-time.After(time.Millisecond) // the queue is full, as package client expects
		}
	}}
	w.http = &http.Client{Transport: must.Get(openapi.Read())(t).Checked(t, transport)}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		require.NoError(t, <-w.ended)
		require.NoFileExists(t, w.path)
	})
	return w
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.refused...)
}

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do makes one call; headers are name, value, name, value.
func (w *world) do(t *testing.T, method, path, body string, headers ...string) reply {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://gated"+path, r)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.http.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, b}
}

// problem returns the reply as a problem, and checks that it is one.
func (r reply) problem(t *testing.T) api.Problem {
	t.Helper()
	require.Equal(t, api.ProblemType, r.header.Get("Content-Type"), "%d %s", r.status, r.body)
	var p api.Problem
	require.NoError(t, api.DecodeAnswer(r.body, &p))
	require.Equal(t, r.status, p.Status)
	require.NotEmpty(t, p.Code)
	require.NotEmpty(t, p.Detail)
	require.NotEmpty(t, p.Title)
	return p
}

// into decodes a reply of that status.
func (r reply) into(t *testing.T, status int, v any) {
	t.Helper()
	require.Equal(t, status, r.status, "%s", r.body)
	require.Equal(t, api.ContentType, r.header.Get("Content-Type"))
	require.NoError(t, api.DecodeAnswer(r.body, v))
}
