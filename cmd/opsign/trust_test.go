package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// TestWhatAGateListsOtherwiseIsNotListed: a gate lists the key, and its holder cannot sign with it in that role.
func TestWhatAGateListsOtherwiseIsNotListed(t *testing.T) {
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	add := addition{Signer: pubkey.Signer{Key: "SHA256:k", Name: "carol", Role: op.Operational}}
	for name, c := range map[string]struct {
		change func(*api.Trust, *api.Signer)
		in     bool
		says   string
	}{
		"as it is":       {func(*api.Trust, *api.Signer) {}, true, ""},
		"valid now":      {func(_ *api.Trust, s *api.Signer) { s.ValidAfter, s.ValidBefore = &before, &after }, true, ""},
		"another key":    {func(_ *api.Trust, s *api.Signer) { s.Fingerprint = "SHA256:other" }, false, ""},
		"another role":   {func(_ *api.Trust, s *api.Signer) { s.Roles = []api.Role{op.Recovery} }, false, "in another role"},
		"another person": {func(_ *api.Trust, s *api.Signer) { s.Principal = "mallory" }, false, "as the key of mallory"},
		"an authority":   {func(_ *api.Trust, s *api.Signer) { s.CA = true; s.Principal = "*@example.com" }, false, "certificate authority"},
		"another line": {func(l *api.Trust, s *api.Signer) {
			other := *s
			other.Roles = []api.Role{op.Recovery}
			l.Signers = []api.Signer{other, *s, other}
		}, true, ""},
		"not yet valid":   {func(_ *api.Trust, s *api.Signer) { s.ValidAfter = &after }, false, "valid only from"},
		"ended":           {func(_ *api.Trust, s *api.Signer) { s.ValidBefore = &before }, false, "valid only until"},
		"revoked":         {func(l *api.Trust, _ *api.Signer) { l.Revoked = []string{"SHA256:k"} }, false, "revoked"},
		"all are refused": {func(l *api.Trust, _ *api.Signer) { l.Blocked = true }, false, "accepts no signature"},
	} {
		list := api.Trust{Signers: []api.Signer{{Line: 1, Principal: "carol", Fingerprint: "SHA256:k", Roles: []api.Role{op.Operational}}}}
		c.change(&list, &list.Signers[0])
		in, err := listsSigner(list, add, now)
		require.Equal(t, c.in, in, name)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
}

// trustGate is a gate that is known at two addresses, and answers as the test says.
type trustGate struct {
	*tool
	t     *testing.T
	at    []client.Address
	posts int
	out   bytes.Buffer
}

// answersWith writes an answer of the gate's, a refusal as a problem. Nil breaks the connection.
func answersWith(t *testing.T, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body := v
		if err, ok := v.(error); ok {
			p := api.ProblemOf(err)
			w.Header().Set("Content-Type", api.ProblemType)
			w.WriteHeader(p.Status)
			body = p
		}
		b, err := api.Encode(body)
		if text, ok := v.(string); ok {
			b = []byte(text)
		}
		if v == nil || err != nil {
			panic(http.ErrAbortHandler)
		}
		_, err = w.Write(b)
		assert.NoError(t, err)
	}
}

func newTrustGate(t *testing.T, list, submit, request any) *trustGate {
	g := &trustGate{t: t}
	mux := http.NewServeMux()
	mux.Handle("GET /v1/status", answersWith(t, api.Status{Host: "pve1", Gate: gateID}))
	mux.Handle("GET /v1/audit/head", answersWith(t, api.Head{Seq: 3}))
	mux.Handle("GET /v1/trust", answersWith(t, list))
	mux.Handle("GET /v1/requests/j1.1", answersWith(t, request))
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		g.posts++
		answersWith(t, submit)(w, r)
	})
	other := gateOf(t, mux)
	g.tool = gateOf(t, mux)
	home := t.TempDir()
	g.Getenv = func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}[name]
	}
	g.at = []client.Address{client.UnixAddress(g.Socket), client.UnixAddress(other.Socket)}
	for _, at := range g.at {
		must.Get(client.KnownGatesOf(g.Getenv).Check(at, api.Status{Host: "pve1", Gate: gateID}))(t)
	}
	g.Socket, g.Stdout, g.Stderr, g.gateTime = "", &g.out, io.Discard, time.Minute
	return g
}

// add runs the command, and returns its exit code and what it printed.
func (g *trustGate) add(gates ...string) (int, string) {
	g.out.Reset()
	err := g.addSigner(g.t.Context(), addition{Signer: pubkey.Signer{Line: "x", Key: "k", Role: op.Operational}, gates: gates})
	return api.Exit(err), g.out.String()
}

// rotationOf is the request for the rotation of such a gate.
func rotationOf(state op.State, owed ...string) api.Request {
	return api.Request{ID: "j1.1", State: state, Op: op.Rotate, Target: op.Signers.String(), Owed: owed,
		Params: op.Params{"epoch": int64(2), "add": []any{"x"}}}
}

// TestWhatAGateSaysOfARotation: a doubt is no "no", what was asked for is named, and a gate with two addresses is asked
// once.
func TestWhatAGateSaysOfARotation(t *testing.T) {
	list, accepted := api.Trust{Epoch: 1}, api.Job{ID: "j1", Steps: []api.Step{{ID: "j1.1"}}}
	const doubt, asked = "pve1: not known whether it was asked for: ", "pve1: j1.1 was asked for: "
	stranger := rotationOf(op.StatePending)
	stranger.Params = op.Params{"epoch": int64(2), "add": []any{"y"}}
	for name, c := range map[string]struct {
		list, submit, request any
		exit                  int
		says                  string
	}{
		"the connection breaks":    {list, nil, nil, api.ExitInternal, doubt + "unavailable: "},
		"the journal is in doubt":  {list, refusal.New(refusal.Unavailable, "cannot say now"), nil, api.ExitInternal, doubt + "unavailable: cannot say now"},
		"a member did not answer":  {list, refusal.New(refusal.Unavailable, "may have happened"), nil, api.ExitInternal, doubt + "unavailable: may have"},
		"an answer is not JSON":    {list, "ok", nil, api.ExitInternal, doubt + "internal: the daemon's answer is not understood"},
		"an answer has no step":    {list, api.Job{ID: "j1"}, nil, api.ExitInternal, doubt + "internal: the gate's answer does not name the step"},
		"an id is none":            {list, api.Job{Steps: []api.Step{{ID: "j1.1; rm -r /"}}}, nil, api.ExitInternal, doubt + "internal: "},
		"a newer gate's code":      {list, refusal.New("from_the_future", "why"), nil, api.ExitInternal, doubt + "from_the_future: why"},
		"it refuses":               {list, refusal.New(refusal.RejectedBefore, "no").WithHint("say why"), nil, api.ExitRefused, "pve1: no request: rejected_before: no\n  hint: say why\n"},
		"nobody was asked":         {list, refusal.New(refusal.Standby, "another decides"), nil, api.ExitInternal, "pve1: no request: standby: "},
		"the list cannot be read":  {refusal.New(refusal.Unavailable, "it changes"), nil, nil, api.ExitInternal, "pve1: no request: unavailable: it changes"},
		"the request breaks":       {list, accepted, nil, api.ExitInternal, asked + "unavailable: "},
		"the request is no JSON":   {list, accepted, "ok", api.ExitInternal, asked + "internal: "},
		"the request is another":   {list, accepted, stranger, api.ExitRefused, asked + "binding_mismatch: the gate shows another request"},
		"it waits for its holder":  {list, accepted, rotationOf(op.StatePending, "k operational"), api.ExitWaits, "pve1: j1.1 waits. First, the holder of the new key, at this gate: opsign approve j1.1 --role operational --key KEY\n"},
		"it waits for an operator": {list, accepted, rotationOf(op.StatePending), api.ExitWaits, "pve1: j1.1 waits for who approves it: opsign approve j1.1 --socket "},
		"it is signed":             {list, accepted, rotationOf(op.StateAuthorized), api.ExitWaits, "pve1: j1.1 is signed, and not done yet: opsign show j1.1 --socket "},
		"it is under way":          {list, accepted, rotationOf(op.StateDispatched), api.ExitWaits, "pve1: j1.1 is signed, and not done yet: "},
		"it is done":               {list, accepted, rotationOf(op.StateSucceeded), api.ExitDone, "pve1: the key is listed already\n"},
		"it was rejected":          {list, accepted, rotationOf(op.StateRejected), api.ExitRefused, asked + "conflict: j1.1 is rejected\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTrustGate(t, c.list, c.submit, c.request)
			code, out := g.add("pve1")
			require.True(t, strings.HasPrefix(out, c.says), out)
			require.Equal(t, c.exit, code)
			sent := 1
			if _, refused := c.list.(error); refused {
				sent = 0
			}
			require.Equal(t, sent, g.posts, "not at the other address, too")

			g.JSON = true
			_, out = g.add("pve1")
			var a added
			require.NoError(t, json.Unmarshal([]byte(out), &a), out)
			require.Equal(t, c.request != nil || c.submit != nil && reflect.DeepEqual(c.submit, accepted), a.Request == "j1.1", out)
			require.Equal(t, strings.HasPrefix(c.says, doubt), a.Doubt, out)
			if a.Doubt {
				require.Equal(t, []string{"opsign list --all --socket " + strings.TrimPrefix(string(g.at[0]), "unix:")}, a.Next)
				require.Contains(t, a.Error.Hint, a.Next[0]+"; then run the same command again")
			}
		})
	}
}

// TestTheOtherAddressIsAsked: a gate that does not answer at the named address is asked at its other one.
func TestTheOtherAddressIsAsked(t *testing.T) {
	g := newTrustGate(t, api.Trust{Epoch: 1}, api.Job{Steps: []api.Step{{ID: "j1.1"}}}, rotationOf(op.StatePending))
	for i, named := range g.at {
		code, out := g.add(string(named))
		require.Equal(t, api.ExitWaits, code, out)
		require.Contains(t, out, "--socket "+strings.TrimPrefix(string(g.at[i]), "unix:"), "the named one first")
	}
	require.NoError(t, os.Remove(strings.TrimPrefix(string(g.at[0]), "unix:")))
	code, out := g.add(string(g.at[0]))
	require.Equal(t, api.ExitWaits, code, out)
	require.Contains(t, out, "--socket "+strings.TrimPrefix(string(g.at[1]), "unix:"))
	require.Equal(t, 3, g.posts)
	require.NoError(t, os.Remove(strings.TrimPrefix(string(g.at[1]), "unix:")))
	code, out = g.add("pve1")
	require.Equal(t, api.ExitUnreachable, code)
	require.Contains(t, out, "pve1: no request: the daemon cannot be reached\n")

	other := api.Status{Host: "pve1", Gate: api.GateID(strings.Repeat("ab", 16))}
	must.Get(client.KnownGatesOf(g.Getenv).Check(client.UnixAddress("/tmp/other"), other))(t)
	code, out = g.add("pve1")
	require.Equal(t, api.ExitUsage, code, "two gates have that host")
	require.Empty(t, out)
}
