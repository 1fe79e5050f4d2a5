package client

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/test/servicetest"
)

var (
	web = "guest/web-1"
	aID = op.RequestID{Job: 12, Index: 1}
)

// daemon is a real server over the real services, and what a client asked it.
type daemon struct {
	*servicetest.World
	socket string
	next   http.RoundTripper
	mu     sync.Mutex
	asked  []string // method, path and query, the headers that matter, body
}

// behind starts a server over a new world, and returns a client of it. change may alter the configuration.
func behind(t *testing.T, change ...func(*server.Config)) (*daemon, *Client) {
	t.Helper()
	w := servicetest.New(t)
	socket, err := server.Listen(filepath.Join(t.TempDir(), "s"), -1)
	require.NoError(t, err)
	config := server.Config{Gate: w.Gate, Desired: w.Desired, Guests: w.Shown, Commands: w.Commands, Log: w.Log, Waits: w.Waits, Canary: w.Canary,
		Agents: w.Agents, Reservations: w.Reservations, Backup: w.Backup, BackupVerified: w.BackupVerified,
		Verified: func() api.Verified { return api.Verified{OK: true, Detail: "not verified yet since the start"} },
		Backends: func(context.Context) ([]api.Backend, error) { return nil, nil },
		Health: func(context.Context) api.HealthReport {
			return api.HealthReport{State: api.HealthBad, Checks: []api.HealthCheck{}}
		},
		Metrics: func(context.Context) ([]byte, error) { return []byte("gated_up 1\n"), nil },
		Reload: func(ctx context.Context) (api.Reloaded, error) {
			_, err := w.Gate.AuditHead(ctx) // a reload needs the database
			return api.Reloaded{Changed: []string{"policy"}, Waits: []string{"local"}}, err
		},
		TakeOver: func(ctx context.Context) error {
			_, err := w.Gate.AuditHead(ctx) // a takeover needs the database
			return err
		},
		Status: func(context.Context) (api.Status, error) { return api.Status{Host: servicetest.Host}, nil },
		UID:    uint32(os.Getuid()), SingleUser: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, fn := range change {
		fn(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.New(config).Serve(ctx, socket) }()
	d := &daemon{World: w, socket: socket.Path()}
	c := open(t, Options{Socket: d.socket})
	d.next, c.http.Transport = c.http.Transport, d
	t.Cleanup(func() {
		c.Close()
		cancel()
		require.NoError(t, <-ended)
	})
	return d, c
}

// RoundTrip records a request and passes it on.
func (d *daemon) RoundTrip(r *http.Request) (*http.Response, error) {
	said := r.Method + " " + r.URL.RequestURI()
	for _, name := range []string{"Idempotency-Key", "If-Match"} {
		if v := r.Header.Get(name); v != "" {
			said += " " + v
		}
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		said += " " + string(body)
	}
	d.mu.Lock()
	d.asked = append(d.asked, said)
	d.mu.Unlock()
	return d.next.RoundTrip(r)
}

// CloseIdleConnections is for http.Client.
func (d *daemon) CloseIdleConnections() {
	d.next.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// calls returns what the client asked since the last call of calls.
func (d *daemon) calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.asked
	d.asked = nil
	return out
}

// refusing returns a client whose gate answers every call with one problem.
func refusing(t *testing.T, r *refusal.Refusal, conflicts ...api.Conflict) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	p := api.ProblemOf(r)
	p.Conflicts = conflicts
	b, err := api.Encode(p)
	require.NoError(t, err)
	answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(p.Status)
		_, _ = w.Write(b)
	})
	return open(t, Options{Socket: path})
}
