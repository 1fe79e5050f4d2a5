package server

import (
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

func TestWhatAnAgentAsksFor(t *testing.T) {
	w := start(t, -1, nil)
	me := w.be(t, "me")
	require.Equal(t, api.Agent{Name: "me", ID: me.ID, UID: uint32(os.Getuid()), PID: os.Getpid(),
		Bound: "process", Alive: true, RegisteredAt: me.RegisteredAt}, me)
	var a api.RegisteredAgent
	w.do(t, "POST", "/v1/agents", `{"name":"new","token":true}`).into(t, 201, &a)
	require.Equal(t, "token", a.Bound)
	require.NotEmpty(t, a.Token)
	var agents api.AgentList
	w.do(t, "GET", "/v1/agents", "").into(t, 200, &agents)
	require.Len(t, agents.Agents, 4)
	require.Equal(t, me, agents.Agents[1])

	var r api.Reservation
	const place = `{"path":"/nowhere/new","device":1,"inode":18446744073709551615,"fold":true}`
	w.do(t, "POST", "/v1/reservations", `{"scope":`+place+`,
		"patterns":["a","b/**"],"mode":"shared","reason":"why","ttl_seconds":86400,"keep":true}`).into(t, 201, &r)
	require.Equal(t, api.Reservation{ID: "r3", Scope: "/nowhere/new", ScopeID: r.ScopeID, Patterns: []string{"a", "b/**"},
		Mode: api.Shared, Agent: "me", UID: me.UID, HolderAlive: true, Keep: true, Mine: true, Reason: "why",
		CreatedAt: r.CreatedAt, ExpiresAt: r.CreatedAt.Add(24 * time.Hour)}, r)
	w.do(t, "POST", "/v1/reservations", goodClaim).into(t, 201, &r)
	w.do(t, "POST", "/v1/reservations", goodClaim).into(t, 200, &r)
	require.True(t, r.Renewed)

	w.do(t, "POST", "/v1/reservations/r4/renew", `{"ttl_seconds":90}`).into(t, 200, &r)
	require.WithinDuration(t, w.Gate.Moment().Now.Add(90*time.Second), r.ExpiresAt, 30*time.Second)
	w.do(t, "POST", "/v1/reservations/r4/renew", `{}`).into(t, 200, &r)
	require.Greater(t, time.Until(r.ExpiresAt), 5*time.Minute)
	w.do(t, "POST", "/v1/reservations/r4/transfer", `{"to":"tester"}`).into(t, 200, &r)
	require.Equal(t, "tester", r.Agent)
	w.do(t, "DELETE", "/v1/reservations/r3", "").into(t, 200, &r)
	require.Equal(t, "r3", r.ID)
	var list api.ReservationList
	w.do(t, "POST", "/v1/reservations/release-mine", "").into(t, 200, &list)
	require.Empty(t, list.Reservations)

	var sc api.Scope
	w.do(t, "POST", "/v1/scopes", place).into(t, 200, &sc)
	require.Equal(t, api.Place{Path: "/nowhere/new", Device: 1, Inode: math.MaxUint64, Fold: true}, sc.Place)
	var scopes api.ScopeList
	w.do(t, "GET", "/v1/scopes", "").into(t, 200, &scopes)
	require.Len(t, scopes.Scopes, 2)
	require.Contains(t, scopes.Scopes, sc)
}

func TestUnclearReservations(t *testing.T) {
	w := start(t, -1, nil)
	long, before := strings.Repeat("x", 129), w.reached()
	for _, c := range []struct {
		method, path, body string
		status             int
		code               refusal.Code
	}{
		{"POST", "/v1/agents", ``, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"builder#7"}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"` + long + `"}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"self"}`, 422, refusal.BadParams},
		{"POST", "/v1/agents", `{"name":"a","pid":-1}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"a","pid":"7"}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"a","reaper":-1}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"a","pid":1,"token":true}`, 400, refusal.Malformed},
		{"POST", "/v1/agents", `{"name":"a","uid":0}`, 400, refusal.Malformed},
		{"PUT", "/v1/agents", `{}`, 405, refusal.Malformed},
		{"DELETE", "/v1/agents/self", ``, 405, refusal.Malformed},
		{"DELETE", "/v1/agents/builder%237", ``, 400, refusal.Malformed},
		{"GET", "/v1/agents/builder", ``, 405, refusal.Malformed},
		{"GET", "/v1/agents?name=a", ``, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":"/src","patterns":["a"]}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":null}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"agent":"boss"}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src","inode":-1},"patterns":["a"]}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"force":true}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"ttl_seconds":-1}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"ttl_seconds":86401}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"wait_seconds":86401}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"wait_seconds":9223372036854775807}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"wait_seconds":1.5}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations", sized(MaxBody + 1), 413, refusal.Oversized},
		{"POST", "/v1/reservations/check", `{"scope":{"path":"/src"},"patterns":["a"],"ttl_seconds":60}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations/check", sized(MaxBody + 1), 413, refusal.Oversized},
		{"GET", "/v1/reservations/check", ``, 405, refusal.Malformed},
		{"POST", "/v1/reservations/release-mine", `{}`, 400, refusal.Malformed},
		{"GET", "/v1/reservations?scope=", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?scope=src", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=builder%237", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=uid:", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=uid:01", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=uid:1@", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=uid:1@a@b", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?agent=uid:4294967296", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?after=", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?after=12", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?limit=201", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations?holder=a", ``, 400, refusal.Malformed},
		{"GET", "/v1/reservations/r12", ``, 405, refusal.Malformed},
		{"DELETE", "/v1/reservations/12", ``, 400, refusal.Malformed},
		{"DELETE", "/v1/reservations/r012", ``, 400, refusal.Malformed},
		{"DELETE", "/v1/reservations/r12", `{}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations/r0/renew", `{}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations/r12/renew", ``, 400, refusal.Malformed},
		{"POST", "/v1/reservations/r12/renew", `{"ttl_seconds":-1}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations/r12/renew", `{"ttl_seconds":86401}`, 422, refusal.BadParams},
		{"POST", "/v1/reservations/r12/transfer", `{}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations/r12/transfer", `{"to":"uid:0"}`, 400, refusal.Malformed},
		{"POST", "/v1/reservations/r12/transfer", `{"to":"a","force":true}`, 400, refusal.Malformed},
		{"POST", "/v1/scopes", `{"path":"/src","id":"s3"}`, 400, refusal.Malformed},
		{"DELETE", "/v1/scopes", ``, 405, refusal.Malformed},
		{"GET", "/v1/events?for=", ``, 400, refusal.Malformed},
		{"GET", "/v1/events?for=a%20b", ``, 400, refusal.Malformed},
		{"GET", "/v1/events?for=a&for=b", ``, 400, refusal.Malformed},
	} {
		told := len(w.told())
		p := w.do(t, c.method, c.path, c.body).problem(t)
		require.Equal(t, c.status, p.Status, "%s %s %.200s: %s", c.method, c.path, c.body, p.Detail)
		require.Equal(t, c.code, p.Code, "%s %s %.200s", c.method, c.path, c.body)
		if c.method != "GET" || c.body != "" { // a read of a wrong form is not told
			told++
		}
		require.Len(t, w.told(), told, "%s %s", c.method, c.path)
	}
	require.Equal(t, before, w.reached())
}

// A refusal says who is in the way, whole.
func TestConflictsInAProblem(t *testing.T) {
	w := start(t, -1, nil)
	const reason = "</script>"
	body, err := api.Encode(api.Reserve{Scope: servicetest.Src, Patterns: []string{"c/**"}, Reason: reason})
	require.NoError(t, err)
	var theirs api.Reservation
	w.do(t, "POST", "/v1/reservations", string(body), api.TokenHeader, servicetest.Token()).into(t, 201, &theirs)
	require.Equal(t, reason, theirs.Reason)
	r := w.do(t, "POST", "/v1/reservations", goodClaim)
	p := r.problem(t)
	require.Equal(t, http.StatusConflict, p.Status)
	theirs.Mine = false
	require.Equal(t, []api.Conflict{{Pattern: "c/**", Overlaps: "c/**", Reservation: theirs}}, p.Conflicts)
	require.Empty(t, w.told())
	r = w.do(t, "POST", "/v1/reservations", strings.Replace(goodClaim, `}`, `},"reason":"\u001b[31m"`, 1))
	require.Equal(t, refusal.Malformed, r.problem(t).Code)
	require.NotContains(t, string(r.body), "\x1b")

	require.NotContains(t, string(w.do(t, "DELETE", "/v1/reservations/r99", "").body), "conflicts")
	var found api.Checked
	w.do(t, "POST", "/v1/reservations/check", strings.Replace(aCheck, "a/b", "c/d", 1)).into(t, 200, &found)
	require.Equal(t, "c/d", found.Conflicts[0].Pattern)
	w.do(t, "POST", "/v1/reservations/check", aCheck).into(t, 200, &found)
	require.Equal(t, api.Checked{Conflicts: []api.Conflict{}}, found)
}

func TestReservationPages(t *testing.T) {
	w := start(t, -1, nil)
	for i := range 248 {
		w.Reserve(t, "/nowhere/"+strconv.Itoa(i/50), "f"+strconv.Itoa(i))
	}
	for path, want := range map[string]reserve.Query{
		"": {Limit: pageDefault},
		"?scope=%2Fsrc%2Fa+b&agent=uid:1000&after=r3&limit=200": {Path: "/src/a b", Holder: "uid:1000", After: 3, Limit: 200},
		"?agent=builder&limit=1":                                {Holder: "builder", Limit: 1},
	} {
		r, err := http.NewRequest("GET", "http://gated/v1/reservations"+path, nil)
		require.NoError(t, err)
		got, err := (&call{query: r.URL.Query(), r: r}).reservationQuery()
		require.NoError(t, err)
		want.Bytes = pageBytes
		require.Equal(t, want, got)
	}
	// Without a member it is a uid of the caller's host.
	for text, want := range map[string]string{"uid:1000": "uid:1000@node2", "uid:1000@node1": "uid:1000@node1", "builder": "builder"} {
		c := &call{query: url.Values{"agent": {text}}, by: op.Requester{Source: op.SourceAPI, UID: 7, Set: "node2"}}
		require.Equal(t, want, must.Get(c.holder("agent"))(t))
	}
	for query, want := range map[string]int{"scope=/nowhere": 3, "scope=/nowhere/src": 2, "scope=/else": 0,
		"agent=builder": 0, "agent=uid:" + strconv.Itoa(os.Getuid()): 3, "after=r248": 2} {
		var page api.ReservationList
		w.do(t, "GET", "/v1/reservations?limit=3&"+query, "").into(t, 200, &page)
		require.Len(t, page.Reservations, want, query)
	}
	seen, path := 0, "/v1/reservations?limit=100"
	for {
		var page api.ReservationList
		w.do(t, "GET", path, "").into(t, 200, &page)
		for _, r := range page.Reservations {
			seen++
			require.Equal(t, "r"+strconv.Itoa(seen), r.ID)
		}
		if page.Next == nil {
			break
		}
		path = "/v1/reservations?limit=100&after=" + *page.Next
	}
	require.Equal(t, 250, seen)
}

func TestEventsOfOneHolder(t *testing.T) {
	w := start(t, -1, nil)
	n := w.Head(t)
	w.Happen(t, 1, "builder")
	w.Happen(t, 1, "uid:1000")
	for query, want := range map[string][]int64{
		"": {n + 1, n + 2}, "&for=builder": {n + 1}, "&for=uid:1000": {n + 2}, "&for=other": nil,
	} {
		r := w.do(t, "GET", "/v1/events?follow=false&after="+number(n)+query, "")
		require.Equal(t, 200, r.status)
		var got []int64
		for line := range strings.Lines(string(r.body)) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				seq, err := strconv.ParseInt(strings.TrimSpace(id), 10, 64)
				require.NoError(t, err)
				got = append(got, seq)
			}
		}
		require.Equal(t, want, got, query)
	}
}

// A long check is a list's work; a hook's short one waits for nobody's list.
func TestALongCheckWaitsItsTurn(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.ListsUID, c.Limits.Work = 1, 5*time.Second })
	end, err := w.server.turns.Take(t.Context(), uint32(os.Getuid())) // as a list under way
	require.NoError(t, err)
	body := func(n int) string {
		b, err := api.Encode(api.Check{Scope: servicetest.Src, Patterns: slices.Repeat([]string{"x"}, n)})
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, 200, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns-1)).status)
	require.Equal(t, refusal.OverLimit, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns)).problem(t).Code)
	end()
	require.Equal(t, 200, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns)).status)
}
