package server

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

func TestWhatAnAgentAsksFor(t *testing.T) {
	w := start(t, -1, nil)
	var a api.RegisteredAgent
	w.do(t, "POST", "/v1/agents", `{"name":"builder","pid":7,"reaper":1}`).into(t, 201, &a)
	require.Equal(t, api.RegisterAgent{Name: "builder", PID: 7, Reaper: 1}, w.register)
	require.Equal(t, api.RegisteredAgent{Agent: api.Agent{Name: "builder", ID: "builder#7"}, Token: "t"}, a)
	w.do(t, "POST", "/v1/agents", `{"name":"builder","token":true}`).into(t, 201, &a)
	require.Equal(t, api.RegisterAgent{Name: "builder", Token: true}, w.register)

	var gone api.Agent
	w.do(t, "DELETE", "/v1/agents/builder", "").into(t, 200, &gone)
	require.Equal(t, "builder", gone.Name)
	require.True(t, w.operator, "the daemon's own uid is an operator's")
	var agents api.AgentList
	w.do(t, "GET", "/v1/agents", "").into(t, 200, &agents)
	require.Equal(t, []api.Agent{{Name: "builder"}}, agents.Agents)

	var r api.Reservation
	w.do(t, "POST", "/v1/reservations", `{"scope":{"path":"/src","device":1,"inode":18446744073709551615,"fold":true},
		"patterns":["a","b/**"],"mode":"shared","reason":"why","ttl_seconds":86400,"keep":true}`).into(t, 201, &r)
	require.Equal(t, api.Reserve{Scope: api.Place{Path: "/src", Device: 1, Inode: math.MaxUint64, Fold: true},
		Patterns: []string{"a", "b/**"}, Mode: api.Shared, Reason: "why", TTLSeconds: 86400, Keep: true}, w.claim)
	w.do(t, "POST", "/v1/reservations", `{"scope":{"path":"/src"},"patterns":["a"],"reason":"again"}`).into(t, 200, &r)
	require.True(t, r.Renewed)

	w.do(t, "POST", "/v1/reservations/r12/renew", `{}`).into(t, 200, &r)
	require.Zero(t, w.ttl)
	w.do(t, "POST", "/v1/reservations/r12/renew", `{"ttl_seconds":90}`).into(t, 200, &r)
	require.Equal(t, 90*time.Second, w.ttl)
	w.do(t, "POST", "/v1/reservations/r12/transfer", `{"to":"tester"}`).into(t, 200, &r)
	require.Equal(t, "tester", r.Agent)
	w.do(t, "DELETE", "/v1/reservations/r12", "").into(t, 200, &r)
	require.Equal(t, "r12", r.ID)
	var list api.ReservationList
	w.do(t, "POST", "/v1/reservations/release-mine", "").into(t, 200, &list)
	require.Equal(t, api.ReservationList{Reservations: []api.Reservation{{ID: "r12", Patterns: []string{}}}}, list)

	var sc api.Scope
	w.do(t, "POST", "/v1/scopes", `{"path":"/src","device":1,"inode":2}`).into(t, 200, &sc)
	require.Equal(t, api.Scope{ID: "s3", Place: api.Place{Path: "/src", Device: 1, Inode: 2}}, sc)
	var scopes api.ScopeList
	w.do(t, "GET", "/v1/scopes", "").into(t, 200, &scopes)
	require.Equal(t, []api.Scope{sc}, scopes.Scopes)
}

func TestUnclearReservations(t *testing.T) {
	w := start(t, -1, nil)
	long := strings.Repeat("x", 129)
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
		require.Len(t, w.told(), told+1, "%s %s is not told", c.method, c.path)
	}
	require.Empty(t, w.calls())
}

// A refusal says who is in the way, whole.
func TestConflictsInAProblem(t *testing.T) {
	w := start(t, -1, nil)
	theirs := api.Reservation{ID: "r3", Scope: "/src", ScopeID: "s3", Patterns: []string{"a/**"}, Mode: api.Exclusive, Agent: "tester",
		UID: 7, HolderAlive: true, Reason: "</script>\x1b[31m", CreatedAt: noon, ExpiresAt: noon.Add(time.Hour)}
	w.conflicts = []api.Conflict{{Pattern: "a/b", Overlaps: "a/**", Reservation: theirs}}
	w.err = refusal.New(refusal.Conflict, "somebody has it").WithHint("wait")
	r := w.do(t, "POST", "/v1/reservations", goodClaim)
	p := r.problem(t)
	require.Equal(t, http.StatusConflict, p.Status)
	require.Equal(t, w.err, error(p.Refusal()))
	require.Equal(t, w.conflicts, p.Conflicts)
	require.NotContains(t, string(r.body), "\x1b")
	require.Empty(t, w.told())

	w.conflicts = nil
	require.NotContains(t, string(w.do(t, "POST", "/v1/reservations", goodClaim).body), "conflicts")
	w.err = nil
	var found api.Checked
	w.do(t, "POST", "/v1/reservations/check", `{"scope":{"path":"/src"},"patterns":["a"]}`).into(t, 200, &found)
	require.Equal(t, api.Checked{Conflicts: []api.Conflict{}}, found)
}

func TestReservationPages(t *testing.T) {
	w := start(t, -1, nil)
	w.kept = 250
	for path, want := range map[string]ReservationQuery{
		"": {Limit: pageDefault},
		"?scope=%2Fsrc%2Fa+b&agent=uid:1000&after=r3&limit=200": {Scope: "/src/a b", Agent: "uid:1000", After: 3, Limit: 200},
		"?agent=builder&limit=1":                                {Agent: "builder", Limit: 1},
	} {
		require.Equal(t, 200, w.do(t, "GET", "/v1/reservations"+path, "").status)
		want.Bytes = pageBytes
		require.Equal(t, want, w.asksFor)
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
	for query, want := range map[string]string{"": "", "&for=builder": "builder", "&for=uid:1000": "uid:1000"} {
		require.Equal(t, 200, w.do(t, "GET", "/v1/events?follow=false"+query, "").status)
		require.Equal(t, want, w.concerns)
	}
}

// A long check is a list's work; a hook's short one waits for nobody's list.
func TestALongCheckWaitsItsTurn(t *testing.T) {
	f := slow{fake: newFake(t), held: make(chan struct{}, 8), hold: make(chan struct{})}
	w := start(t, -1, func(c *Config) { c.Gate, c.Limits.ListsUID, c.Limits.Work = f, 1, 200*time.Millisecond })
	checked := make(chan int)
	go func() { checked <- w.do(t, "GET", "/v1/jobs", "").status }()
	<-f.held
	body := func(n int) string {
		b, err := api.Encode(api.Check{Scope: api.Place{Path: "/src"}, Patterns: make([]string, n)})
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, 200, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns-1)).status)
	require.Equal(t, refusal.OverLimit, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns)).problem(t).Code)
	close(f.hold)
	require.Equal(t, 200, <-checked)
	require.Equal(t, 200, w.do(t, "POST", "/v1/reservations/check", body(manyPatterns)).status)
}
