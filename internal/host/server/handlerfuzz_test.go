package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// probe is one request of FuzzHandlers. Route is a method and a pattern of the
// table, or anything else; id stands for the pattern's wildcard. Headers are
// whole lines.
type probe struct {
	route, id, query, headers string
	body                      []byte
	operator                  bool
}

// wire is the request as a client would send it.
func (p probe) wire(id string) []byte {
	method, path, _ := strings.Cut(p.route, " ")
	if before, after, ok := strings.Cut(path, "{"); ok {
		_, after, _ = strings.Cut(after, "}")
		path = before + id + after
	}
	if p.query != "" {
		path += "?" + p.query
	}
	var b bytes.Buffer
	b.WriteString(method + " " + path + " HTTP/1.1\r\nHost: gated\r\n")
	if p.headers != "" {
		b.WriteString(strings.ReplaceAll(p.headers, "\n", "\r\n") + "\r\n")
	}
	if len(p.body) > 0 {
		b.WriteString("Content-Length: " + strconv.Itoa(len(p.body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(p.body)
	return b.Bytes()
}

// request is what net/http makes of it; nil is what it answers itself, and
// headers that end before they are all there.
func (p probe) request() *http.Request {
	for line := range strings.Lines(p.headers) {
		if strings.TrimSpace(line) == "" {
			return nil
		}
	}
	for _, id := range []string{p.id, url.PathEscape(p.id)} {
		if r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p.wire(id)))); err == nil {
			return r
		}
	}
	return nil
}

// lastingAnswer is an answer that takes deadlines, as a connection does.
type lastingAnswer struct{ *httptest.ResponseRecorder }

func (lastingAnswer) SetReadDeadline(time.Time) error  { return nil }
func (lastingAnswer) SetWriteDeadline(time.Time) error { return nil }

// quiet is a log in which nothing more happens: whoever waits hangs up.
type quiet struct {
	*fake
	hangUp func()
}

func (q *quiet) Wait(ctx context.Context, _ int64) error {
	q.hangUp()
	<-ctx.Done()
	return ctx.Err()
}

// counter is a whole server without a socket, that counts what comes through.
type counter struct {
	*fake
	*Server
	log      *quiet
	operator *peer
	stranger *peer
}

const (
	fuzzDaemon   = 4242
	fuzzStranger = 1000
)

func newCounter(t testing.TB) *counter {
	f := newFake(t)
	for _, uid := range []uint32{0, fuzzDaemon, fuzzStranger} {
		f.job.Requesters = append(f.job.Requesters, op.Requester{Source: op.SourceAPI, UID: uid})
	}
	f.tokens = map[string]string{"dG9rZW4": "builder#7"}
	f.backups = func(_ context.Context, w io.Writer) error { _, err := w.Write([]byte("copy")); return err }
	f.grow(t, 4)
	c := &counter{fake: f, log: &quiet{fake: f}}
	c.Server = New(Config{Gate: f, Desired: f, Guests: f, Backends: f, Commands: f, Log: c.log, Status: f, Backup: f, Canary: f, Agents: f, Reservations: f,
		UID: fuzzDaemon, SingleUser: true, Now: func() time.Time { return noon }, Logger: slog.New(slog.DiscardHandler)})
	c.operator = c.enter(t, fuzzDaemon)
	c.stranger = c.enter(t, fuzzStranger)
	return c
}

func (c *counter) enter(t testing.TB, uid uint32) *peer {
	caller, err := c.fake.Connected(nil)
	require.NoError(t, err)
	p := &peer{uid: uid, pid: 8, caller: caller, crowd: c.crowd}
	_, ok := c.crowd.join(p)
	require.True(t, ok)
	return p
}

// ask sends a probe and returns its answer and what it reached; ok is false
// where net/http answers without us.
func (c *counter) ask(p probe) (got reply, reached []string, ok bool) {
	r := p.request()
	if r == nil {
		return reply{}, nil, false
	}
	who := c.stranger
	if p.operator {
		who = c.operator
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), peerKey{}, who))
	defer cancel()
	c.log.hangUp = cancel
	c.fake.change(func() { c.fake.reached = nil })
	w := httptest.NewRecorder()
	c.Server.serve(lastingAnswer{w}, r.WithContext(ctx))
	return reply{w.Code, w.Header(), w.Body.Bytes()}, c.calls(), true
}

// FuzzHandlers: every end point, through the real mux, with what anybody may
// send. Nothing panics; a refusal is a problem with a code and the status of
// the table, and nothing behind the server was asked; nothing is kept after it.
func FuzzHandlers(f *testing.F) {
	for _, p := range seeds() {
		f.Add(p.route, p.id, p.query, p.headers, p.body, p.operator)
	}
	c := newCounter(f)
	f.Fuzz(func(t *testing.T, route, id, query, headers string, body []byte, operator bool) {
		p := probe{route, id, query, headers, body, operator}
		got, reached, ok := c.ask(p)
		if !ok {
			return
		}
		if got.status >= http.StatusInternalServerError {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if got.status >= http.StatusBadRequest {
			refused(t, got, reached)
		} else {
			answered(t, c, p, got, reached)
		}
		c.idle(t)
	})
}

// refused asserts what a refusal of the server's own is.
func refused(t *testing.T, got reply, reached []string) {
	t.Helper()
	if got.header.Get("Content-Type") != api.ProblemType || !jsontext.Value(got.body).IsValid() {
		t.Fatalf("%q: %s", got.header, got.body)
	}
	var p api.Problem
	if err := api.DecodeAnswer(got.body, &p); err != nil {
		t.Fatal(err)
	}
	known := slices.ContainsFunc(api.Codes, func(m api.Meaning) bool { return m.Code == p.Code })
	named := got.status == api.MeaningOf(p.Code).Status || p.Code == refusal.Malformed && (got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed)
	if !known || !named || p.Status != got.status || p.Detail == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const most = 64 << 10 // of one answer; what it repeats of a caller's words has a bound
	if len(reached) > 0 || len(got.body) > most {
		t.Fatalf("refused with %d bytes after %q: %s", len(got.body), reached, got.body)
	}
}

// answered asserts what an answer has to be, and that what led to it reads in
// one way.
func answered(t *testing.T, c *counter, p probe, got reply, reached []string) {
	t.Helper()
	rt, known := c.routeOf(p.request())
	if !known {
		t.Fatalf("%q is no end point and was answered: %s", p.route, got.body)
	}
	if rt.who == operators && !p.operator {
		t.Fatalf("a stranger was answered: %s", got.body)
	}
	if asksNobody := strings.HasSuffix(rt.path, "/ops") && rt.method == http.MethodGet || rt.path == selfPath; !asksNobody && len(reached) == 0 {
		t.Fatalf("answered without asking anybody: %s", got.body)
	}
	switch got.header.Get("Content-Type") {
	case api.ContentType:
		if !jsontext.Value(got.body).IsValid() {
			t.Fatalf("no JSON: %q", got.body)
		}
	case "", yamlType, "application/octet-stream", "text/event-stream":
	default:
		t.Fatalf("%q", got.header)
	}
	if rt.body == MaxBody && !jsontext.Value(p.body).IsValid() && !strings.Contains(strings.ToLower(p.headers), "transfer-encoding") {
		t.Fatalf("took a body that is no JSON, or can be read in two ways: %q", p.body)
	}
	if rt.body == 0 && len(p.body) > 0 {
		t.Fatalf("took a body: %q", p.body)
	}
}

// routeOf finds the table's row of a request, which a fuzzed path can reach in
// many spellings.
func (c *counter) routeOf(r *http.Request) (route, bool) {
	_, pattern := c.routes.Handler(r)
	for _, rt := range c.table() {
		if rt.method == r.Method && rt.path == pattern {
			return rt, true
		}
	}
	return route{}, false
}

// idle asserts that everything which a call may hold was given back.
func (c *counter) idle(t *testing.T) {
	t.Helper()
	for _, q := range []*quota{c.bodies, c.streams, c.waits, c.plans} {
		if q.used != 0 || len(q.by) != 0 {
			t.Fatalf("%d %s are kept", q.used, q.what)
		}
	}
	for _, p := range []*peer{c.operator, c.stranger} {
		if p.busy {
			t.Fatal("a connection is busy for ever")
		}
	}
}
