package page

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/passkey/passkeytest"
)

const (
	gateID   = op.GateID("0123456789abcdef0123456789abcdef")
	gateName = "pve1"
	patience = time.Minute
)

// fakeGate is a gate that says what a test wants, and keeps what it is sent.
type fakeGate struct {
	host     string        // gateName if a test says nothing else
	hangs    chan struct{} // not nil: it answers nothing about one request before this is closed
	mu       sync.Mutex
	trust    string // the list of signers
	signers  []api.Signer
	blocked  bool
	revoked  []string
	requests map[string]*api.Request
	payloads map[string][]byte
	sent     []sent
	refuses  *refusal.Refusal
	also     map[string]any // what it answers at other paths
	jobs     func(after int) api.JobList
	log      []api.Entry
	seq      int64
	changed  chan struct{} // closed at the next change
}

// sent is one decision that arrived.
type sent struct {
	what, id string
	envelope api.Envelope
}

func newFakeGate() *fakeGate {
	return &fakeGate{host: gateName, requests: map[string]*api.Request{}, payloads: map[string][]byte{}, changed: make(chan struct{})}
}

// line is how a list names the passkey of a device.
func line(d *passkeytest.Device, principal string, roles ...op.Role) string {
	var spaces []string
	for _, r := range roles {
		spaces = append(spaces, r.Namespace())
	}
	return fmt.Sprintf("%s namespaces=%q %s", principal, strings.Join(spaces, ","), d.Key.Line())
}

// list adds a passkey to the list of signers.
func (g *fakeGate) list(d *passkeytest.Device, principal string, roles ...op.Role) {
	g.add(line(d, principal, roles...), principal, d.Key.Fingerprint(), roles...)
}

func (g *fakeGate) add(line, principal, fingerprint string, roles ...op.Role) {
	g.change(func() {
		g.trust += line + "\n"
		g.signers = append(g.signers, api.Signer{Line: len(g.signers) + 1, Principal: principal, Fingerprint: fingerprint, Roles: roles})
	})
}

// wait adds a request that waits.
func (g *fakeGate) wait(t testing.TB, id string, change func(*op.Payload, *api.Request)) {
	t.Helper()
	at := time.Now().UTC().Truncate(time.Second)
	p := op.Payload{Gate: gateID, Host: g.host, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"},
		Incarnation: "a:1:2", State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(at), IssuedAt: at,
		ExpiresAt: at.Add(time.Hour), Reason: "no longer needed"}
	r := api.Request{ID: id, State: op.StatePending, Class: op.Destructive, Roles: []op.Role{op.Operational},
		Demands: []api.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1}}, CreatedAt: at}
	if change != nil {
		change(&p, &r)
	}
	b := must.Get(p.Encode())(t)
	r.Op, r.Host, r.Gate, r.Target, r.Params, r.Reason = p.Op, p.Host, p.Gate, p.Target.String(), p.Params, p.Reason
	r.Incarnation, r.StateFingerprint, r.PayloadSHA256 = p.Incarnation, p.State, op.SHA256(b)
	g.change(func() { g.requests[id], g.payloads[id] = &r, b })
}

// change changes what the gate says, and tells who follows its events.
func (g *fakeGate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.seq++
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *fakeGate) arrived() []sent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]sent(nil), g.sent...)
}

// listed is a page of the requests after one.
func (g *fakeGate) listed(after string) api.RequestList {
	ids := slices.Sorted(maps.Keys(g.requests))
	from := 1 + slices.Index(ids, after)
	to := min(from+pageOf, len(ids))
	l := api.RequestList{Requests: []api.Request{}}
	for _, id := range ids[from:to] {
		l.Requests = append(l.Requests, *g.requests[id])
	}
	if to < len(ids) {
		l.Next = &ids[to-1]
	}
	return l
}

func (g *fakeGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/events" {
		g.events(w, r)
		return
	}
	if g.hangs != nil && strings.HasPrefix(r.URL.Path, "/v1/requests/") {
		<-g.hangs
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var v any
	rest, isRequest := strings.CutPrefix(r.URL.Path, "/v1/requests/")
	id, what, _ := strings.Cut(rest, "/")
	switch {
	case r.URL.Path == "/v1/jobs" && g.jobs != nil:
		after, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("after"), "j")) // from 0
		v = g.jobs(after)
	case g.also[r.URL.Path] != nil:
		v = g.also[r.URL.Path]
	case r.URL.Path == "/v1/status":
		v = api.Status{Host: g.host, Gate: gateID, Epoch: g.seq + 1}
	case r.URL.Path == "/v1/audit":
		after, _ := strconv.Atoi(r.URL.Query().Get("after")) // from 0
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit")) // the client writes a number
		from := min(after, len(g.log))
		v = api.EntryList{Entries: g.log[from:min(from+limit, len(g.log))]}
	case r.URL.Path == "/v1/audit/head":
		v = api.Head{Seq: g.seq}
	case r.URL.Path == "/v1/trust":
		v = api.Trust{Epoch: g.seq + 1, Text: g.trust, Signers: g.signers, Revoked: g.revoked, Blocked: g.blocked}
	case r.URL.Path == "/v1/requests":
		v = g.listed(r.URL.Query().Get("after"))
	case !isRequest || g.requests[id] == nil:
		problem(w, refusal.New(refusal.UnknownTarget, "no request %s", id))
		return
	case what == "":
		v = g.requests[id]
	case what == "payload":
		_, _ = w.Write(g.payloads[id])
		return
	default:
		if !g.decide(w, r, what, id) {
			return
		}
		v = g.requests[id]
	}
	b, err := api.Encode(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", api.ContentType)
	_, _ = w.Write(b)
}

// decide keeps a decision, or refuses it.
func (g *fakeGate) decide(w http.ResponseWriter, r *http.Request, what, id string) bool {
	if g.refuses != nil {
		problem(w, g.refuses)
		return false
	}
	b, err := io.ReadAll(r.Body)
	var e api.Envelope
	if err == nil {
		err = api.DecodeBody(b, &e)
	}
	if err != nil {
		problem(w, err)
		return false
	}
	g.sent = append(g.sent, sent{what, id, e})
	state := op.StateAuthorized
	if what == "reject" {
		state = op.StateRejected
	}
	g.requests[id].State = state
	g.seq++
	close(g.changed)
	g.changed = make(chan struct{})
	return true
}

func problem(w http.ResponseWriter, err error) {
	p := api.ProblemOf(err)
	b, _ := api.Encode(p) // a Problem always encodes
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(b)
}

// events says after each change that everything may differ.
func (g *fakeGate) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	told, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64) // the client writes a number
	for {
		g.mu.Lock()
		seq, changed := g.seq, g.changed
		g.mu.Unlock()
		if seq > told {
			fmt.Fprintf(w, "data: {\"seq\":%d,\"kind\":\"rotated\"}\n\n", seq)
		}
		told = seq
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// console is the pages over a fake gate, as a browser reaches them.
type console struct {
	t      *testing.T
	gate   *fakeGate
	set    *gates.Set
	config Config
	origin string
	clock  *clock
	stop   func() // has the gate go away
}

// clock is the time of a console, which a test moves.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// newConsole serves the pages on http://localhost.
func newConsole(t *testing.T, change ...func(*Config)) *console {
	t.Helper()
	return newConsoleOf(t, nil, change...)
}

// newConsoleOf is newConsole with other gates beside the fake one.
func newConsoleOf(t *testing.T, others []client.KnownGate, change ...func(*Config)) *console {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "gw"))(t) // short, for the socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &console{t: t, gate: newFakeGate(), clock: &clock{}}
	path := filepath.Join(dir, "s")
	c.stop = serve(t, must.Get(net.Listen("unix", path))(t), c.gate)
	c.set = must.Get(gates.New(gates.Config{Now: time.Now,
		Known: append([]client.KnownGate{{Address: client.UnixAddress(path), Host: gateName, Gate: gateID}}, others...)}))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.set.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	c.origin = fmt.Sprintf("http://localhost:%d", l.Addr().(*net.TCPAddr).Port)
	c.config = Config{Gates: c.set, Origin: c.origin, RPID: "localhost", Now: c.clock.now, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&c.config)
	}
	wall := must.Get(access.New(access.Config{Origins: []string{c.origin}, SignIn: "/sign-in", Local: c.config.Local, Now: c.clock.now,
		Limits: access.Limits{TriesPerMinute: 1000, AllTriesPerMinute: 1000}}))(t)
	c.config.Wall = wall
	serve(t, l, wall.Handler(must.Get(New(c.config))(t)))
	return c
}

func serve(t *testing.T, l net.Listener, h http.Handler) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience, BaseContext: func(net.Listener) context.Context { return ctx }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // it ends as s is closed
	}()
	end = func() {
		stop()
		_ = s.Close()
		<-ended
	}
	t.Cleanup(end)
	return end
}

// until waits until the console's view of its gate is as wanted.
func (c *console) until(wanted func(gates.Gate) bool) {
	c.t.Helper()
	c.untilOf(gateName, wanted)
}

// untilOf is until of any gate.
func (c *console) untilOf(name string, wanted func(gates.Gate) bool) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for changes := c.set.Changes(ctx); ; {
		g, _ := c.set.Get(name)
		if g.Err == nil && wanted(g) {
			return
		}
		if _, more := <-changes; !more {
			require.FailNow(c.t, "it did not come", "%+v", g)
		}
	}
}

// caught waits until the console has seen everything that the gate says.
func (c *console) caught() {
	c.t.Helper()
	c.until(func(g gates.Gate) bool {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		// The status is asked for first, so all the rest is as new.
		return g.Status.Epoch == c.gate.seq+1 && g.Trust.Epoch == c.gate.seq+1
	})
}

// device makes an authenticator with a passkey for the console.
func (c *console) device() *passkeytest.Device { return passkeytest.New(c.t, "localhost", c.origin) }
