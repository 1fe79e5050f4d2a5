package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/servicetest"
)

// seeds are what FuzzHandlers starts from: of each end point a request that is
// answered (those of the table reaching), and the same with what no end point
// takes.
func seeds() []probe {
	var out []probe
	for _, rt := range newTable() {
		for _, r := range reaching {
			path, query, _ := strings.Cut(r.path, "?")
			id, fits := wildcard(rt.path, path)
			if r.method != rt.method || !fits {
				continue
			}
			good := probe{route: rt.method + " " + rt.path, id: id, query: query, body: []byte(r.body), operator: true}
			out = append(out, good, good.stranger(), good.with("x=1", good.headers), good.with("%zz", good.headers),
				good.with(query, "Gated-Agent-Token: @token@"), good.with(query, "Gated-Agent-Token: a b"))
			if rt.body == 0 {
				out = append(out, good.saying("{}"))
				continue
			}
			out = append(out, good.saying(""), good.saying("null"), good.saying(r.body+r.body), good.saying("{\"a\":1,\"a\":2}"))
			if strings.HasPrefix(r.body, "{") {
				out = append(out, good.saying(strings.Replace(r.body, "{", "{\"\xff\":0,", 1)))
			}
			chunked := good.saying("")
			chunked.headers, chunked.body = "Transfer-Encoding: chunked", []byte("2\r\n{}\r\n0\r\n\r\n")
			out = append(out, chunked)
		}
	}
	return append(out, oddSeeds...)
}

// oddSeeds are of single end points.
var oddSeeds = []probe{
	{route: "GET /v1/ops"},
	{route: "GET /v1/ops", query: "x=1"},
	{route: "GET " + selfPath},
	{route: "GET " + selfPath, body: []byte("{}")},
	{route: "GET /v1/events", query: "after=3&follow=true&for=uid:1000", headers: "Last-Event-ID: 2"},
	{route: "GET /v1/events", query: "follow=maybe"},
	{route: "GET /v1/events", query: "follow=false", headers: "Last-Event-ID: -2"},
	{route: "GET /v1/jobs", query: "state=failed&after=j3&limit=7"},
	{route: "GET /v1/reservations", query: "scope=/src&agent=uid:7&after=r1&limit=200"},
	{route: "POST /v1/jobs", headers: "Idempotency-Key: k", body: []byte(`{"steps":[{"op":"guest.create","target":"guest/a","params":{"memory":1e2}}]}`)},
	{route: "POST /v1/jobs", headers: "Idempotency-Key: a\nIdempotency-Key: b", body: []byte(`{"op":"guest.start","target":"guest/a"}`)},
	{route: "POST /v1/reservations", body: []byte(`{"scope":{"path":"/nowhere/src","device":1,"inode":2},"patterns":["z/**"],"wait_seconds":5,"ttl_seconds":9}`)},
	{route: "POST /v1/reservations", body: []byte(`{"scope":{"path":"/src"},"patterns":["a"],"ttl_seconds":9223372036854775807}`)},
	{route: "PUT /v1/desired/{set}", id: "web", headers: "If-Match: *", body: []byte(servicetest.Document), operator: true},
	{route: "PUT /v1/desired/{set}", id: "web", headers: "If-None-Match: *", body: []byte("host: h"), operator: true},
	{route: "DELETE /v1/desired/{set}", id: "..%2f..%2fetc", operator: true},
	{route: "GET /v1/guests/{name}", id: "%2e%2e"},
	{route: "GET /v1/requests/{id}", id: "j1.1.1"},
	{route: "GET /v1//jobs"},
	{route: "GET /../v1/jobs"},
	{route: "TRACE /v1/jobs"},
	{route: "OPTIONS *"},
	{route: "GET http://other/v1/jobs"},
}

// newTable is the table of a server that nobody asks.
func newTable() []route { return New(Config{}).table() }

// wildcard returns what stands at a pattern's place in a path, "" where it has
// none.
func wildcard(pattern, path string) (id string, fits bool) {
	before, after, has := strings.Cut(pattern, "{")
	if !has {
		return "", pattern == path
	}
	_, after, _ = strings.Cut(after, "}")
	id, begins := strings.CutPrefix(path, before)
	id, ends := strings.CutSuffix(id, after)
	return id, begins && ends && id != "" && !strings.Contains(id, "/")
}

func (p probe) stranger() probe { p.operator = false; return p }

func (p probe) saying(body string) probe { p.body = []byte(body); return p }

func (p probe) with(query, headers string) probe { p.query, p.headers = query, headers; return p }

// Every end point is one that the fuzzer starts from: with a request that is
// answered and with one that is refused. A new row of the table needs its row in
// reaching.
func TestEveryEndPointIsFuzzed(t *testing.T) {
	c := newCounter(t)
	answered, refused := map[string]bool{}, map[string]bool{}
	for _, p := range seeds() {
		got, _, ok := c.ask(t, p)
		if !ok {
			continue // net/http answers it
		}
		require.Less(t, got.status, http.StatusInternalServerError, "%s: %s", p.route, got.body)
		if got.status < http.StatusBadRequest {
			answered[p.route] = true
		} else {
			refused[p.route] = true
		}
	}
	names := slices.Collect(func(yield func(string) bool) {
		for _, rt := range c.table() {
			if name := rt.method + " " + rt.path; !answered[name] || !refused[name] {
				yield(name)
			}
		}
	})
	require.Empty(t, names, "end points from which FuzzHandlers does not start both ways")
}
