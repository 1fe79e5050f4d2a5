package gates

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/server"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// host is a gate's server, which a test stops and starts again.
type host struct {
	*servicetest.World
	path string
	stop func()
}

// newHost starts the server of a new world.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{World: servicetest.New(t), path: filepath.Join(t.TempDir(), "s")}
	h.start(t, servicetest.GateID)
	t.Cleanup(func() { h.stop() })
	return h
}

// start serves the world, as the gate of that id.
func (h *host) start(t *testing.T, id op.GateID) {
	t.Helper()
	socket := must.Get(server.Listen(h.path, -1))(t)
	s := server.New(server.Config{Gate: h.Gate, Waits: h.Waits, Agents: h.Agents, Log: h.Log, Reservations: h.Reservations,
		Status: func(ctx context.Context) (api.Status, error) {
			return api.Status{Host: servicetest.Host, Gate: id, Epoch: 1}, nil
		},
		UID: uint32(os.Getuid()), SingleUser: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, socket) }()
	h.stop = func() {
		cancel()
		require.NoError(t, <-ended)
		h.stop = func() {}
	}
}

// known is how a gate at a socket was pinned.
func known(path, name string, id op.GateID) client.KnownGate {
	return client.KnownGate{Address: client.UnixAddress(path), Host: name, Gate: id}
}

// quick has short pauses.
var quick = pace{look: 5 * time.Second, settle: time.Millisecond, every: time.Minute, first: time.Millisecond, longest: 10 * time.Millisecond,
	steady: time.Minute}

// watch runs a Set of gates until the test ends.
func watch(t *testing.T, p pace, gates ...client.KnownGate) *Set {
	t.Helper()
	s := must.Get(New(Config{Known: gates, Now: time.Now}))(t)
	s.pace = p
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return s
}

// until returns a gate as soon as it is as wanted.
func until(t *testing.T, s *Set, name string, wanted func(Gate) bool) Gate {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	changes := s.Changes(ctx)
	for {
		g, ok := s.Get(name)
		require.True(t, ok)
		if wanted(g) {
			return g
		}
		if _, more := <-changes; !more {
			require.FailNow(t, "it did not come", "%+v", g)
		}
	}
}

func well(g Gate) bool { return g.Err == nil }

func ids(g Gate) (out []string) {
	for _, r := range g.Requests {
		out = append(out, r.ID)
	}
	return out
}

// serve answers at a new socket.
func serve(t *testing.T, h http.Handler) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", path))(t)
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	go func() { _ = s.Serve(l) }() // it ends as s is closed
	t.Cleanup(func() { _ = s.Close() })
	return path
}

// fake is a gate that says what a test wants.
type fake struct {
	status   api.Status
	requests []api.Request
	next     *string // of each page of requests
	raw      map[string]string
}

func fakeGate(id op.GateID, name string, n int) *fake {
	f := &fake{status: api.Status{Gate: id, Host: name, Epoch: 1}}
	for i := range n {
		f.requests = append(f.requests, api.Request{ID: op.StepID{Job: op.JobID(i + 1), Index: 1}.String(), Gate: id, Host: name,
			State: op.StatePending, Op: "guest.destroy", Target: "guest/web", Params: api.Params{},
			CreatedAt: time.Date(2026, 3, 4, 12, i/60, i%60, 0, time.UTC), Reason: "no longer needed, and " + name + " is full"})
	}
	return f
}

// page returns the requests after one, as many as a gate's page has.
func (f *fake) page(after string) api.RequestList {
	from := 1 + slices.IndexFunc(f.requests, func(r api.Request) bool { return r.ID == after })
	to := min(from+pageOf, len(f.requests))
	list := api.RequestList{Requests: f.requests[from:to], Next: f.next}
	if f.next == nil && to < len(f.requests) {
		list.Next = &f.requests[to-1].ID
	}
	return list
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if raw, ok := f.raw[r.URL.Path]; ok {
		w.Header().Set("Content-Type", api.ContentType)
		_, _ = w.Write([]byte(raw))
		return
	}
	var v any
	switch r.URL.Path {
	case "/v1/status":
		v = f.status
	case "/v1/audit/head":
		v = api.Head{Seq: 7}
	case "/v1/trust":
		v = api.Trust{Epoch: f.status.Epoch}
	case "/v1/requests":
		v = f.page(r.URL.Query().Get("after"))
	case "/v1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	default:
		http.NotFound(w, r)
		return
	}
	b, err := api.Encode(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", api.ContentType)
	_, _ = w.Write(b)
}
