package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestAHubHasNoUIDOnThisMachine: the journal has the name that the hub gave. No
// caller on the socket can use it as its own.
func TestAHubHasNoUIDOnThisMachine(t *testing.T) {
	w := newWorld(t, "a")
	relayed := op.Requester{Source: op.SourceHub, Set: "hub.example.com"}
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	r := must.Get(w.gate.ApproveOffline(w.ctx, relayed, e))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.Equal(t, []op.Requester{relayed}, w.job(r.ID.Job).Requesters)
	must.Fail(w.gate.Cancel(w.ctx, op.Requester{Source: op.SourceAPI, UID: 1000}, r.ID.Job))(t, refusal.NotAllowed)
	_, err := w.gate.Submit(w.ctx, op.Submission{Requester: relayed, Steps: []op.Ask{ask("guest.stop", "a")}})
	require.ErrorIs(t, err, refusal.NotAllowed, "a hub submits nothing")
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did())
}

func TestKnownPayload(t *testing.T) {
	w := newWorld(t, "a")
	payload := w.payload(ask("guest.destroy", "a"))
	for _, b := range [][]byte{payload, nil, []byte("{}")} {
		_, known := must.Two(w.gate.KnownPayload(w.ctx, b))(t)
		require.False(t, known)
	}
	r := must.Get(w.offline(alice.envelope(t, payload)))(t)
	id, known := must.Two(w.gate.KnownPayload(w.ctx, payload))(t)
	require.True(t, known)
	require.Equal(t, r.ID, id)
	p := must.Get(op.DecodePayload(payload))(t)
	p.Reason = "another payload with its nonce"
	other := must.Get(p.Encode())(t)
	_, known = must.Two(w.gate.KnownPayload(w.ctx, other))(t)
	require.False(t, known)
}
