package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

const gateID = op.GateID("0123456789abcdef0123456789abcdef")

func payload(t *testing.T, change func(*op.Payload)) []byte {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := op.Payload{Gate: gateID, Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"},
		Incarnation: "a:1:2", State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: newNonce(), IssuedAt: at,
		ExpiresAt: at.Add(time.Hour)}
	change(&p)
	b, err := p.Encode()
	require.NoError(t, err)
	return b
}

// gateWith answers as a gate whose request j1.1 has these bytes, whatever else
// it says of the request.
func gateWith(t *testing.T, payload []byte, r api.Request) *tool {
	dir, err := os.MkdirTemp("/tmp", "gq")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
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
	answer("/v1/requests/j1.1", r)
	answer("/v1/requests/j1.1/payload", payload)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Socket: path, Getenv: func(string) string { return "" }},
		stdin: os.Stdin, now: time.Now}
}

func ask1(t *testing.T, tl *tool) (question, error) {
	cl, err := tl.Client()
	require.NoError(t, err)
	defer cl.Close()
	return tl.question(context.Background(), cl, "j1.1")
}

func TestWhatIsShownIsDecodedFromTheBytes(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Target.Name = "database" })
	q, err := ask1(t, gateWith(t, b, api.Request{ID: "j1.1", Op: "guest.snapshot", Target: "guest/web-1", Reason: "harmless",
		State: op.StatePending}))
	require.NoError(t, err)
	require.Equal(t, b, q.bytes)
	text := q.text()
	require.Contains(t, text, "guest/database")
	require.Contains(t, text, "guest.destroy")
	require.NotContains(t, text, "guest/web-1")
	require.NotContains(t, text, "guest.snapshot")
	require.NotContains(t, text, "harmless")
}

func TestBytesForAnotherGateAreNotSigned(t *testing.T) {
	for name, change := range map[string]func(*op.Payload){
		"gate": func(p *op.Payload) { p.Gate = "ffffffffffffffffffffffffffffffff" },
		"host": func(p *op.Payload) { p.Host = "pve2" },
	} {
		_, err := ask1(t, gateWith(t, payload(t, change), api.Request{ID: "j1.1", State: op.StatePending}))
		require.ErrorIs(t, err, op.TargetMismatch, name)
	}
}

func TestBytesThatDoNotDecodeAreNotShown(t *testing.T) {
	good := payload(t, func(*op.Payload) {})
	for _, b := range [][]byte{append(bytes.Clone(good), '\n'), []byte("{}"), nil,
		bytes.Replace(good, []byte(`"guest.destroy"`), []byte(`"guest.destroy\u202e"`), 1)} {
		_, err := ask1(t, gateWith(t, b, api.Request{ID: "j1.1", State: op.StatePending}))
		require.ErrorIs(t, err, op.Malformed, "%q", b)
	}
}

func TestFactsCannotPlayWithTheTerminal(t *testing.T) {
	q, err := ask1(t, gateWith(t, payload(t, func(*op.Payload) {}), api.Request{ID: "j1.1", State: op.StatePending,
		Facts: []op.Fact{{Name: "bytes", Text: "0\x1b[2K\rnothing"}, {Name: "a\nb", Text: "c"}}, Why: "x\u202ey"}))
	require.NoError(t, err)
	text := q.text()
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\r")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `"0\x1b[2K\rnothing"`)
	require.Contains(t, text, `"a\nb"`)
}

func TestLongFieldsAreShownWhole(t *testing.T) {
	reason := strings.Repeat("r", op.MaxReason)
	q, err := ask1(t, gateWith(t, payload(t, func(p *op.Payload) { p.Reason = reason }), api.Request{ID: "j1.1"}))
	require.NoError(t, err)
	require.Contains(t, q.text(), reason)
}

func TestAnsweredRequestsHaveTheGatesCodes(t *testing.T) {
	for state, code := range map[op.State]op.Code{op.StateRejected: op.Rejected, op.StateCancelled: op.Cancelled,
		op.StateSuperseded: op.Superseded, op.StateExpired: op.Expired, op.StateSucceeded: op.Replayed, op.StateFailed: op.Replayed,
		op.StateAuthorized: op.Replayed, op.StateDispatched: op.Replayed, op.StateInterrupted: op.Replayed} {
		require.ErrorIs(t, answered(api.Request{ID: "j1.1", State: state}), code, state)
	}
	require.NoError(t, answered(api.Request{State: op.StatePending}))
}

func TestOutcome(t *testing.T) {
	gone := &api.Error{Code: op.StaleTarget, Detail: "it changed"}
	for _, c := range []struct {
		r           api.Request
		exit        int
		out, beside string
	}{
		{api.Request{ID: "j1.1", State: op.StatePending, Missing: 2}, 3, "", "j1.1: 2 more have to sign\n"},
		{api.Request{State: op.StateRefused, Error: gone}, 1, "", "stale_target: it changed\n"},
		{api.Request{State: op.StateSucceeded, Op: "guest.destroy", Target: "guest/a", Detail: "can be undone until x"}, 0,
			"destroyed guest/a, can be undone until x\n", ""},
		{api.Request{State: op.StateSucceeded, Op: "guest.wipe", Target: "guest/a"}, 0, "wiped guest/a\n", ""},
		{api.Request{State: op.StateAuthorized, Op: "guest.wipe", Target: "guest/a", Job: "j1"}, 0,
			"guest.wipe guest/a: authorized, not done yet; gated jobs j1 shows how it goes on\n", ""},
	} {
		var out, beside bytes.Buffer
		tl := &tool{Tool: cli.Tool{Stdout: &out, Stderr: &beside, Socket: "/nowhere", Getenv: func(string) string { return "" }}}
		cl, err := tl.Client()
		require.NoError(t, err)
		require.Equal(t, c.exit, api.Exit(tl.outcome(context.Background(), cl, c.r, false)))
		require.Equal(t, c.out, out.String())
		require.Equal(t, c.beside, beside.String())
	}
}
