package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/service"
	"gated/internal/log/journal"
	"gated/internal/test/servicetest"
)

const (
	goodEnvelope = `{"payload":"e30=","signatures":["one","two"]}`
	goodClaim    = `{"scope":{"path":"/nowhere/src","device":1,"inode":2},"patterns":["c/**"]}`
	aCheck       = `{"scope":{"path":"/nowhere/src"},"patterns":["a/b"]}`
)

// reaching has every route, with a request that a new world answers, and a part of the answer. filled puts what
// operators sign into the places @approve@, @reject@ and @offline@.
var reaching = []struct {
	method, path, body string
	status             int
	says               string
}{
	{"GET", "/v1/status", "", 200, `"host":"h"`},
	{"GET", "/v1/health", "", 200, `"state":"ok"`},
	{"GET", "/v1/metrics", "", 200, "gated_up 1"},
	{"POST", "/v1/ops", "@offline@", 200, `"authorized"`},
	{"POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/spare","reason":"old"}`, 202, `"reason":"old"`},
	{"GET", "/v1/jobs", "", 200, `"id":"j10"`},
	{"GET", "/v1/jobs/j1", "", 200, `"id":"j1"`},
	{"DELETE", "/v1/jobs/j3", "", 200, `"cancelled"`},
	{"GET", "/v1/requests", "", 200, `"id":"j2.1"`},
	{"GET", "/v1/requests/j1.1", "", 200, `"id":"j1.1"`},
	{"GET", "/v1/requests/j1.1/payload", "", 200, `"op":"guest.destroy"`},
	{"POST", "/v1/requests/j1.1/approve", "@approve@", 200, `"authorized"`},
	{"POST", "/v1/requests/j2.1/reject", "@reject@", 200, `"rejected"`},
	{"POST", "/v1/classify", `{"op":"guest.destroy","target":"guest/web-1"}`, 200, `"destructive"`},
	{"POST", "/v1/plan?set=web", servicetest.Document, 200, `"name":"app"`},
	{"GET", "/v1/guests", "", 200, `"name":"web-1"`},
	{"GET", "/v1/guests/web-1", "", 200, `"name":"web-1"`},
	{"GET", "/v1/commands", "", 200, `"name":"drop-db"`},
	{"GET", "/v1/commands/drop-db", "", 200, `"name":"drop-db"`},
	{"GET", "/v1/steering", "", 200, `"instead_of":["dropdb *"]`},
	{"GET", "/v1/backends", "", 200, `"name":"local"`},
	{"GET", "/v1/trust", "", 200, `"epoch":1,"sha256":"`},
	{"GET", "/v1/desired", "", 200, `"name":"web"`},
	{"PUT", "/v1/desired/app", "apiVersion: gated/v1\nhost: h\nguests: []\n", 200, `"name":"app"`},
	{"GET", "/v1/desired/web", "", 200, "host: h"},
	{"DELETE", "/v1/desired/web", "", 204, ""},
	{"GET", "/v1/agents", "", 200, `"name":"builder"`},
	{"POST", "/v1/agents", `{"name":"new","token":true}`, 201, `"name":"new"`},
	{"DELETE", "/v1/agents/builder", "", 200, `"name":"builder"`},
	{"GET", "/v1/reservations", "", 200, `"id":"r1"`},
	{"POST", "/v1/reservations", goodClaim, 201, `"patterns":["c/**"]`},
	{"POST", "/v1/reservations/check", aCheck, 200, `"conflicts":[]`},
	{"POST", "/v1/reservations/r1/renew", `{"ttl_seconds":60}`, 200, `"id":"r1"`},
	{"POST", "/v1/reservations/r1/transfer", `{"to":"tester"}`, 200, `"agent":"tester"`},
	{"DELETE", "/v1/reservations/r2", "", 200, `"id":"r2"`},
	{"POST", "/v1/reservations/release-mine", "", 200, `"reservations":[`},
	{"GET", "/v1/scopes", "", 200, "/nowhere/src"},
	{"POST", "/v1/scopes", `{"path":"/nowhere/src","device":1,"inode":2}`, 200, "/nowhere/src"},
	{"GET", "/v1/events?follow=false", "", 200, "id: 1\n"},
	{"GET", "/v1/audit", "", 200, `"seq":1`},
	{"GET", "/v1/audit/head", "", 200, `"note":`},
	{"GET", "/v1/audit/verified", "", 200, `"ok":true,"entries":3,`},
	{"GET", "/v1/audit/consistency?old=3&size=7", "", 200, `"proof":["`},
	{"GET", "/v1/audit/inclusion?seq=3", "", 200, `"proof":["`},
	{"POST", "/v1/canary/14/accept", "", 204, ""},
	{"POST", "/v1/reload", "", 200, `"changed":["policy"]`},
	{"POST", "/v1/takeover", "", 204, ""},
	{"GET", "/v1/backup", "", 200, "SQLite format 3"},
	{"POST", "/v1/backup/verified", `{"sha256":"@copy@"}`, 204, ""},
}

// filled puts envelopes of the operator into a body: for requests of the world, and for a step that it did not issue.
func filled(t testing.TB, w *servicetest.World, body string) string {
	t.Helper()
	for place, envelope := range map[string]func() api.Envelope{
		"@approve@": func() api.Envelope { return w.Approval(t, op.RequestID{Job: 1, Index: 1}) },
		"@reject@":  func() api.Envelope { return w.Rejection(t, op.RequestID{Job: 2, Index: 1}) },
		"@offline@": func() api.Envelope { return w.Offline(t) },
	} {
		if strings.Contains(body, place) {
			b, err := api.Encode(envelope())
			require.NoError(t, err)
			body = strings.ReplaceAll(body, place, string(b))
		}
	}
	if strings.Contains(body, "@copy@") {
		sum := sha256.New()
		require.NoError(t, w.Backup(t.Context(), sum))
		body = strings.ReplaceAll(body, "@copy@", hex.EncodeToString(sum.Sum(nil)))
	}
	return body
}

func TestEveryEndpoint(t *testing.T) {
	w := start(t, -1, nil)
	require.Len(t, w.server.table(), len(reaching)+2, "a route without a row (/v1/ops and /v1/agents/self need no service)")
	for _, c := range reaching {
		r := w.do(t, c.method, c.path, filled(t, w.World, c.body))
		require.Equal(t, c.status, r.status, "%s %s: %s", c.method, c.path, r.body)
		require.Contains(t, string(r.body), c.says, "%s %s", c.method, c.path)
	}
	require.Empty(t, w.told())
}

// A service refuses: the caller gets that refusal whole.
func TestRefusalsArePassed(t *testing.T) {
	ctx, by, no := t.Context(), servicetest.Caller(), errors.New("disk: /var/lib/gated/gated.db is broken")
	var fails error
	w := start(t, -1, func(c *Config) {
		c.Status = func(context.Context) (api.Status, error) { return api.Status{}, fails }
		c.Backends = func(context.Context) ([]api.Backend, error) { return nil, fails }
		c.Backup = func(context.Context, io.Writer) error { return fails }
	})
	id, gone := op.RequestID{Job: 1, Index: 1}, op.RequestID{Job: 99, Index: 1}
	old := w.Approval(t, id)
	require.NoError(t, errOf(w.Gate.Approve(ctx, by, id, opened(t, old))))
	again, err := api.Encode(old)
	require.NoError(t, err)
	for _, c := range []struct {
		method, path, body string
		asked              func() error
	}{
		{"POST", "/v1/requests/j1.1/approve", string(again), func() error { return errOf(w.Gate.Approve(ctx, by, id, opened(t, old))) }},
		{"POST", "/v1/requests/j1.1/reject", goodEnvelope, func() error { return errOf(w.Gate.Reject(ctx, by, id, twoWords)) }},
		{"POST", "/v1/ops", goodEnvelope, func() error { return errOf(w.Gate.ApproveOffline(ctx, by, twoWords)) }},
		{"POST", "/v1/jobs", `{"op":"guest.no","target":"guest/db"}`, func() error {
			ask := op.Ask{Op: "guest.no", Target: op.Target{Kind: "guest", Name: "db"}}
			return errOf(w.Gate.Submit(ctx, op.Submission{Requester: by, Steps: []op.Ask{ask}}))
		}},
		{"GET", "/v1/jobs/j99", "", func() error { return errOf(w.Gate.Job(ctx, 99)) }},
		{"DELETE", "/v1/jobs/j99", "", func() error { return errOf(w.Gate.Cancel(ctx, by, 99)) }},
		{"GET", "/v1/requests/j99.1", "", func() error { return errOf(w.Gate.Shown(ctx, gone)) }},
		{"GET", "/v1/guests/gone", "", func() error { return errOf(w.Shown.Guest(ctx, by, "gone")) }},
		{"GET", "/v1/commands/gone", "", func() error { return errOf(w.Commands.Command(ctx, "gone")) }},
		{"GET", "/v1/desired/gone", "", func() error { return errOf(w.Gate.Set(ctx, "gone")) }},
		{"PUT", "/v1/desired/web", "host: h", func() error { return errOf(w.Desired.PutSet(ctx, by, "web", "", []byte("host: h"))) }},
		{"DELETE", "/v1/desired/gone", "", func() error { return w.Desired.DeleteSet(ctx, by, "gone") }},
		{"POST", "/v1/plan", "host: h", func() error { return errOf(w.Desired.Plan(ctx, "", []byte("host: h"))) }},
		{"DELETE", "/v1/agents/gone", "", func() error { return errOf(w.Agents.Unregister(ctx, by, "gone", true)) }},
		{"DELETE", "/v1/reservations/r99", "", func() error { return errOf(w.Reservations.Release(ctx, by, 99)) }},
		{"POST", "/v1/reservations/r99/transfer", `{"to":"a"}`, func() error { return errOf(w.Reservations.Transfer(ctx, by, 99, "a")) }},
		{"GET", "/v1/audit/inclusion?seq=999999", "", func() error { return errOf(w.Log.Inclusion(ctx, 999999)) }},
		{"GET", "/v1/audit/consistency?old=3&size=999999", "", func() error { return errOf(w.Log.Consistency(ctx, 3, 999999)) }},
		{"POST", "/v1/canary/99/accept", "", func() error { return w.Canary.Accept(ctx, by.String(), 99) }},
	} {
		p := w.do(t, c.method, c.path, c.body).problem(t)
		require.Equal(t, refusal.As(c.asked()), p.Refusal(), "%s %s", c.method, c.path)
	}
	for _, path := range []string{"/v1/status", "/v1/backends", "/v1/backup"} {
		fails = refusal.New(refusal.OverLimit, "too many").At(refusal.StageNonce).WithHint("later").About(id, op.StateSucceeded)
		p := w.do(t, "GET", path, "").problem(t)
		require.Equal(t, fails, error(p.Refusal()), path)
		require.Equal(t, http.StatusTooManyRequests, p.Status)
		fails = no
		p = w.do(t, "GET", path, "").problem(t)
		require.Equal(t, refusal.Internal, p.Code, path)
		require.NotContains(t, p.Detail, "/var")
	}
	require.Empty(t, w.told(), "the gate writes down what it refuses itself")
}

func errOf[T any](_ T, err error) error { return err }

// twoWords is goodEnvelope as the gate gets it.
var twoWords = authz.Envelope{Payload: []byte("{}"), Signatures: []string{"one", "two"}}

func opened(t *testing.T, e api.Envelope) authz.Envelope {
	t.Helper()
	payload, err := e.Open()
	require.NoError(t, err)
	return authz.Envelope{Payload: payload, Signatures: e.Signatures}
}

// places puts an envelope that no operator signed into a body.
var places = strings.NewReplacer("@approve@", goodEnvelope, "@reject@", goodEnvelope, "@offline@", goodEnvelope,
	"@copy@", strings.Repeat("0", 64))

// needsNoStore are the rows of reaching that are answered without the database. A plan says for each guest what failed.
var needsNoStore = []string{"POST /v1/plan?set=web", "GET /v1/status", "GET /v1/health", "GET /v1/metrics", "GET /v1/commands", "GET /v1/commands/drop-db",
	"GET /v1/steering", "GET /v1/backends", "GET /v1/audit/verified", "GET /v1/agents", "GET /v1/backup"}

// The database fails: the caller hears so, and does not hear where it is.
func TestEveryEndpointWithoutADatabase(t *testing.T) {
	w := start(t, -1, nil)
	require.NoError(t, w.Store.Close())
	for _, c := range reaching {
		if slices.Contains(needsNoStore, c.method+" "+c.path) {
			continue
		}
		p := w.do(t, c.method, c.path, places.Replace(c.body)).problem(t)
		require.Contains(t, []refusal.Code{refusal.Internal, refusal.Unavailable}, p.Code, "%s %s", c.method, c.path)
		require.NotContains(t, p.Detail, w.Store.Path(), "%s %s", c.method, c.path)
	}
	require.Empty(t, w.told())
}

// A panic ends one call. A server without services panics in each.
func TestEveryEndpointSurvivesAPanic(t *testing.T) {
	w := start(t, -1, func(c *Config) {
		*c = Config{UID: c.UID, SingleUser: true, Now: c.Now, Logger: c.Logger, Commands: new(service.Commands)}
	})
	for _, c := range reaching {
		if strings.HasPrefix(c.path, "/v1/commands") || c.path == "/v1/steering" { // a list needs no service
			continue
		}
		p := w.do(t, c.method, c.path, places.Replace(c.body)).problem(t)
		require.Equal(t, refusal.Internal, p.Code, "%s %s", c.method, c.path)
	}
	require.Equal(t, 200, w.do(t, "GET", "/v1/ops", "").status)
}

func TestSubmitAnswersWhatWaits(t *testing.T) {
	w := start(t, -1, nil)
	const body = `{"op":"guest.destroy","target":"guest/old","params":{},"reason":"old"}`
	var job, again api.Job
	w.do(t, "POST", "/v1/jobs", body, "Idempotency-Key", "k 1").into(t, 202, &job)
	require.Equal(t, op.StatePending, job.State)
	require.Equal(t, refusal.PendingSignature, job.Error.Code)
	require.Equal(t, "j11.1", *job.Request)
	kept, err := w.Gate.Job(t.Context(), 11)
	require.NoError(t, err)
	require.Equal(t, "old", kept.Reason)
	require.Equal(t, []op.Requester{servicetest.Caller()}, kept.Requesters)
	w.do(t, "POST", "/v1/jobs", body, "Idempotency-Key", "k 1").into(t, 202, &again)
	require.Equal(t, job, again, "the same key is the same job")
	other := strings.Replace(body, `"reason":"old"`, `"reason":"other"`, 1)
	p := w.do(t, "POST", "/v1/jobs", other, "Idempotency-Key", "k 1").problem(t)
	require.Equal(t, refusal.Conflict, p.Code, "the key is that of another submission")
}

// One signature of two leaves the request waiting.
func TestApproveAnswers(t *testing.T) {
	w := start(t, -1, nil)
	var r api.Request
	w.do(t, "POST", "/v1/requests/j1.1/approve", filled(t, w.World, "@approve@")).into(t, 200, &r)
	require.Equal(t, 0, r.Missing)
	w.do(t, "POST", "/v1/requests/j2.1/reject", filled(t, w.World, "@reject@")).into(t, 200, &r)
	require.Equal(t, refusal.Rejected, r.Error.Code)
	a, err := decided(op.Request{Payload: requestOf(t, w).Payload, Step: op.Step{State: op.StatePending}}, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, a.status)
}

func requestOf(t *testing.T, w *world) op.Request {
	t.Helper()
	r, err := w.Gate.Request(t.Context(), op.RequestID{Job: 1, Index: 1})
	require.NoError(t, err)
	return r
}

// showings is how many payloads the gate knows that an operator read.
func (w *world) showings(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, w.Store.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM showings").Scan(&n)
	}))
	return n
}

func TestPayloadIsTheExactBytes(t *testing.T) {
	w := start(t, -1, nil)
	w.do(t, "GET", "/v1/requests/j1.1/payload", "", api.TokenHeader, servicetest.Token())
	w.do(t, "GET", "/v1/requests/j1.1", "")
	require.Zero(t, w.showings(t), "an agent under an operator's uid reads nothing to sign it")
	r := w.do(t, "GET", "/v1/requests/j1.1/payload", "")
	require.Equal(t, 1, w.showings(t))
	require.Equal(t, requestOf(t, w).Payload, r.body)
	require.Equal(t, api.ContentType, r.header.Get("Content-Type"))
}

// A job says why a step of it that may run does not: what runs steps tells the server.
func TestAJobSaysWhyAStepIsHeld(t *testing.T) {
	again := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	w := start(t, -1, func(c *Config) {
		c.Held = func(s op.Step) (string, time.Time) { return s.ID.String() + ": the pool is not active", again }
	})
	var j api.Job
	w.do(t, "GET", "/v1/jobs/j3", "").into(t, 200, &j)
	require.Equal(t, refusal.Unavailable, j.Steps[0].Error.Code)
	require.Equal(t, "j3.1: the pool is not active", j.Steps[0].Error.Detail)
	require.Equal(t, &again, j.Steps[0].RetryAt)
}

func TestOpsIsTheCatalogue(t *testing.T) {
	w := start(t, -1, nil)
	var list api.OpList
	w.do(t, "GET", "/v1/ops", "").into(t, 200, &list)
	require.Len(t, list.Ops, len(op.Catalogue()))
}

func TestJobListPages(t *testing.T) {
	w := start(t, -1, nil)
	var list api.JobList
	w.do(t, "GET", "/v1/jobs?state=planned&after=j3&limit=1", "").into(t, 200, &list)
	require.Len(t, list.Jobs, 1)
	require.Equal(t, "j4", *list.Next)
	require.Equal(t, "j4", list.Jobs[0].ID)
	list = api.JobList{}
	w.do(t, "GET", "/v1/jobs", "").into(t, 200, &list)
	require.Len(t, list.Jobs, 10)
	require.Nil(t, list.Next)
}

// Every job of a closed state is found by following next, whatever the gaps, and no call looks through more than
// jobsExamined. The jobs are rows by hand, because no test can wait for 200,000 jobs.
func TestJobsOfAClosedStateByTheirPages(t *testing.T) {
	behind := servicetest.Unwatched(t, t.TempDir())
	defer behind.Close(t)
	require.NoError(t, behind.Store.Update(t.Context(), func(tx *store.Tx) error {
		for _, id := range []int{33, 1000, 2002, 2003, 2004, 90_001, 90_003, 200_001} {
			state := "failed"
			if id%3 != 0 {
				state = "succeeded"
			}
			if err := copyJob(tx, id, state); err != nil {
				return err
			}
		}
		return nil
	}))
	w := startOn(t, behind, -1, nil)
	for _, limit := range []string{"1", "2", "500"} {
		got, calls := []string{}, 0
		for after := "j0"; ; calls++ {
			require.Less(t, calls, 12)
			path := "/v1/jobs?state=failed&limit=" + limit
			if after != "j0" {
				path += "&after=" + after
			}
			var page api.JobList
			w.do(t, "GET", path, "").into(t, 200, &page)
			for _, j := range page.Jobs {
				got = append(got, j.ID)
			}
			if page.Next == nil {
				break
			}
			require.NotEqual(t, after, *page.Next)
			after = *page.Next
		}
		require.Equal(t, []string{"j33", "j2004", "j90003", "j200001"}, got, limit)
	}
}

// copyJob copies j3 to another number, with a step in another state.
func copyJob(tx *store.Tx, job int, state string) error {
	const jobs = "INSERT INTO jobs SELECT ?, reason, created_at, created_at FROM jobs WHERE id = 3"
	if _, err := tx.Exec(jobs, job); err != nil {
		return err
	}
	if _, err := tx.Exec("CREATE TEMP TABLE IF NOT EXISTS one AS SELECT * FROM steps WHERE job = 3"); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE one SET job = ?, state = ?", job, state); err != nil {
		return err
	}
	_, err := tx.Exec("INSERT INTO steps SELECT * FROM one")
	return err
}

func TestDesiredSets(t *testing.T) {
	w := start(t, -1, nil)
	was, body := op.SHA256([]byte(servicetest.Document)), servicetest.Document
	for _, header := range []string{`"` + was + `"`, `*`, ""} {
		body += "# more\n"
		var headers []string
		if header != "" {
			headers = []string{"If-Match", header}
		}
		r := w.do(t, "PUT", "/v1/desired/web", body, headers...)
		var s api.Set
		r.into(t, 200, &s)
		require.Equal(t, `"`+op.SHA256([]byte(body))+`"`, r.header.Get("ETag"))
		require.Equal(t, api.Set{Name: "web", ETag: op.SHA256([]byte(body)), Bytes: len(body)}, s)
	}
	for _, header := range []string{`"` + was + `"`, `"a,b"`} {
		p := w.do(t, "PUT", "/v1/desired/web", body, "If-Match", header).problem(t)
		require.Equal(t, refusal.Conflict, p.Code, header)
	}
	r := w.do(t, "GET", "/v1/desired/web", "")
	require.Equal(t, body, string(r.body))
	require.Equal(t, `"`+op.SHA256(r.body)+`"`, r.header.Get("ETag"))
	require.Equal(t, yamlType, r.header.Get("Content-Type"))

	var list api.SetList
	w.do(t, "GET", "/v1/desired", "").into(t, 200, &list)
	require.Len(t, list.Sets, 1)
	require.NotNil(t, list.Sets[0].UpdatedAt)
	list.Sets[0].UpdatedAt = nil
	require.Equal(t, api.Set{Name: "web", ETag: op.SHA256(r.body), Bytes: len(body)}, list.Sets[0])

	require.Empty(t, w.do(t, "DELETE", "/v1/desired/web", "").body)
	require.Equal(t, refusal.UnknownTarget, w.do(t, "GET", "/v1/desired/web", "").problem(t).Code)
}

// Requests that are refused before anything behind the server is asked.
func TestUnclearRequests(t *testing.T) {
	w := start(t, -1, nil)
	before := w.reached()
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		code               refusal.Code
	}{
		{"GET", "/", "", nil, 404, refusal.Malformed},
		{"GET", "/v2/status", "", nil, 404, refusal.Malformed},
		{"GET", "/v1/status/", "", nil, 404, refusal.Malformed},
		{"GET", "/v1//status", "", nil, 404, refusal.Malformed},
		{"GET", "/v1/x/../status", "", nil, 404, refusal.Malformed},
		{"GET", "/v1/guests/..", "", nil, 404, refusal.Malformed},
		{"GET", "/v1/guests/%2e%2e", "", nil, 404, refusal.Malformed},
		{"GET", "/v1/guests/a%2Fb", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/guests/*", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/guests/a%00b", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/commands/a%2Fb", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/commands/..", "", nil, 404, refusal.Malformed},
		{"POST", "/v1/commands", "{}", nil, 405, refusal.Malformed},
		{"POST", "/v1/backends", "{}", nil, 405, refusal.Malformed},
		{"GET", "/v1/backends/local", "", nil, 404, refusal.Malformed},
		{"POST", "/v1/status", "{}", nil, 405, refusal.Malformed},
		{"HEAD-LIKE", "/v1/status", "", nil, 405, refusal.Malformed},
		{"PATCH", "/v1/jobs/j12", "{}", nil, 405, refusal.Malformed},
		{"GET", "/v1/status", "{}", nil, 400, refusal.Malformed},
		{"DELETE", "/v1/jobs/j12", "{}", nil, 400, refusal.Malformed},
		{"GET", "/v1/status?x=1", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?state=pending_signature&state=failed", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?State=failed", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?state=", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?state=waiting", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?after=12", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?limit=0", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?limit=501", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs?limit=%zz", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/requests?state=x", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/audit?after=-1", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/audit?after=x", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/events?after=1.5", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/events?follow=maybe", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/events", "", []string{"Last-Event-ID", "x"}, 400, refusal.Malformed},
		{"GET", "/v1/jobs/12", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/jobs/j012", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/requests/j12", "", nil, 400, refusal.Malformed},
		{"GET", "/v1/requests/j12.0", "", nil, 400, refusal.Malformed},
		{"POST", "/v1/requests/j12/approve", goodEnvelope, nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", "", nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", "null", nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","target":"guest/a"} {}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","target":"guest/a","created_by":"me"}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","op":"a","target":"guest/a"}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","target":"guest/a"}`, []string{"Idempotency-Key", ""}, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","target":"guest/a"}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "a"}, 400, refusal.Malformed},
		{"POST", "/v1/jobs", `{"op":"a","target":"guest/a"}`, []string{"Idempotency-Key", "é"}, 400, refusal.Malformed},
		{"POST", "/v1/classify", `{"op":"a"}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/classify", `{"op":"a","target":"guest/a","class":"benign"}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/ops", `{"payload":"e30=","signatures":[]}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/ops", `{"payload":"e30","signatures":["a"]}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/requests/j12.1/approve", `{"payload":"e30=","signatures":["a"],"role":"x"}`, nil, 400, refusal.Malformed},
		{"POST", "/v1/requests/j12.1/reject", `{"payload":"e30=","signatures":"a"}`, nil, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `W/"e1"`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `"e1", "e2"`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `"*"`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `"`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `e1`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-Match", `"e1"`, "If-Match", `"e1"`}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/web", "x", []string{"If-None-Match", "*"}, 400, refusal.Malformed},
		{"PUT", "/v1/desired/-web", "x", nil, 400, refusal.Malformed},
		{"DELETE", "/v1/desired/web", "", []string{"If-Match", `"e1"`}, 400, refusal.Malformed},
	} {
		told := len(w.told())
		p := w.do(t, c.method, c.path, c.body, c.headers...).problem(t)
		require.Equal(t, c.status, p.Status, "%s %s %s %v: %s", c.method, c.path, c.body, c.headers, p.Detail)
		require.Equal(t, c.code, p.Code)
		if c.method != "GET" || c.body != "" { // a read of a wrong form is not told
			told++
		}
		require.Len(t, w.told(), told, "%s %s", c.method, c.path)
	}
	require.Equal(t, before, w.reached())
}

func TestAWrongMethodSaysWhichAreRight(t *testing.T) {
	w := start(t, -1, nil)
	require.Equal(t, "DELETE, GET, PUT", w.do(t, "POST", "/v1/desired/web", "x").header.Get("Allow"))
}

func TestToldWhoAndWhat(t *testing.T) {
	w := start(t, -1, nil)
	w.do(t, "POST", "/v1/jobs", `{`)
	w.do(t, "POST", "/"+strings.Repeat("x", 500), "")
	told := w.told()
	require.Equal(t, fmt.Sprintf("uid:%d malformed POST /v1/jobs", os.Getuid()), told[0])
	require.Less(t, len(told[1]), 300)
}

// The page for people names every end point.
func TestDocumentedEndpoints(t *testing.T) {
	b, err := os.ReadFile("../../../docs/formats/http-api.md")
	require.NoError(t, err)
	named := strings.NewReplacer("/commands/{name}", "/commands/drop-db", "/requests/{id}", "/requests/j12.1", "/reservations/{id}", "/reservations/r12",
		"/agents/{name}", "/agents/builder", "{change}", "812", "{id}", "j12", "{name}", "web-1", "{set}", "web")
	for _, r := range New(Config{}).table() {
		require.Contains(t, string(b), "http://gated"+named.Replace(r.path), r.path)
	}
}

// Whoever hangs up at once does not keep a refusal out of the log.
func TestToldThoughTheCallerIsGone(t *testing.T) {
	told := make(chan error, 1)
	w := start(t, -1, func(c *Config) {
		c.Refused = func(ctx context.Context, _ op.Requester, _ string, _ *refusal.Refusal) { told <- ctx.Err() }
	})
	conn := w.dial(t)
	_, err := io.WriteString(conn, "DELETE /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, <-told)
}

// A gate without commands lists none, and has none of any name.
func TestNoCommands(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Commands = nil })
	var list api.CommandList
	w.do(t, "GET", "/v1/commands", "").into(t, 200, &list)
	require.Empty(t, list.Commands)
	p := w.do(t, "GET", "/v1/commands/drop-db", "").problem(t)
	require.Equal(t, refusal.UnknownTarget, p.Code)
	require.NotEmpty(t, p.Hint)
}

// What a step printed is in the answer about its job, and in no list.
func TestOutputIsOfOneJob(t *testing.T) {
	behind := servicetest.Unwatched(t, t.TempDir())
	defer behind.Close(t)
	require.NoError(t, behind.Store.Update(t.Context(), func(tx *store.Tx) error {
		return journal.AddOutput(tx, op.StepID{Job: 3, Index: 1}, "\x1b[31mdone\n")
	}))
	w := startOn(t, behind, -1, nil)
	var job api.Job
	w.do(t, "GET", "/v1/jobs/j3", "").into(t, 200, &job)
	require.Equal(t, "\x1b[31mdone\n", job.Steps[0].Output)
	require.NotContains(t, string(w.do(t, "GET", "/v1/jobs/j4", "").body), `"output"`)
	require.NotContains(t, string(w.do(t, "GET", "/v1/jobs", "").body), `"output"`)
}
