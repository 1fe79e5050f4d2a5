package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

// released holds what each version said on the wire, one exchange a line:
// GATED_WIRE=0.1.0 go test ./client -run TestRecord writes the file of a version
// before it is released. Nothing changes a file after that (docs/guides/release.md).
const released = "testdata/released"

// exchange is one call of a client, and the daemon's answer.
type exchange struct {
	Name    string    `json:"name"` // of the client's method
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	URI     string    `json:"uri"`
	Key     string    `json:"key,omitempty"`      // Idempotency-Key
	IfMatch string    `json:"if_match,omitempty"` // If-Match
	Body    string    `json:"body,omitempty"`
	Status  int       `json:"status"`
	Type    string    `json:"type"`
	ETag    string    `json:"etag,omitempty"`
	Answer  string    `json:"answer,omitempty"`
}

// recorder keeps what goes through it.
type recorder struct {
	http.RoundTripper
	last exchange
}

func (r *recorder) RoundTrip(in *http.Request) (*http.Response, error) {
	e := exchange{Method: in.Method, URI: in.URL.RequestURI(), Key: in.Header.Get("Idempotency-Key"), IfMatch: in.Header.Get("If-Match")}
	if in.Body != nil {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return nil, err
		}
		in.Body, e.Body = io.NopCloser(bytes.NewReader(body)), string(body)
	}
	out, err := r.RoundTripper.RoundTrip(in)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(out.Body)
	out.Body = io.NopCloser(bytes.NewReader(answer))
	e.Status, e.Type, e.ETag, e.Answer = out.StatusCode, out.Header.Get("Content-Type"), out.Header.Get("ETag"), string(answer)
	r.last = e
	return out, err
}

// anyStatus has a value in each member, so that a member that is lost shows.
func anyStatus(context.Context) (api.Status, error) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	failed := &api.Error{Code: refusal.Malformed, Detail: "it is not as it should be"}
	return api.Status{Host: servicetest.Host, Gate: servicetest.GateID, Version: "0.1.0", UID: 7, StartedAt: at, Isolation: "none",
		Remedies: []string{"a"}, Waiting: 1, Running: 2, Guests: 3, Agents: 4, Reserved: 5,
		Health:  []api.Health{{Name: "clock", OK: true, Detail: "believed"}},
		Sources: []api.SourceStatus{{Name: "sets", Sets: 6, ReadAt: &at, Error: failed}},
		Limits:  map[string]bool{"cgroup": true}, Layers: []api.Layer{{Name: "uid", Stands: true, Detail: "b"}},
		AuditHead: api.Head{Seq: 8, Hash: strings.Repeat("a", 64)}, Epoch: 9, Policy: strings.Repeat("b", 64),
		Canary: &api.Canary{Change: 10, Changed: []string{"policy"}, At: at, Verdict: "alert", DecidedAt: &at, Open: true, Decisions: 11,
			Before: 12, Until: at, Paused: true, Overdue: true, Why: "c", Back: "d", End: "e"},
		Hub: &api.Hub{URL: "https://hub", Revision: "f", ReadAt: &at, PolledAt: &at, Error: failed, Relayed: 13, Refused: 14, Untried: 15,
			RelayError: failed, ReportedAt: &at, ReportError: failed},
	}, nil
}

func releasedWorld(t *testing.T) (*daemon, *Client) {
	return behind(t, func(c *server.Config) {
		c.Status = anyStatus
		c.Backends = func(context.Context) ([]api.Backend, error) {
			return []api.Backend{{Name: "local", Kind: "guest", State: api.BackendOK, Version: "1"}}, nil
		}
	})
}

// TestRecord writes the exchanges of today's program.
func TestRecord(t *testing.T) {
	d, c := releasedWorld(t)
	r := &recorder{RoundTripper: d}
	c.http.Transport = r
	var out bytes.Buffer
	ctx := context.WithValue(t.Context(), signedKey{}, envelopes{t, d.World})
	for _, m := range releasable() {
		require.NoError(t, m.call(ctx, c), m.name)
		e := r.last
		if e.Name, e.At = m.name, d.Gate.Moment().Now.UTC(); m.name == "Backup" {
			e.Answer = "" // a database, which migrations have tests for
		}
		b := must.Get(json.Marshal(e, json.Deterministic(true)))(t)
		out.Write(append(b, '\n'))
	}
	require.Greater(t, out.Len(), 10_000)
	if v := os.Getenv("GATED_WIRE"); v != "" {
		require.NoError(t, os.WriteFile(filepath.Join(released, v+".jsonl"), out.Bytes(), 0o644))
	}
}

// releasable are all methods, with those that need no row in methods.
func releasable() []method {
	return append(slices.Clone(methods),
		method{"Ops", func(ctx context.Context, c *Client) error { _, err := c.Ops(ctx); return err }, ""},
		method{"Self", func(ctx context.Context, c *Client) error { _, err := c.Self(ctx); return err }, ""})
}

// eachReleased calls fn for every version, with its exchanges.
func eachReleased(t *testing.T, fn func(*testing.T, []exchange)) {
	files := must.Get(filepath.Glob(filepath.Join(released, "*.jsonl")))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var all []exchange
			for line := range bytes.Lines(must.Get(os.ReadFile(file))(t)) {
				var e exchange
				require.NoError(t, json.Unmarshal(line, &e, json.RejectUnknownMembers(true)))
				all = append(all, e)
			}
			require.Greater(t, len(all), 40)
			fn(t, all)
		})
	}
}

// An older daemon's answers are read by today's client, and a newer daemon's, which have more members in every object.
func TestAnswersOfOtherVersions(t *testing.T) {
	eachReleased(t, func(t *testing.T, all []exchange) {
		for _, newer := range []bool{false, true} {
			var now exchange
			path := filepath.Join(t.TempDir(), "s")
			answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", now.Type)
				if now.ETag != "" {
					w.Header().Set("ETag", now.ETag)
				}
				w.WriteHeader(now.Status)
				_, _ = io.WriteString(w, now.Answer)
			})
			c := open(t, Options{Socket: path})
			for _, e := range all {
				if e.Name == "Backup" {
					continue
				}
				i := slices.IndexFunc(releasable(), func(m method) bool { return m.name == e.Name })
				require.GreaterOrEqual(t, i, 0, "the client has no method %s any more", e.Name)
				if now = e; newer {
					now.Answer = withMore(t, e)
				}
				require.NoError(t, releasable()[i].call(t.Context(), c), "%s, newer: %v", e.Name, newer)
			}
		}
	})
}

// withMore adds a member to every object of an answer that is JSON, or JSON on each line.
func withMore(t *testing.T, e exchange) string {
	if !strings.Contains(e.Type, "json") || e.Name == "Payload" || e.Answer == "" {
		return e.Answer
	}
	var out strings.Builder
	for line := range strings.Lines(e.Answer) {
		if strings.HasPrefix(e.Name, "Events") || e.Name == "Audit" {
			out.WriteString(line) // entries are bytes that the log's hash covers
			continue
		}
		more(t, &out, line)
	}
	return out.String()
}

// named are the members whose objects have names of others: one more would be another value.
var named = []string{"labels", "limits", "params", "spec"}

// more writes one value with a member more in each object.
func more(t *testing.T, out io.Writer, value string) {
	in, to := jsontext.NewDecoder(strings.NewReader(value)), jsontext.NewEncoder(out)
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.NoError(t, to.WriteToken(token))
		path := strings.Split(string(in.StackPointer()), "/")
		if token.Kind() == '{' && !slices.Contains(named, path[len(path)-1]) {
			require.NoError(t, to.WriteToken(jsontext.String("added_by_a_newer_daemon")))
			require.NoError(t, to.WriteValue(jsontext.Value(`{"a":[1,null]}`)))
		}
	}
}

// shapes are the objects that answers are read into, by the client's method.
var shapes = map[string]func() any{
	"Status": func() any { return new(api.Status) }, "Submit": func() any { return new(api.Job) },
	"Jobs": func() any { return new(api.JobList) }, "Job": func() any { return new(api.Job) },
	"Cancel": func() any { return new(api.Job) }, "Classify": func() any { return new(api.Explanation) },
	"RequestPage": func() any { return new(api.RequestList) }, "Request": func() any { return new(api.Request) },
	"Approve": func() any { return new(api.Request) }, "Reject": func() any { return new(api.Request) },
	"SubmitSigned": func() any { return new(api.Request) }, "Plan": func() any { return new(api.Plan) },
	"PutSet": func() any { return new(api.Set) }, "GuestPage": func() any { return new(api.GuestList) },
	"Guest": func() any { return new(api.Guest) }, "AuditHead": func() any { return new(api.Head) },
	"Consistency": func() any { return new(api.Consistency) }, "Inclusion": func() any { return new(api.Inclusion) },
	"Steering": func() any { return new(api.Steering) }, "Command": func() any { return new(api.Command) },
	"Reserve": func() any { return new(api.Reservation) }, "Check": func() any { return new(api.Checked) },
	"Reservations": func() any { return new(api.ReservationList) }, "RegisterScope": func() any { return new(api.Scope) },
	"RegisterAgent": func() any { return new(api.RegisteredAgent) }, "Self": func() any { return new(api.Caller) },
}

// Every member that was released is still read, under its name and with its value.
func TestNoMemberIsLost(t *testing.T) {
	eachReleased(t, func(t *testing.T, all []exchange) {
		seen := map[string]bool{}
		for _, e := range all {
			shape := shapes[e.Name]
			if shape == nil {
				continue
			}
			seen[e.Name] = true
			into := shape()
			require.NoError(t, api.DecodeAnswer([]byte(e.Answer), into), e.Name)
			var was, is any
			require.NoError(t, json.Unmarshal([]byte(e.Answer), &was))
			require.NoError(t, json.Unmarshal(must.Get(api.Encode(into))(t), &is))
			allOf(t, e.Name, was, is)
		}
		require.Equal(t, slices.Sorted(maps.Keys(shapes)), slices.Sorted(maps.Keys(seen)))
	})
}

// allOf fails the test unless is has all that was has.
func allOf(t *testing.T, at string, was, is any) {
	t.Helper()
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		require.True(t, ok, at)
		for name := range was {
			require.Contains(t, now, name, at)
			allOf(t, at+"."+name, was[name], now[name])
		}
	case []any:
		now, ok := is.([]any)
		require.True(t, ok, at)
		require.Len(t, now, len(was), at)
		for i := range was {
			allOf(t, fmt.Sprintf("%s[%d]", at, i), was[i], now[i])
		}
	default:
		require.Equal(t, was, is, at)
	}
}

// An older client's requests are understood by today's daemon. It may refuse what they ask, for their nonces and copies are
// of another gate, but not how they ask.
func TestRequestsOfOtherVersions(t *testing.T) {
	eachReleased(t, func(t *testing.T, all []exchange) {
		_, c := releasedWorld(t)
		done := 0
		for _, e := range all {
			var asked io.Reader
			if e.Body != "" {
				asked = strings.NewReader(e.Body)
			}
			in := must.Get(http.NewRequestWithContext(t.Context(), e.Method, "http://gated"+e.URI, asked))(t)
			for name, value := range map[string]string{"Idempotency-Key": e.Key, "If-Match": e.IfMatch} {
				if value != "" {
					in.Header.Set(name, value)
				}
			}
			if e.Body != "" {
				in.Header.Set("Content-Type", "application/json")
				if strings.Contains(e.URI, "/plan") || strings.Contains(e.URI, "/desired/") {
					in.Header.Set("Content-Type", "application/yaml")
				}
			}
			got := must.Get(c.http.Do(in))(t)
			body := must.Get(io.ReadAll(got.Body))(t)
			require.NoError(t, got.Body.Close())
			if got.StatusCode == e.Status { // health of a gate that is not well is a 503 that is no refusal
				done++
				continue
			}
			require.GreaterOrEqual(t, got.StatusCode, 400, e.Name)
			var p api.Problem
			require.NoError(t, api.DecodeAnswer(body, &p), e.Name)
			require.Contains(t, []string{"Approve", "Reject", "SubmitSigned", "BackupVerified"}, e.Name, "%s", body)
			require.NotContains(t, []refusal.Code{refusal.Malformed, refusal.Oversized, refusal.Internal, refusal.BadParams}, p.Code, "%s: %s", e.Name, body)
		}
		require.GreaterOrEqual(t, done, len(all)-4)
	})
}

// The bytes that an older version had signed are read as they were written, and their signature counts.
func TestPayloadsOfOtherVersions(t *testing.T) {
	eachReleased(t, func(t *testing.T, all []exchange) {
		trust := must.Get(authz.LoadTrust(servicetest.Signers(t)))(t)
		checked := 0
		for _, e := range all {
			if e.Name != "Approve" && e.Name != "SubmitSigned" {
				continue
			}
			var envelope api.Envelope
			require.NoError(t, api.DecodeBody([]byte(e.Body), &envelope))
			bytes := must.Get(envelope.Open())(t)
			p := must.Get(op.DecodePayload(bytes))(t)
			require.Equal(t, string(bytes), string(must.Get(p.Encode())(t)))
			who := must.Get(authz.VerifyFile(bytes, envelope.Signatures[0], trust, e.At))(t)
			require.Equal(t, "alice", who.Principal)
			checked++
		}
		require.Equal(t, 2, checked)
	})
}
