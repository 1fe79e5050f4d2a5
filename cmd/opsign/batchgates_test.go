package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

// countedGate answers as a gate with the request j1.1. It counts calls, and hangs up without an answer while mute is true.
type countedGate struct {
	*tool
	status, calls atomic.Int32
	mute          atomic.Bool
}

func newCountedGate(t *testing.T) *countedGate {
	g := &countedGate{}
	b := payload(t, func(*op.Payload) {})
	answers := answersOf(b, requestOf(t, b))
	g.tool = gateOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.calls.Add(1)
		if r.URL.Path == "/v1/status" {
			g.status.Add(1)
		}
		if g.mute.Load() {
			panic(http.ErrAbortHandler)
		}
		answers.ServeHTTP(w, r)
	}))
	g.Stderr = io.Discard
	return g
}

// batch is a run of a batch's command against the gate.
func (g *countedGate) batch(t *testing.T) (*batch, *reached) {
	b := &batch{asker: &asker{tool: g.tool}}
	t.Cleanup(b.end)
	return b, must.Get(b.gate(""))(t)
}

// TestABatchAsksAGateOnceWhoItIs: in each look, not for each request.
func TestABatchAsksAGateOnceWhoItIs(t *testing.T) {
	g := newCountedGate(t)
	b, at := g.batch(t)
	for range 2 {
		must.Get(at.question(t.Context(), g.tool, "j1.1"))(t)
	}
	require.EqualValues(t, 1, g.status.Load())
	b.lookAgain()
	for range 2 {
		must.Get(at.question(t.Context(), g.tool, "j1.1"))(t)
	}
	require.EqualValues(t, 2, g.status.Load(), "a second look asks again")
}

// TestABatchDoesNotWaitForEachRequestOfALostGate: one request finds that the gate does not answer, and the others of that
// gate are left out without a call. What was not sent is not said to be in doubt.
func TestABatchDoesNotWaitForEachRequestOfALostGate(t *testing.T) {
	g := newCountedGate(t)
	_, at := g.batch(t)
	q := must.Get(at.question(t.Context(), g.tool, "j1.1"))(t)
	g.mute.Store(true)
	items := []*batched{{ID: "j1.1", at: at}, {ID: "j2.1", at: at}}
	items[0].handIn(t.Context(), g.tool, api.EnvelopeOf(q.Bytes, "x"))
	calls := g.calls.Load()
	items[1].handIn(t.Context(), g.tool, api.EnvelopeOf(q.Bytes, "x"))
	_, err := at.question(t.Context(), g.tool, "j1.1")
	require.Equal(t, api.ExitUnreachable, api.Exit(err))
	require.Equal(t, calls, g.calls.Load())
	require.Equal(t, maybeCounted("j1.1"), cli.ProblemOf(items[0].err).Hint)
	require.Equal(t, wordsNotHandedIn, cli.ProblemOf(items[1].err).Hint)
}

// TestTheFileBesideABatchLeadsToNoNewHost: it is not signed, so that it sends no operator's ssh to a host of its choice.
func TestTheFileBesideABatchLeadsToNoNewHost(t *testing.T) {
	g := newCountedGate(t)
	dir := t.TempDir()
	g.Getenv = func(name string) string { return map[string]string{"XDG_CONFIG_HOME": dir}[name] }
	b := &batch{asker: &asker{tool: g.tool}}
	t.Cleanup(b.end)
	_, err := b.gateAt(client.Options{Getenv: g.Getenv}, "ssh://mallory@pve9")
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.Empty(t, b.gates)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "gated"), 0o700))
	known := client.KnownGatesOf(g.Getenv)
	must.Get(known.Check("ssh://mallory@pve9", api.Status{Host: "pve9", Gate: gateID}))(t)
	must.Get(b.gateAt(client.Options{Getenv: g.Getenv}, "ssh://mallory@pve9"))(t)
	must.Get(b.gateAt(client.Options{Getenv: g.Getenv}, client.UnixAddress(g.Socket)))(t, "a socket of this host is no journey")
}
