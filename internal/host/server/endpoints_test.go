package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

const (
	goodEnvelope = `{"payload":"e30=","signatures":["one","two"]}`
	goodClaim    = `{"scope":{"path":"/src","device":1,"inode":2},"patterns":["a/**"]}`
)

// Every route, with a request that reaches what stands behind it.
var reaching = []struct {
	method, path, body string
	status             int
	reaches            string
}{
	{"GET", "/v1/status", "", 200, "Status"},
	{"POST", "/v1/ops", goodEnvelope, 202, "ApproveOffline"},
	{"POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/web-1","params":{},"reason":"old"}`, 202, "Submit"},
	{"GET", "/v1/jobs", "", 200, "Jobs"},
	{"GET", "/v1/jobs/j12", "", 200, "Job j12"},
	{"DELETE", "/v1/jobs/j12", "", 200, "Cancel j12"},
	{"GET", "/v1/requests", "", 200, "Requests "},
	{"GET", "/v1/requests/j12.1", "", 200, "Shown j12.1"},
	{"GET", "/v1/requests/j12.1/payload", "", 200, "Request j12.1"},
	{"POST", "/v1/requests/j12.1/approve", goodEnvelope, 202, "Approve j12.1"},
	{"POST", "/v1/requests/j12.1/reject", goodEnvelope, 202, "Reject j12.1"},
	{"POST", "/v1/classify", `{"op":"guest.destroy","target":"guest/web-1"}`, 200, "Explain"},
	{"POST", "/v1/plan?set=web", "host: h", 200, "Plan web"},
	{"GET", "/v1/guests", "", 200, "Guests"},
	{"GET", "/v1/guests/web-1", "", 200, "Guest web-1"},
	{"GET", "/v1/commands", "", 200, "Commands"},
	{"GET", "/v1/commands/drop-db", "", 200, "Command drop-db"},
	{"GET", "/v1/backends", "", 200, "Backends"},
	{"GET", "/v1/desired", "", 200, "Sets"},
	{"PUT", "/v1/desired/web", "host: h", 200, "PutSet"},
	{"GET", "/v1/desired/web", "", 200, "Set web"},
	{"DELETE", "/v1/desired/web", "", 204, "DeleteSet web"},
	{"GET", "/v1/agents", "", 200, "Agents"},
	{"POST", "/v1/agents", `{"name":"builder","pid":7,"reaper":1}`, 201, "Register"},
	{"DELETE", "/v1/agents/builder", "", 200, "Unregister builder"},
	{"GET", "/v1/reservations", "", 200, "List"},
	{"POST", "/v1/reservations", goodClaim, 201, "Reserve"},
	{"POST", "/v1/reservations/check", `{"scope":{"path":"/src"},"patterns":["a"]}`, 200, "Check 1"},
	{"POST", "/v1/reservations/release-mine", "", 200, "ReleaseMine"},
	{"POST", "/v1/reservations/r12/renew", `{"ttl_seconds":60}`, 200, "Renew r12"},
	{"POST", "/v1/reservations/r12/transfer", `{"to":"tester"}`, 200, "Transfer r12 tester"},
	{"DELETE", "/v1/reservations/r12", "", 200, "Release r12"},
	{"GET", "/v1/scopes", "", 200, "Scopes"},
	{"POST", "/v1/scopes", `{"path":"/src","device":1,"inode":2}`, 200, "RegisterScope"},
	{"GET", "/v1/events?follow=false", "", 200, "Events"},
	{"GET", "/v1/audit", "", 200, "Audit"},
	{"GET", "/v1/audit/head", "", 200, "Head"},
	{"GET", "/v1/audit/consistency?old=3&size=7", "", 200, "Consistency"},
	{"GET", "/v1/audit/inclusion?seq=3", "", 200, "Inclusion"},
	{"POST", "/v1/canary/12/accept", "", 204, "Accept 12"},
	{"GET", "/v1/backup", "", 200, "Backup"},
}

func TestEveryEndpoint(t *testing.T) {
	w := start(t, -1, nil)
	w.job.Requesters = []op.Requester{{UID: uint32(os.Getuid())}}
	w.backups = func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, "copy"); return err }
	require.Len(t, w.server.table(), len(reaching)+2,
		"a route without a row here (GET /v1/ops reaches nothing, and GET /v1/agents/self nothing that refuses)")
	for _, c := range reaching {
		before := len(w.calls())
		r := w.do(t, c.method, c.path, c.body)
		require.Equal(t, c.status, r.status, "%s %s: %s", c.method, c.path, r.body)
		require.Equal(t, []string{c.reaches}, w.calls()[before:], "%s %s", c.method, c.path)
	}
	require.Empty(t, w.told())
}

// What stands behind an end point refuses: the caller gets that refusal whole.
func TestEveryEndpointPassesRefusals(t *testing.T) {
	w := start(t, -1, nil)
	for _, c := range reaching {
		w.err = refusal.New(refusal.Replayed, "spent").At(refusal.StageNonce).WithHint("sign again").About(aID, op.StateSucceeded)
		p := w.do(t, c.method, c.path, c.body).problem(t)
		require.Equal(t, w.err, error(p.Refusal()), "%s %s", c.method, c.path)
		require.Equal(t, http.StatusConflict, p.Status)

		w.err = errors.New("disk: /var/lib/gated/gated.db is broken")
		p = w.do(t, c.method, c.path, c.body).problem(t)
		require.Equal(t, refusal.Internal, p.Code, "%s %s", c.method, c.path)
		require.NotContains(t, p.Detail, "/var")
	}
	require.Empty(t, w.told(), "the gate writes down what it refuses itself")
}

func TestEveryEndpointSurvivesAPanic(t *testing.T) {
	w := start(t, -1, nil)
	w.panics = true
	for _, c := range reaching {
		p := w.do(t, c.method, c.path, c.body).problem(t)
		require.Equal(t, refusal.Internal, p.Code, "%s %s", c.method, c.path)
	}
	w.panics = false
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
}

func TestSubmitAnswersWhatWaits(t *testing.T) {
	w := start(t, -1, nil)
	var job api.Job
	w.do(t, "POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/web-1","params":{"a":1},"reason":"old"}`,
		"Idempotency-Key", "k 1").into(t, 202, &job)
	require.Equal(t, op.StatePending, job.State)
	require.Equal(t, refusal.PendingSignature, job.Error.Code)
	require.Equal(t, "j12.1", *job.Request)
	require.Equal(t, op.Submission{Reason: "old", IdempotencyKey: "k 1",
		Requester: op.Requester{Source: op.SourceAPI, UID: uint32(os.Getuid()), PID: int32(os.Getpid())},
		Steps:     []op.Ask{{Op: "guest.destroy", Target: web, Params: op.Params{"a": int64(1)}}}}, w.sub)
}

func TestApproveAnswers(t *testing.T) {
	w := start(t, -1, nil)
	var r api.Request
	w.do(t, "POST", "/v1/requests/j12.1/approve", goodEnvelope).into(t, 202, &r)
	require.Equal(t, 1, r.Missing)
	require.Equal(t, Envelope{Payload: []byte("{}"), Signatures: []string{"one", "two"}}, w.env)

	w.req.Signatures = []op.Signed{{Principal: "alice", Role: op.Operational}}
	w.req.Step.State = op.StateAuthorized
	w.do(t, "POST", "/v1/requests/j12.1/approve", goodEnvelope).into(t, 200, &r)
	require.Equal(t, 0, r.Missing)

	w.req.Step.State = op.StateRejected
	w.do(t, "POST", "/v1/requests/j12.1/reject", goodEnvelope).into(t, 200, &r)
	require.Equal(t, refusal.Rejected, r.Error.Code)
}

func TestPayloadIsTheExactBytes(t *testing.T) {
	w := start(t, -1, nil)
	w.goBy("builder#1")
	w.do(t, "GET", "/v1/requests/j12.1/payload", "")
	w.do(t, "GET", "/v1/requests/j12.1", "")
	require.Empty(t, w.shown, "an agent under an operator's uid reads nothing to sign it")
	w.goBy("")
	r := w.do(t, "GET", "/v1/requests/j12.1/payload", "")
	require.Equal(t, []op.RequestID{aID}, w.shown)
	require.Equal(t, w.req.Payload, r.body)
	require.Equal(t, api.ContentType, r.header.Get("Content-Type"))
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
	w.do(t, "GET", "/v1/jobs?state=pending_signature&after=j3&limit=1", "").into(t, 200, &list)
	require.Equal(t, JobQuery{State: op.StatePending, After: 3, Limit: 1, Bytes: pageBytes}, w.query)
	require.Equal(t, "j12", *list.Next)
	w.do(t, "GET", "/v1/jobs", "").into(t, 200, &list)
	require.Equal(t, JobQuery{Limit: pageDefault, Bytes: pageBytes}, w.query)
}

// history is a gate with jobs of which every third has ended as failed.
type history struct {
	*fake
	ids []op.JobID
}

func (h history) Jobs(_ context.Context, q JobQuery) ([]op.Job, error) {
	var out []op.Job
	for _, id := range h.ids {
		fits := q.State == "" || id%3 == 0
		if fits && id > q.After && (q.Through == 0 || id <= q.Through) && len(out) < q.Limit {
			out = append(out, op.Job{ID: id, CreatedAt: noon})
		}
	}
	return out, nil
}

// Every job of a closed state is found by following next, whatever the gaps,
// and no call looks through more than jobsExamined.
func TestJobsOfAClosedStateByTheirPages(t *testing.T) {
	h := history{fake: newFake(t), ids: []op.JobID{3, 4, 1000, 2002, 2003, 2004, 90_001, 90_003, 200_001}}
	w := start(t, -1, func(c *Config) { c.Gate = h })
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
		require.Equal(t, []string{"j3", "j2004", "j90003", "j200001"}, got, limit)
	}
}

func TestDesiredSets(t *testing.T) {
	w := start(t, -1, nil)
	for header, want := range map[string]string{`"e1"`: "e1", `*`: "*", `"a,b"`: "a,b"} {
		r := w.do(t, "PUT", "/v1/desired/web", "host: h", "If-Match", header)
		var s api.Set
		r.into(t, 200, &s)
		require.Equal(t, `"e2"`, r.header.Get("ETag"))
		require.Equal(t, api.Set{Name: "web", ETag: "e2", Bytes: 7}, s)
		require.Equal(t, want, w.ifMatch)
		require.Equal(t, "web", w.set)
		require.Equal(t, "host: h", string(w.document))
	}
	w.do(t, "PUT", "/v1/desired/web", "host: h")
	require.Empty(t, w.ifMatch)

	r := w.do(t, "GET", "/v1/desired/web", "")
	require.Equal(t, w.set1.Body, r.body)
	require.Equal(t, `"e1"`, r.header.Get("ETag"))
	require.Equal(t, yamlType, r.header.Get("Content-Type"))

	var list api.SetList
	w.do(t, "GET", "/v1/desired", "").into(t, 200, &list)
	require.Equal(t, []api.Set{{Name: "web", ETag: "e1", Bytes: len(w.set1.Body), UpdatedAt: &noon}}, list.Sets)

	require.Empty(t, w.do(t, "DELETE", "/v1/desired/web", "").body)
}

// Requests that are refused before anything behind the server is asked.
func TestUnclearRequests(t *testing.T) {
	w := start(t, -1, nil)
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
		require.Len(t, w.told(), told+1, "%s %s is not told", c.method, c.path)
	}
	require.Empty(t, w.calls())
}

func TestAWrongMethodSaysWhichAreRight(t *testing.T) {
	w := start(t, -1, nil)
	require.Equal(t, "DELETE, GET, PUT", w.do(t, "POST", "/v1/desired/web", "x").header.Get("Allow"))
}

func TestToldWhoAndWhat(t *testing.T) {
	w := start(t, -1, nil)
	w.do(t, "POST", "/v1/jobs", `{`)
	w.do(t, "GET", "/"+strings.Repeat("x", 500), "")
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
	_, err := io.WriteString(conn, "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n")
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
	w := start(t, -1, nil)
	w.job.Steps[0].Output = "\x1b[31mdone\n"
	var job api.Job
	w.do(t, "GET", "/v1/jobs/j12", "").into(t, 200, &job)
	require.Equal(t, "\x1b[31mdone\n", job.Steps[0].Output)
	w.job.Steps[0].Output = ""
	require.NotContains(t, string(w.do(t, "GET", "/v1/jobs/j12", "").body), `"output"`)
}
