package mcp

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/test/servicetest"
)

// reply is an answer as a client reads it.
type reply struct {
	ID    any `json:"id"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		IsError    bool           `json:"isError"`
		Structured jsontext.Value `json:"structuredContent"`
	} `json:"result"`
}

func (r raw) reply(t *testing.T) reply {
	t.Helper()
	var out reply
	require.NoError(t, json.Unmarshal([]byte(r.hear(t)), &out))
	return out
}

func callLine(id, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// What is no message, or no tool's arguments, is answered, and the session goes on.
func TestBadLines(t *testing.T) {
	r := greet(t, newWorld(t).options(t, ""))
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,`:                        "malformed",
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`: "malformed",
		`[` + callLine("1", "whoami", "{}") + `]`:         "malformed",
		`7`:                          "malformed",
		strings.Repeat("[", 100_000): "malformed",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}":          "malformed",
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                   "malformed",
		callLine("1.5", "whoami", "{}"):                               "15 digits",
		callLine("1e30", "whoami", "{}"):                              "15 digits",
		callLine("9007199254740993", "whoami", "{}"):                  "15 digits",
		callLine("1", "whoami", `"`+strings.Repeat("x", maxLine)+`"`): "oversized",
		callLine("1", "approve", "{}"):                                "unknown tool",
		`{"jsonrpc":"2.0","id":1,"method":"gated/approve"}`:           "not found",
	} {
		r.say(t, line)
		got := r.reply(t)
		require.NotNil(t, got.Error, "%.80s", line)
		require.Contains(t, got.Error.Message, want, "%.80s", line)
	}
	for id, answered := range map[string]any{`"deep"`: "deep", "7": 7.0, "null": nil} {
		deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
		r.say(t, callLine(id, "submit", `{"params":`+deep+`}`))
		got := r.reply(t)
		require.NotNil(t, got.Error, id)
		require.Contains(t, got.Error.Message, "nested too deeply")
		require.Equal(t, answered, got.ID, "or the client waits for ever")
	}
	for arguments, code := range map[string]string{
		`{"op":"guest.start","target":"old","force":true}`:  "malformed",
		`{"Op":"guest.start","target":"old"}`:               "malformed",
		`{"op":7,"target":"old"}`:                           "malformed",
		`[]`:                                                "malformed",
		`{"op":"guest.start","target":"old","forced":null}`: "malformed",
		`{"op":"guest.set-config","target":"old","params":{"memory":null}}`:                         "malformed",
		`{"op":"guest.set-config","target":"old","params":"{\"memory\":1.5}"}`:                      "malformed",
		`{"steps":"[` + strings.Repeat(`{},`, 20_000) + `{}]"}`:                                     "too_complex",
		`{"op":"guest.start","target":"old","params":{"a":1.5}}`:                                    "malformed",
		`{"steps":[` + strings.Repeat(`{"op":"a","target":"b"},`, 64) + `{"op":"a","target":"b"}]}`: "too_complex",
		`{"steps":[` + strings.Repeat(`{},`, 20_000) + `{}]}`:                                       "too_complex",
	} {
		r.say(t, callLine("1", "submit", arguments))
		got := r.reply(t)
		require.Nil(t, got.Error, "%.80s", arguments)
		require.True(t, got.Result.IsError)
		var why failure
		require.NoError(t, json.Unmarshal(got.Result.Structured, &why))
		require.Equal(t, code, why.Error.Code, "%.80s", arguments)
	}
	r.say(t, "\n"+callLine("2", "whoami", "null"))
	require.False(t, r.reply(t).Result.IsError)
	require.NoError(t, r.in.Close())
	require.NoError(t, <-r.ended)
}

// A line of exactly the largest size is read.
func TestTheLargestLine(t *testing.T) {
	r := greet(t, newWorld(t).options(t, ""))
	line := callLine("1", "submit", `{"reason":"`)
	line = strings.TrimSuffix(line, "}}")
	line += strings.Repeat("x", maxLine-len(line)-5) + `"}}}`
	require.Len(t, line, maxLine-1) // and the newline
	r.say(t, line)
	got := r.reply(t)
	require.Nil(t, got.Error)
	require.Contains(t, string(got.Result.Structured), `"code":"oversized"`)
	r.say(t, " "+line)
	require.Contains(t, r.reply(t).Error.Message, "oversized")
}

// newNames are names of n guests that are not there, and createOf asks for one of them. The gate looks at each of them by
// itself.
func newNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

func createOf(i int) string {
	return callLine(fmt.Sprint(i), "submit", fmt.Sprintf(`{"op":"guest.create","target":"n%d"}`, i))
}

// Of 1,000 calls at once, few ask the gate, the others wait here or are refused, each is answered once, and another
// client of the same uid is answered meanwhile.
// Calls that look at a job that waits need a place and then a turn. Calls in turn have the turn and need a place.
func TestCallsInTurnAndOthersDoNotWaitForEachOther(t *testing.T) {
	r := greet(t, newWorld(t).options(t, ""))
	const calls = 60
	var all strings.Builder
	for i := range calls {
		switch i % 3 {
		case 0:
			all.WriteString(callLine(fmt.Sprint(i), "jobs", `{"job":"j1"}`) + "\n")
		case 1:
			all.WriteString(callLine(fmt.Sprint(i), "preview", `{"op":"guest.start","target":"old"}`) + "\n")
		default:
			all.WriteString(callLine(fmt.Sprint(i), "jobs", `{}`) + "\n")
		}
	}
	go func() { _, _ = io.WriteString(r.in, all.String()) }()
	for range calls {
		got := r.reply(t)
		require.Nil(t, got.Error)
		require.False(t, got.Result.IsError)
	}
}

func TestAThousandCallsAtOnce(t *testing.T) {
	w := newWorld(t)
	r := greet(t, w.options(t, ""))
	const calls = 1000
	hold := w.Guests.Hold(newNames(calls)...)
	said := make(chan error, 1)
	go func() {
		var all strings.Builder
		for i := range calls {
			all.WriteString(createOf(i) + "\n")
		}
		_, err := io.WriteString(r.in, all.String())
		said <- err
	}()
	answered := map[any]bool{}
	once := func(id any) {
		require.False(t, answered[id], "%v was answered twice", id)
		answered[id] = true
	}
	for range calls - maxOpen {
		got := r.reply(t)
		require.NotNil(t, got.Error)
		require.Equal(t, codeOverLimit, got.Error.Code)
		require.Contains(t, got.Error.Message, "over_limit")
		once(got.ID)
	}
	require.NoError(t, <-said)
	for range maxAsks {
		<-hold.Held
	}
	var out previewOut
	granted(t, connect(t, w.options(t, servicetest.Token()), nil), "preview", object{"op": "guest.start", "target": "old"}, &out)
	require.Empty(t, hold.Held, "more calls than %d ask the gate", maxAsks)
	w.Guests.Hold() // the others do not stop there
	hold.End()
	for range maxOpen {
		got := r.reply(t)
		require.Nil(t, got.Error)
		require.False(t, got.Result.IsError)
		once(got.ID)
	}
	require.Len(t, answered, calls)
}

// A client that cancels a call gives its place back.
func TestACancelledCall(t *testing.T) {
	w := newWorld(t)
	r := greet(t, w.options(t, ""))
	hold := w.Guests.Hold(newNames(maxAsks)...)
	defer hold.End()
	for i := range maxAsks {
		r.say(t, createOf(i))
		<-hold.Held
	}
	for i := range maxAsks {
		r.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		require.True(t, r.reply(t).Result.IsError)
	}
	r.say(t, callLine("9", "preview", `{"op":"guest.start","target":"old"}`))
	require.False(t, r.reply(t).Result.IsError)
}

// A client that hangs up ends its waits, and the server with them. The gate's own test has what becomes of a claim.
func TestHangingUpInAWait(t *testing.T) {
	w := newWorld(t)
	holder, waiter := w.options(t, servicetest.Token()), w.options(t, "")
	waiter.Directory = holder.Directory
	a := connect(t, holder, nil)
	var held reserveOut
	granted(t, a, "reserve", object{"patterns": []string{"src/**"}}, &held)
	r := greet(t, waiter)
	for i := range maxWaits + 1 {
		r.say(t, callLine(fmt.Sprint(i), "reserve", fmt.Sprintf(`{"patterns":["src/%d"],"wait_seconds":45}`, i)))
	}
	require.Contains(t, string(r.reply(t).Result.Structured), "over_limit")
	require.NoError(t, r.in.Close())
	require.NoError(t, <-r.ended)
}

// The same call of the same session is one job. The same id in another session is another call.
func TestTheIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	create := func(name string) string {
		return callLine(`"a"`, "submit", fmt.Sprintf(`{"op":"guest.create","target":%q}`, name))
	}
	job := func(r raw, line string) string {
		r.say(t, line)
		var out jobOut
		got := r.reply(t)
		require.False(t, got.Result.IsError, string(got.Result.Structured))
		require.NoError(t, json.Unmarshal(got.Result.Structured, &out))
		return out.Job
	}
	r := greet(t, w.options(t, ""))
	first := job(r, create("fresh"))
	require.Equal(t, first, job(r, create("fresh")))
	r.say(t, create("other"))
	require.Contains(t, string(r.reply(t).Result.Structured), "idempotency key")
	require.NotEqual(t, first, job(greet(t, w.options(t, "")), create("other")))
}
