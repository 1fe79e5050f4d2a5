package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

const gateID = op.GateID("0123456789abcdef0123456789abcdef")

func payload(t *testing.T, change func(*op.Payload)) []byte {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := op.Payload{Gate: gateID, Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"},
		Incarnation: "a:1:2", State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: at,
		ExpiresAt: at.Add(time.Hour)}
	change(&p)
	return must.Get(p.Encode())(t)
}

// gateWith answers as a gate whose request j1.1 has these bytes, whatever else
// it says of the request.
func gateWith(t *testing.T, payload []byte, r api.Request) *tool {
	return gateOf(t, answersOf(payload, r))
}

// answersOf are the answers of such a gate.
func answersOf(payload []byte, r api.Request) *http.ServeMux {
	mux := http.NewServeMux()
	answer := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			b, ok := v.([]byte)
			if !ok {
				var err error
				if b, err = api.Encode(v); err != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}
			_, _ = w.Write(b)
		})
	}
	answer("/v1/status", api.Status{Host: "pve1", Gate: gateID})
	answer("/v1/audit/head", api.Head{Seq: 3})
	answer("/v1/requests", api.RequestList{Requests: []api.Request{r}})
	answer("/v1/requests/j1.1", r)
	answer("/v1/requests/j1.1/payload", payload)
	return mux
}

// gateOf is a tool whose gate answers so.
func gateOf(t *testing.T, answers http.Handler) *tool {
	dir := must.Get(os.MkdirTemp("/tmp", "gq"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", path))(t)
	srv := &http.Server{Handler: answers, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Socket: path, Getenv: func(string) string { return "" }},
		stdin: os.Stdin, now: time.Now}
}

// requestOf is how a gate describes a request that waits with these bytes.
func requestOf(t *testing.T, b []byte) api.Request {
	p := must.Get(op.DecodePayload(b))(t)
	return api.Request{ID: "j1.1", State: op.StatePending, Op: p.Op, Host: p.Host, Gate: p.Gate, Target: p.Target.String(),
		Incarnation: p.Incarnation, StateFingerprint: p.State, Params: p.Params, Reason: p.Reason, PayloadSHA256: op.SHA256(b)}
}

func ask1(t *testing.T, tl *tool) (question, error) {
	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	return tl.question(context.Background(), cl, "j1.1")
}

// A gate that shows one request and has another signed is refused, whatever of
// the two differs; while nothing can be signed any more, what was done may show.
func TestRequestAndBytesAreOne(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Reason = "end of the project"; p.Params = op.Params{"snapshot": "a"} })
	q := must.Get(ask1(t, gateWith(t, b, requestOf(t, b))))(t)
	require.Equal(t, b, q.bytes)
	require.Contains(t, q.text(view{now: time.Now()}), "guest/web-1")
	for name, change := range map[string]func(*api.Request){
		"id": func(r *api.Request) { r.ID = "j2.1" }, "op": func(r *api.Request) { r.Op = "guest.snapshot" },
		"target": func(r *api.Request) { r.Target = "guest/web-2" }, "params": func(r *api.Request) { r.Params = op.Params{} },
		"host": func(r *api.Request) { r.Host = "pve2" }, "gate": func(r *api.Request) { r.Gate = "ffffffffffffffffffffffffffffffff" },
		"reason": func(r *api.Request) { r.Reason = "harmless" }, "incarnation": func(r *api.Request) { r.Incarnation = "b" },
		"state":  func(r *api.Request) { r.StateFingerprint = op.FingerprintOf([]byte("b")) },
		"digest": func(r *api.Request) { r.PayloadSHA256 = op.SHA256(nil) },
	} {
		r := requestOf(t, b)
		change(&r)
		_, err := ask1(t, gateWith(t, b, r))
		require.ErrorIs(t, err, refusal.BindingMismatch, name)
		require.ErrorContains(t, err, "differ in "+name)
		r.State = op.StateSucceeded
		if _, err := ask1(t, gateWith(t, b, r)); name == "incarnation" || name == "state" {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, refusal.BindingMismatch, name)
		}
	}
}

func TestBytesForAnotherGateAreNotSigned(t *testing.T) {
	for name, change := range map[string]func(*op.Payload){
		"gate": func(p *op.Payload) { p.Gate = "ffffffffffffffffffffffffffffffff" },
		"host": func(p *op.Payload) { p.Host = "pve2" },
	} {
		_, err := ask1(t, gateWith(t, payload(t, change), api.Request{ID: "j1.1", State: op.StatePending}))
		require.ErrorIs(t, err, refusal.TargetMismatch, name)
	}
}

func TestBytesThatDoNotDecodeAreNotShown(t *testing.T) {
	good := payload(t, func(*op.Payload) {})
	for _, b := range [][]byte{append(bytes.Clone(good), '\n'), []byte("{}"), nil,
		bytes.Replace(good, []byte(`"guest.destroy"`), []byte(`"guest.destroy\u202e"`), 1)} {
		_, err := ask1(t, gateWith(t, b, api.Request{ID: "j1.1", State: op.StatePending}))
		require.ErrorIs(t, err, refusal.Malformed, "%q", b)
	}
}

func TestFactsCannotPlayWithTheTerminal(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	r := requestOf(t, b)
	r.Facts, r.Why = []op.Fact{{Name: "bytes", Text: "0\x1b[2K\rnothing"}, {Name: "a\nb", Text: "c"}}, "x\u202ey"
	r.Signatures, r.Owed = []api.Signature{{Principal: "a\x1b[1m", Role: "r\r"}}, []string{"\x1b x"}
	r.Demands = []api.Demand{{Rule: "\x1b]0;", Roles: []op.Role{"\x1b"}, Threshold: 1, Could: []string{"b\u202e"}}}
	q := must.Get(ask1(t, gateWith(t, b, r)))(t)
	text := q.text(view{now: time.Now()})
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\r")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `"0\x1b[2K\rnothing"`)
	require.Contains(t, text, `"a\nb"`)
}

func TestLongFieldsAreShownWhole(t *testing.T) {
	reason := strings.Repeat("r", op.MaxReason)
	b := payload(t, func(p *op.Payload) { p.Reason = reason })
	q := must.Get(ask1(t, gateWith(t, b, requestOf(t, b))))(t)
	require.Contains(t, q.text(view{now: time.Now()}), reason)
}

func TestAnsweredRequestsHaveTheGatesCodes(t *testing.T) {
	for state, code := range map[op.State]refusal.Code{op.StateRejected: refusal.Rejected, op.StateCancelled: refusal.Cancelled,
		op.StateSuperseded: refusal.Superseded, op.StateExpired: refusal.Expired, op.StateSucceeded: refusal.Replayed, op.StateFailed: refusal.Replayed,
		op.StateAuthorized: refusal.Replayed, op.StateDispatched: refusal.Replayed, op.StateInterrupted: refusal.Replayed} {
		require.ErrorIs(t, answered(api.Request{ID: "j1.1", State: state}), code, state)
	}
	require.NoError(t, answered(api.Request{State: op.StatePending}))
}

func TestOutcome(t *testing.T) {
	gone := &api.Error{Code: refusal.StaleTarget, Detail: "it changed"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := now.Add(10 * time.Minute)
	for _, c := range []struct {
		r           api.Request
		exit        int
		out, beside string
	}{
		{api.Request{ID: "j1.1", State: op.StatePending, CoolOff: 600, Demands: []api.Demand{
			{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 2, Have: 1, Could: []string{"bob@example.com"}}}}, 3, "",
			"j1.1 still waits for signatures\n  needs 1 more as operational: bob@example.com (built-in rule)\n" +
				"  after the last signature it cools off for 10m; any operator can stop it by: opsign reject j1.1 --reason TEXT\n"},
		{api.Request{State: op.StateRefused, Error: gone}, 1, "", "stale_target: it changed\n"},
		{api.Request{State: op.StateSucceeded, Op: "guest.destroy", Target: "guest/a", Detail: "can be undone until x"}, 0,
			"destroyed guest/a, can be undone until x\n", ""},
		{api.Request{State: op.StateSucceeded, Op: "guest.wipe", Target: "guest/a"}, 0, "wiped guest/a\n", ""},
		{api.Request{State: op.StateAuthorized, Op: "guest.wipe", Target: "guest/a", Job: "j1"}, 0,
			"guest.wipe guest/a: authorized, not done yet; gated jobs j1 shows how it goes on\n", ""},
		{api.Request{ID: "j1.1", State: op.StateAuthorized, Op: "guest.wipe", Target: "guest/a", Job: "j1", CoolOff: 600, AuthorizedAt: &now,
			RunsAt: &later, ExpiresAt: later.Add(time.Hour)}, 0,
			"guest.wipe guest/a: authorized; runs at 2026-01-02T03:14:05Z\nany operator can stop it until then by: opsign reject j1.1 --reason TEXT\n", ""},
	} {
		var out, beside bytes.Buffer
		tl := &tool{Tool: cli.Tool{Stdout: &out, Stderr: &beside, Socket: "/nowhere", Getenv: func(string) string { return "" }},
			now: func() time.Time { return now }}
		cl := must.Get(tl.Client())(t)
		require.Equal(t, c.exit, api.Exit(tl.outcome(context.Background(), cl, c.r, c.r.RunsAt != nil)))
		require.Equal(t, c.out, out.String())
		first, _, _ := strings.Cut(beside.String(), "\n  hint: ")
		require.Equal(t, strings.TrimSuffix(c.beside, "\n"), strings.TrimSuffix(first, "\n"))
	}
}

// Of an approval that counted, that is said where no daemon says what became of it.
func TestOutcomeThatNobodyTells(t *testing.T) {
	var beside bytes.Buffer
	tl := &tool{Tool: cli.Tool{Stdout: io.Discard, Stderr: &beside, Socket: "/nowhere", Getenv: func(string) string { return "" }}, now: time.Now}
	cl := must.Get(tl.Client())(t)
	err := tl.outcome(t.Context(), cl, api.Request{ID: "j1.1", Job: "j1", State: op.StateAuthorized}, true)
	require.Equal(t, api.ExitUnreachable, tl.Fail("opsign approve", err))
	require.Contains(t, beside.String(), "hint: the approval counted; opsign show j1.1 says what became of it\n")
}

func TestRolesThatHelp(t *testing.T) {
	r := api.Request{State: op.StatePending, Roles: []op.Role{op.Operational, "manager", op.Recovery}, Owed: []string{"SHA256:x coordination"},
		Demands: []api.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1, Have: 1}, {Roles: []op.Role{"manager"}, Threshold: 1},
			{Way: op.WayRecovery, Roles: []op.Role{op.Recovery}, Threshold: 1}}}
	require.Equal(t, []op.Role{"manager"}, usefulRoles(r, keyFlags{}), "those that are still needed")
	require.Equal(t, []op.Role{op.Operational, "manager", op.Recovery, op.Coordination}, usefulRoles(r, keyFlags{role: "recovery"}))
	r.Demands[1].Have = 1
	require.Equal(t, r.Roles, usefulRoles(r, keyFlags{}))
}

// What a refusal tells people to run next is there.
func TestNextStepsAreCommands(t *testing.T) {
	commands := map[string]bool{}
	for _, c := range testTool().root().Commands() {
		commands[c.Name()] = true
	}
	named := 0
	for _, m := range api.Codes {
		for _, c := range regexp.MustCompile(`opsign ([a-z]+)`).FindAllStringSubmatch(cli.Why("x", refusal.New(m.Code, "y")), -1) {
			require.True(t, commands[c[1]], "%s: %s", m.Code, c[1])
			named++
		}
	}
	require.Greater(t, named, 10)
}

// An older gate signs no head of its log: that is said, once in a run.
func TestAGateWithoutASignedHeadIsSaidOnce(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	tl := gateWith(t, b, requestOf(t, b))
	var said strings.Builder
	tl.Stderr = &said
	for range 3 {
		must.Get(ask1(t, tl))(t)
	}
	require.Equal(t, 1, strings.Count(said.String(), "warning: gate "+string(gateID)+" signs no head of its audit log"))
	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	_, checked := must.Two(tl.witnessedGate(context.Background(), cl))(t)
	require.Nil(t, checked, "there is nothing to compare with")
}

// TestOthersForTheTargetAreNamed: an operator who decides on one request hears of the others that wait for its target, and of no other.
func TestOthersForTheTargetAreNamed(t *testing.T) {
	q := asked(t, "guest.wipe", op.Params{})
	q.request.ID = "j18.1"
	also := func(id, target string, state op.State) api.Request {
		return api.Request{ID: id, Target: target, State: state}
	}
	waiting := []api.Request{q.request, also("j19.1", "guest/web-1", op.StateSucceeded), also("j20.1", "guest/web-1", op.StatePending),
		also("j21.1", "guest/web-10", op.StatePending), also("j26.1", "guest/web-1", op.StatePending),
		also("j27.1", "guest/web-1", op.StateAuthorized)}
	const line = "  also waiting for guest/web-1: j20.1, j26.1, j27.1 (authorized)\n"
	require.Contains(t, q.text(view{others: waiting}), line)
	require.NotContains(t, q.text(view{others: waiting[:2]}), "also waiting")
	r := &review{approval: approval{asker: &asker{tool: testTool()}}}
	it := &item{id: q.request.ID, request: q.request, shown: q, others: waiting}
	require.Contains(t, r.textOf(it), line)
	it.others, it.unlisted = nil, errors.New("away")
	require.Contains(t, r.textOf(it), "could not be listed")
	q.request.State = op.StateSucceeded
	require.NotContains(t, q.text(view{others: waiting}), "also waiting")
}

// TestShowNamesWhatElseWaits: also what cools off. If the gate does not list it, the request is shown all the same, and it is said.
func TestShowNamesWhatElseWaits(t *testing.T) {
	bytes := payload(t, func(*op.Payload) {})
	r := requestOf(t, bytes)
	cools := api.Request{ID: "j2.1", Target: "guest/web-1", Op: "guest.wipe", State: op.StateAuthorized}
	list := func(status int, body string) http.Handler {
		mux, answers := http.NewServeMux(), answersOf(bytes, r)
		mux.Handle("/", answers)
		mux.HandleFunc("/v1/requests", func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Query().Get("state") != "" {
				body = `{"requests":[],"next":null}` // what is pending only
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
		return mux
	}
	for want, gate := range map[string]http.Handler{
		"  also waiting for guest/web-1: j2.1 (authorized)\n": list(http.StatusOK, string(must.Get(api.Encode(api.RequestList{Requests: []api.Request{r, cools}}))(t))),
		"  what else waits for guest/web-1 could not be listed: internal: the daemon answered 503 Service Unavailable without saying why\n": list(
			http.StatusServiceUnavailable, ""),
	} {
		tl := gateOf(t, gate)
		out := must.Get(os.CreateTemp(t.TempDir(), "out"))(t)
		tl.Stdout = out
		require.Equal(t, api.ExitDone, tl.run(t.Context(), []string{"show", "j1.1", "--socket", tl.Socket}))
		text := string(must.Get(os.ReadFile(out.Name()))(t))
		require.Contains(t, text, "DESTROY guest/web-1 on pve1")
		require.Contains(t, text, want)
	}
}

// TestWhoAsksHasANameBesideTheUID: the gate's word for a user never takes the place of the uid.
func TestWhoAsksHasANameBesideTheUID(t *testing.T) {
	q := asked(t, "guest.wipe", op.Params{})
	q.request.RequestedBy = []string{"uid:1001", "agent:builder#1", "uid:1002"}
	q.request.Users = map[string]string{"uid:1001": "carol", "uid:1002": "r\u043e\u043et\n", "agent:builder#2": "x"}
	require.Contains(t, q.text(view{}), "  asked by carol (uid:1001), agent:builder#1, \"r\\u043e\\u043et\\n\" (uid:1002)\n")
	require.Equal(t, []string{"uid:1001", "agent:builder#1", "uid:1002"}, q.request.RequestedBy)
	other := q
	other.request.Users = nil
	require.Empty(t, differs(q, other), "a name is not compared")
}
