package openapi_test

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/test/openapi"
)

// bodies are the objects that callers send. A member may be left out of them though a client always sends it.
var bodies = []any{api.Submit{}, api.Ask{}, api.Envelope{}, api.VerifiedBackup{}, api.Reserve{}, api.Check{}, api.Renew{}, api.Transfer{},
	api.RegisterAgent{}, api.Place{}}

// answers are the objects that the gate sends.
var answers = []any{api.Status{}, api.HealthReport{}, api.OpList{}, api.Job{}, api.JobList{}, api.Request{}, api.RequestList{},
	api.Explanation{}, api.Plan{}, api.Guest{}, api.GuestList{}, api.CommandList{}, api.Steering{}, api.BackendList{},
	api.Set{}, api.SetList{}, api.AgentList{}, api.RegisteredAgent{}, api.Caller{}, api.Reservation{}, api.ReservationList{},
	api.Checked{}, api.Scope{}, api.ScopeList{}, api.Head{}, api.EntryList{}, api.Consistency{}, api.Inclusion{},
	api.Problem{}}

// enums are the values of each type that has few.
var enums = map[string][]string{
	"State": texts(op.States), "Class": {"benign", "destructive"},
	"ParamType": texts([]op.Type{op.TString, op.TInt, op.TBool, op.TLabels, op.TLines}),
	"Touch":     texts([]op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified}),
}

func texts[T ~string](of []T) (out []string) {
	for _, v := range of {
		out = append(out, string(v))
	}
	return out
}

// Each object on the wire is described, with all of its members, and the description has no other object.
func TestEveryObjectIsDescribed(t *testing.T) {
	described := must.Get(openapi.Read())(t).Schemas()
	seen := map[string]bool{}
	for _, v := range answers {
		describes(t, described, seen, reflect.TypeOf(v), true)
	}
	for _, v := range bodies {
		describes(t, described, seen, reflect.TypeOf(v), false)
	}
	for name, s := range described {
		if len(s.Members) > 0 {
			require.True(t, seen[name], "%s is no object of client/api", name)
		}
	}
}

// describes compares a type, and the types of its members, with their schemas.
func describes(t *testing.T, described map[string]openapi.Schema, seen map[string]bool, typ reflect.Type, answer bool) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	text := typ == reflect.TypeFor[time.Time]() || typ == reflect.TypeFor[api.Window]()
	if typ.Kind() != reflect.Struct || text || seen[typ.Name()] {
		return
	}
	seen[typ.Name()] = true
	s, ok := described[typ.Name()]
	require.True(t, ok, "%s is not described", typ.Name())
	if typ == reflect.TypeFor[api.Entry]() {
		return // its members are those of its stored text
	}
	all, always := members(typ)
	require.Equal(t, all, s.Members, "members of %s", typ.Name())
	if answer {
		require.Equal(t, always, s.Required, "required members of %s", typ.Name())
	} else {
		require.Subset(t, always, s.Required, "required members of %s", typ.Name())
	}
	for i := range typ.NumField() {
		if f := typ.Field(i); !f.Anonymous { // the members of an embedded one are this type's own
			describes(t, described, seen, f.Type, answer)
		}
	}
}

// members returns the names that a type has on the wire, sorted, and those of them that are never left out.
func members(typ reflect.Type) (all, always []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			a, b := members(f.Type)
			all, always = append(all, a...), append(always, b...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if !strings.Contains(options, "omit") {
			always = append(always, name)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	return all, always
}

func TestEveryValueIsDescribed(t *testing.T) {
	described := must.Get(openapi.Read())(t).Schemas()
	for name, values := range enums {
		require.Equal(t, values, described[name].Enum, name)
	}
	var codes []string
	for _, m := range api.Codes {
		codes = append(codes, string(m.Code))
	}
	require.ElementsMatch(t, codes, described["Code"].Enum)
}

const (
	head    = `{"seq":1,"hash":"00"}`
	problem = `{"type":"urn:gated:problem:malformed","title":"t","status":400,"detail":"d","code":"malformed"}`
	asJSON  = "application/json"
	refused = "application/problem+json"
	asked   = `{"scope":{"path":"/"},"patterns":["a"]}`
	more    = `{"scope":{"path":"/"},"patterns":["a"],"x":1}`
	checked = `{"conflicts":[],"more":false}`
)

// The check finds each of these faults, and only these.
func TestTheCheckIsStrict(t *testing.T) {
	d := must.Get(openapi.Read())(t)
	for _, c := range []struct {
		name, method, path, sent string
		status                   int
		kind, answer             string
		fault                    string // a part of the error; empty: none
	}{
		{"a good answer", "GET", "/v1/audit/head", "", 200, asJSON, head, ""},
		{"a member that is not described", "GET", "/v1/audit/head", "", 200, asJSON, `{"seq":1,"hash":"00","x":1}`, "x"},
		{"a member too few", "GET", "/v1/audit/head", "", 200, asJSON, `{"seq":1}`, "hash"},
		{"a wrong type", "GET", "/v1/audit/head", "", 200, asJSON, `{"seq":"1","hash":"00"}`, "/seq"},
		{"a null where there is a value", "GET", "/v1/audit/head", "", 200, asJSON, `{"seq":1,"hash":null}`, "/hash"},
		{"no JSON", "GET", "/v1/audit/head", "", 200, asJSON, `{`, "body"},
		{"a member within", "GET", "/v1/commands", "", 200, asJSON, `{"commands":[{}]}`, "/commands/0"},
		{"a status that is not described", "GET", "/v1/audit/head", "", 404, refused, problem, "status"},
		{"another media type", "GET", "/v1/audit/head", "", 200, "text/plain", head, "Content-Type"},
		{"a header that is too large", "GET", "/v1/audit/head", "", 431, "text/plain; charset=utf-8", "431", ""},
		{"a refusal", "GET", "/v1/audit/head", "", 400, refused, problem, ""},
		{"a refusal with a code that is not described", "GET", "/v1/audit/head", "", 400, refused,
			strings.ReplaceAll(problem, `"malformed"`, `"other"`), "/code"},
		{"a query parameter", "GET", "/v1/audit/head?x=1", "", 200, asJSON, head, `"x"`},
		{"a value of one", "GET", "/v1/audit?limit=1001", "", 200, asJSON, `{"entries":[]}`, "limit"},
		{"a path", "GET", "/v1/other", "", 200, asJSON, head, "is not described"},
		{"an unknown path that is refused", "GET", "/v1/other", "", 404, refused, problem, ""},
		{"a method", "POST", "/v1/audit/head", "", 200, asJSON, head, "is not described"},
		{"a method where a path has a name", "DELETE", "/v1/agents/self", "", 405, refused, problem, ""},
		{"a body that is accepted", "POST", "/v1/reservations/check", asked, 200, asJSON, checked, ""},
		{"a body with another member", "POST", "/v1/reservations/check", more, 200, asJSON, checked,
			"accepted what is not described"},
		{"the same one, refused", "POST", "/v1/reservations/check", more, 400, refused, problem, ""},
		{"an event", "GET", "/v1/events", "", 200, "text/event-stream",
			"id: 1\ndata: {\"seq\":1,\"time\":\"2026-03-01T12:00:00Z\",\"kind\":\"started\",\"prev\":\"\"}\n\n:\n\n", ""},
		{"an event that is none", "GET", "/v1/events", "", 200, "text/event-stream", "id: 1\ndata: {\"seq\":0}\n\n", "kind"},
		{"nothing", "POST", "/v1/canary/3/accept", "", 204, "", "", ""},
		{"something where there is nothing", "POST", "/v1/canary/3/accept", "", 204, "", "x", "none is described"},
	} {
		var sent io.Reader
		if c.sent != "" {
			sent = strings.NewReader(c.sent)
		}
		r := must.Get(http.NewRequest(c.method, "http://gated"+c.path, sent))(t)
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}}
		err := d.Check(r, resp, []byte(c.answer))
		if c.fault == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorContains(t, err, c.fault, c.name)
	}
}

// answering is a server of one answer.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(a)))}, nil
}

// faults counts what a test is told.
type faults struct {
	testing.TB
	told int
}

func (f *faults) Errorf(string, ...any) { f.told++ }

// A transport tells the test once, when the answer was read.
func TestTheTransportTellsTheTest(t *testing.T) {
	d := must.Get(openapi.Read())(t)
	for answer, want := range map[string]int{head: 0, "{}": 1} {
		f := &faults{TB: t}
		c := http.Client{Transport: d.Checked(f, answering(answer))}
		resp := must.Get(c.Get("http://gated/v1/audit/head"))(t)
		require.Zero(t, f.told)
		require.Equal(t, answer, string(must.Get(io.ReadAll(resp.Body))(t)))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, f.told)
	}
}
