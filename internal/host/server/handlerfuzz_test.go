package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/test/servicetest"
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

// lastingAnswer is an answer that takes deadlines, as a connection does. Its caller hangs up at the first heartbeat.
type lastingAnswer struct {
	*httptest.ResponseRecorder
	hangUp func()
}

func (lastingAnswer) SetReadDeadline(time.Time) error  { return nil }
func (lastingAnswer) SetWriteDeadline(time.Time) error { return nil }

func (a lastingAnswer) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte(": heartbeat")) {
		a.hangUp()
	}
	return a.ResponseRecorder.Write(b)
}

// counter is a whole server without a socket, and a world behind it. A new world takes its place after a probe that it
// did not refuse and that wrote, and after 20 probes.
type counter struct {
	*servicetest.World
	*Server
	dir      string
	kept     string // what a new world keeps
	operator *peer
	stranger *peer

	probes int  // of this world
	wrote  bool // the last probe wrote and was not refused

	own     int          // refusals of the server's own
	commits atomic.Int64 // by the store
}

func newCounter(t testing.TB) *counter {
	c := &counter{}
	c.renew(t)
	c.kept = c.keeps(t)
	t.Cleanup(func() { c.end(t) })
	return c
}

// renew gives the server a new world.
func (c *counter) renew(t testing.TB) {
	if c.World != nil {
		c.end(t)
	}
	var err error
	c.dir, err = os.MkdirTemp("", "gated")
	require.NoError(t, err)
	c.World = servicetest.Unwatched(t, c.dir)
	c.probes, c.wrote = 0, false
	c.Store.OnCommit(func() { c.commits.Add(1) })
	config := configOf(c.World)
	config.Limits.Beat = time.Millisecond
	config.Status = func(context.Context) (api.Status, error) { return api.Status{Host: servicetest.Host}, nil }
	config.Refused = func(context.Context, op.Requester, string, *refusal.Refusal) { c.own++ }
	c.Server = New(config)
	c.operator = c.enter(t, uint32(os.Getuid()))
	c.stranger = c.enter(t, mallory)
}

// end closes the world and removes its directory.
func (c *counter) end(t testing.TB) {
	for _, p := range []*peer{c.operator, c.stranger} {
		p.caller.Close()
	}
	c.World.Close(t)
	require.NoError(t, os.RemoveAll(c.dir))
}

func (c *counter) enter(t testing.TB, uid uint32) *peer {
	p := &peer{uid: uid, pid: 8, caller: c.Enter(t), crowd: c.crowd}
	_, ok := c.crowd.join(p)
	require.True(t, ok)
	return p
}

// effect is what a probe did.
type effect struct {
	own     bool  // the server itself refused
	commits int64 // of the store
	looks   int64 // at guests
	entries []api.Entry
}

// ask sends a probe, and returns its answer and what it did. ok is false if net/http answers it, or if
// its caller has hung up before the answer.
func (c *counter) ask(t testing.TB, p probe) (got reply, did effect, ok bool) {
	if c.wrote || c.probes == 20 {
		c.renew(t)
	}
	c.probes++
	p.body = []byte(filled(t, c.World, string(p.body)))
	p.headers = strings.ReplaceAll(p.headers, "@token@", servicetest.Token())
	r := p.request()
	if r == nil {
		return reply{}, effect{}, false
	}
	who := c.stranger
	if p.operator {
		who = c.operator
	}
	patience := time.Minute
	if r.Method == http.MethodPost && r.URL.Path == "/v1/reservations" {
		patience = 30 * time.Second // of the caller: a claim may wait
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), peerKey{}, who), patience)
	defer cancel()
	head, looks, commits := c.Head(t), c.Guests.Looks(), c.commits.Load()
	c.own = 0
	w := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
	}()
	c.serve(lastingAnswer{w, cancel}, r.WithContext(ctx))
	did = effect{own: c.own > 0, commits: c.commits.Load() - commits, looks: c.Guests.Looks() - looks}
	c.wrote = did.commits > 0 && w.Code < http.StatusBadRequest
	if did.commits > 0 {
		var err error
		did.entries, err = c.Log.Audit(context.Background(), head, pageMax, pageBytes)
		require.NoError(t, err)
	}
	return reply{w.Code, w.Header(), w.Body.Bytes()}, did, true
}

// keeps is all that the database keeps, apart from the audit log, what it counts, the copies that were handed out (filled
// takes some), and the answers to idempotency keys.
func (c *counter) keeps(t testing.TB) string {
	counts := []string{"spent", "store_meta", "time_mark", "idempotency", "backups"}
	sum := sha256.New()
	require.NoError(t, c.Store.View(context.Background(), func(tx *store.Tx) error {
		objects, err := tx.Schema()
		if err != nil {
			return err
		}
		for _, o := range objects {
			if o.Kind != "table" || strings.HasPrefix(o.Name, "audit") || slices.Contains(counts, o.Name) {
				continue
			}
			if err := rowsInto(sum, tx, o.Name); err != nil {
				return err
			}
		}
		return nil
	}))
	return string(sum.Sum(nil))
}

// rowsInto writes every row of a table, with each value as SQLite quotes it.
func rowsInto(w io.Writer, tx *store.Tx, table string) error {
	var quoted string
	err := tx.QueryRow(`SELECT group_concat('quote("' || name || '")', ' || char(10) || ') FROM pragma_table_info(?)`, table).
		Scan(&quoted)
	if err != nil {
		return err
	}
	rows, err := tx.Query("SELECT " + quoted + " FROM " + table)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s %s\n", table, row)
	}
	return rows.Err()
}

// FuzzHandlers: every end point, through the real mux and the real services, with what any caller may send. Nothing
// panics, and nothing is held after it. A refusal is a problem with a code and the status of the table. If the server
// itself refused, nothing behind it was reached: no commit and no look at a guest. If a service refused, the database
// keeps what it kept, and the log has no new entry but of the refusal.
func FuzzHandlers(f *testing.F) {
	for _, p := range seeds() {
		f.Add(p.route, p.id, p.query, p.headers, p.body, p.operator)
	}
	c := newCounter(f)
	f.Fuzz(func(t *testing.T, route, id, query, headers string, body []byte, operator bool) {
		p := probe{route, id, query, headers, body, operator}
		got, did, ok := c.ask(t, p)
		if !ok {
			return
		}
		if got.status >= http.StatusInternalServerError {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if got.status >= http.StatusBadRequest {
			refused(t, c, got, did)
		} else {
			answered(t, c, p, got, did)
		}
		c.idle(t)
	})
}

// refused asserts what a refusal is.
func refused(t *testing.T, c *counter, got reply, did effect) {
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
	if len(got.body) > most {
		t.Fatalf("refused with %d bytes: %s", len(got.body), got.body)
	}
	if did.own && (did.commits > 0 || did.looks > 0) {
		t.Fatalf("the server refused after %d commits and %d looks: %s", did.commits, did.looks, got.body)
	}
	if did.commits == 0 {
		return
	}
	for _, e := range did.entries {
		if e.Kind != string(audit.Refused) {
			t.Fatalf("refused, and the log says %s: %s", e.Raw, got.body)
		}
	}
	if c.keeps(t) != c.kept {
		t.Fatalf("refused, and the database changed: %s", got.body)
	}
}

// answered asserts what an answer has to be, and that what led to it reads in
// one way.
func answered(t *testing.T, c *counter, p probe, got reply, did effect) {
	t.Helper()
	rt, known := c.routeOf(p.request())
	if !known {
		t.Fatalf("%q is no end point and was answered: %s", p.route, got.body)
	}
	if rt.who == operators && !p.operator {
		t.Fatalf("a stranger was answered: %s", got.body)
	}
	reads := rt.method == http.MethodGet && !strings.HasSuffix(rt.path, "/payload") && rt.path != "/v1/backup"
	if did.own || reads && did.commits > 0 {
		t.Fatalf("answered after a refusal (%v), or a question that wrote %d times: %s", did.own, did.commits, got.body)
	}
	switch got.header.Get("Content-Type") {
	case api.ContentType:
		if !jsontext.Value(got.body).IsValid() {
			t.Fatalf("no JSON: %q", got.body)
		}
	case "", yamlType, "application/octet-stream", "text/event-stream", metricsType:
	default:
		t.Fatalf("%q", got.header)
	}
	body, chunked := filled(t, c.World, string(p.body)), strings.Contains(strings.ToLower(p.headers), "transfer-encoding")
	if rt.body == MaxBody && !jsontext.Value(body).IsValid() && !chunked {
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
