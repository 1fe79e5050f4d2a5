package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// operation returns what the last report says of the only operation.
func (w *world) operation() hub.OperationReport {
	w.t.Helper()
	ops := w.place.last(w.t).Operations
	require.Len(w.t, ops, 1)
	return ops[0]
}

func relayWorld(t testing.TB) *world {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	w.guests.Put("a", op.Params{})
	w.guests.Put("b", op.Params{})
	return w
}

// TestARelayedOperationRunsOnce, however often it is relayed and the daemon is
// started, and the hub is told the same each time.
func TestARelayedOperationRunsOnce(t *testing.T) {
	w := relayWorld(t)
	payload := w.payload("guest.destroy", "a")
	e := w.signed(payload, w.alice)
	w.place.relay(e)
	w.round()
	w.eventually(func() bool { return !w.has("a") }, "it runs")
	w.eventually(func() bool { w.round(); return w.operation().State == op.StateSucceeded }, "it is reported")
	o := w.operation()
	require.Equal(t, hub.Digest(e), o.Digest)
	require.Equal(t, op.SHA256(payload), o.Payload)
	require.Equal(t, "guest.destroy", o.Op)
	require.Equal(t, "guest/a", o.Target)
	require.Empty(t, o.Code)
	require.Equal(t, 1, w.jobs())
	job := must.Get(w.gate.Job(w.ctx, 1))(t)
	require.Equal(t, []op.Requester{hub.Requester(w.server.URL)}, job.Requesters)
	require.Equal(t, "hub:"+w.server.Listener.Addr().String(), job.Requesters[0].String())

	// Once more under the same name: a guest that the signature did not mean.
	w.guests.Put("a", op.Params{})
	for range 3 {
		w.round()
		w.restart()
		w.round()
		require.Equal(t, o, w.operation())
	}
	w.pass(48 * time.Hour) // longer than its payload is valid
	w.restart()
	w.round()
	require.Equal(t, o, w.operation(), "what became of it is known also when it would be too late")
	require.True(t, w.has("a"))
	require.Equal(t, 1, w.jobs())
	require.Zero(t, w.refusals(), "what is known is not asked again")
}

// TestAHubRelaysAnApproval of a request that waits.
func TestAHubRelaysAnApproval(t *testing.T) {
	w := relayWorld(t)
	job := must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: 1000},
		Steps: []op.Ask{{Op: "guest.destroy", Target: guest("a"), Params: op.Params{}}}}))(t)
	r := must.Get(w.gate.Request(w.ctx, job.Steps[0].ID))(t)
	w.place.relay(garbage(1), w.signed(r.Payload, w.alice), garbage(2))
	w.round()
	w.eventually(func() bool { return !w.has("a") }, "it was approved")
	require.Equal(t, 2, w.link.Status().Refused)
	require.True(t, w.has("b"))
}

// TestTwoPeopleThroughAHub: the envelopes of one payload come one by one.
func TestTwoPeopleThroughAHub(t *testing.T) {
	w := relayWorld(t)
	w.stop()
	w.rules.Rules = []policy.Rule{{Where: "gated.yaml:1", Op: "guest.destroy", Threshold: 2}}
	w.open()
	payload := w.payload("guest.destroy", "a")
	one, two := w.signed(payload, w.alice), w.signed(payload, w.bob)
	w.place.relay(one)
	w.round()
	require.Equal(t, op.StatePending, w.operation().State)
	require.True(t, w.has("a"))
	w.restart()
	w.place.relay(one, two)
	w.round()
	w.eventually(func() bool { return !w.has("a") }, "two people signed")
	// A report reads one request after the other, and the step may end in between.
	w.eventually(func() bool {
		w.round()
		all := w.place.last(t).Operations
		return all[0].State == op.StateSucceeded && all[1].State == op.StateSucceeded
	}, "both are told")
	for i, code := range []refusal.Code{refusal.ThresholdUnmet, ""} {
		o := w.place.last(t).Operations[i]
		require.Equal(t, code, o.Code, "the first was counted before the restart")
		require.Equal(t, op.StateSucceeded, o.State)
		require.Equal(t, "j1.1", o.Request)
	}
}

// TestWhatAHubCannotRelay: every envelope that POST /v1/ops would refuse.
func TestWhatAHubCannotRelay(t *testing.T) {
	w := relayWorld(t)
	payload := w.payload("guest.destroy", "a")
	good := w.signed(payload, w.alice)
	other := w.payload("guest.destroy", "b")
	many := good
	for range op.MaxSignatures {
		many.Signatures = append(many.Signatures, good.Signatures[0])
	}
	for name, c := range map[string]struct {
		e    api.Envelope
		want refusal.Code
	}{
		"garbage":             {garbage(1), refusal.Malformed},
		"no base64":           {api.Envelope{Payload: "*", Signatures: good.Signatures}, refusal.Malformed},
		"nothing":             {api.Envelope{}, refusal.Malformed},
		"no signature":        {api.Envelope{Payload: good.Payload}, refusal.Malformed},
		"too many signatures": {many, refusal.Oversized},
		"another's signature": {api.Envelope{Payload: w.signed(other).Payload, Signatures: good.Signatures}, refusal.BadSignature},
		"somebody else's":     {w.signed(payload, mint.Ed25519(t, "mallory")), refusal.UnknownSigner},
		"an altered payload":  {api.EnvelopeOf(append(payload[:len(payload)-1:len(payload)-1], ' ', '}'), good.Signatures...), refusal.Malformed},
	} {
		w.place.relay(c.e)
		w.round()
		o := w.operation()
		require.Equal(t, c.want, o.Code, name)
		require.Empty(t, o.Request, name)
		require.Empty(t, o.State, name)
	}
	require.Zero(t, w.jobs())
	require.True(t, w.has("a"))
	require.True(t, w.has("b"))
}

// TestListsThatAreNone: the list is refused whole, and nothing is relayed.
func TestListsThatAreNone(t *testing.T) {
	w := relayWorld(t)
	e := w.signed(w.payload("guest.destroy", "a"), w.alice)
	whole := must.Get(api.Encode(hub.Operations{Host: testHost, Operations: []api.Envelope{e}}))(t)
	elsewhere := must.Get(api.Encode(hub.Operations{Host: "pve2", Operations: []api.Envelope{e}}))(t)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    refusal.Code
	}{
		"500":          {status(500), refusal.Unavailable},
		"304":          {status(304), refusal.Malformed},
		"HTML":         {says("text/html", "", "<html>"), refusal.Malformed},
		"cut off":      {says(jsonType, "", string(whole[:len(whole)-2])), refusal.Malformed},
		"another host": {says(jsonType, "", string(elsewhere)), refusal.TargetMismatch},
		"null":         {says(jsonType, "", `{"host":"pve1","operations":null}`), refusal.Malformed},
		"a null":       {says(jsonType, "", `{"host":"pve1","operations":[null]}`), refusal.Malformed},
		"more members": {says(jsonType, "", `{"host":"pve1","operations":[],"run":"rm"}`), refusal.Malformed},
		"a number":     {says(jsonType, "", `{"host":"pve1","operations":[{"payload":1,"signatures":[]}]}`), refusal.Malformed},
	} {
		w.place.on(hub.PathOperations, c.handler)
		w.round()
		require.ErrorIs(t, w.link.Status().RelayErr, c.want, name)
	}
	require.Zero(t, w.jobs())
	require.True(t, w.has("a"))
	w.place.on(hub.PathOperations, nil)
	w.round()
	require.NoError(t, w.link.Status().RelayErr, "a hub may relay nothing")
}

// TestAHundredThousandOperations are refused as a list; of as many as a list may
// have, a few are tried in a round, each once, and the log is not filled.
func TestAHundredThousandOperations(t *testing.T) {
	w := relayWorld(t)
	list := make([]api.Envelope, 100_000)
	for i := range list {
		list[i] = api.Envelope{Payload: "eA==", Signatures: []string{fmt.Sprint(i)}}
	}
	w.place.relay(list...)
	w.round()
	require.ErrorIs(t, w.link.Status().RelayErr, refusal.Oversized)
	require.Zero(t, w.refusals())

	list = list[:hub.MaxOperations]
	w.place.relay(list...)
	for i := 1; i <= 3; i++ {
		w.round()
		s := w.link.Status()
		require.Equal(t, hub.MaxOperations, s.Relayed)
		require.Equal(t, 32*i, s.Refused)
		require.Equal(t, hub.MaxOperations-32*i, s.Untried)
	}
	require.Equal(t, 10, w.refusals(), "ten of a minute have entries of their own")
	e := w.signed(w.payload("guest.destroy", "a"), w.alice)
	w.place.relay(append([]api.Envelope{e}, list[1:]...)...)
	w.round()
	w.eventually(func() bool { return !w.has("a") }, "a real one comes through")

	// What was refused is not tried again while it is relayed.
	w.place.relay(list[:64]...)
	w.round()
	w.round()
	n := w.refusals()
	w.pass(2 * time.Minute)
	for range 20 {
		w.round()
	}
	require.Equal(t, n, w.refusals())
	r := w.place.last(t)
	require.Len(t, r.Operations, 64)

	// Nor when it is taken out and put in again.
	w.place.relay()
	w.round()
	w.place.relay(list[0])
	w.round()
	require.Equal(t, 1, w.link.Status().Refused)
	require.Equal(t, refusal.Malformed, w.operation().Code)
	require.Equal(t, n, w.refusals())
}

// TestWhatCannotBeDecidedIsTriedAgain, less and less often.
func TestWhatCannotBeDecidedIsTriedAgain(t *testing.T) {
	w := relayWorld(t)
	p := must.Get(op.DecodePayload(w.payload("guest.destroy", "a")))(t)
	p.IssuedAt, p.ExpiresAt = noon.Add(10*time.Minute), noon.Add(time.Hour)
	b := must.Get(p.Encode())(t)
	w.place.relay(w.signed(b, w.alice))
	tries := 0
	for range 9 * 2 {
		w.round()
		w.pass(30 * time.Second)
	}
	tries = w.refusals()
	require.Equal(t, 4, tries, "after 0, 1, 3 and 7 minutes")
	require.Equal(t, refusal.NotYetValid, w.operation().Code)
	require.Equal(t, 1, w.link.Status().Untried)
	w.pass(10 * time.Minute)
	w.round()
	w.eventually(func() bool { return !w.has("a") }, "its time has come")
}
