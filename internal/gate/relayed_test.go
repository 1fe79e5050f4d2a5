package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// TestAHubHasNoUIDOnThisMachine: the journal has the name that the hub gave. No
// caller on the socket can use it as its own.
func TestAHubHasNoUIDOnThisMachine(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	relayed := op.Requester{Source: op.SourceHub, Set: "hub.example.com"}
	e := alice.envelope(t, w.payload(ask("guest.destroy", "a")))
	r, err := w.gate.ApproveOffline(w.ctx, relayed, e)
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.Equal(t, []op.Requester{relayed}, w.job(r.ID.Job).Requesters)
	_, err = w.gate.Cancel(w.ctx, op.Requester{Source: op.SourceAPI, UID: 1000}, r.ID.Job)
	require.ErrorIs(t, err, refusal.NotAllowed)
	_, err = w.gate.Submit(w.ctx, op.Submission{Requester: relayed, Steps: []op.Ask{ask("guest.stop", "a")}})
	require.ErrorIs(t, err, refusal.NotAllowed, "a hub submits nothing")
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did())
}

func TestKnownPayload(t *testing.T) {
	w := newWorld(t)
	w.back.put("a")
	payload := w.payload(ask("guest.destroy", "a"))
	for _, b := range [][]byte{payload, nil, []byte("{}")} {
		_, known, err := w.gate.KnownPayload(w.ctx, b)
		require.NoError(t, err)
		require.False(t, known)
	}
	r, err := w.offline(alice.envelope(t, payload))
	require.NoError(t, err)
	id, known, err := w.gate.KnownPayload(w.ctx, payload)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, r.ID, id)
	p, err := op.DecodePayload(payload)
	require.NoError(t, err)
	p.Reason = "another payload with its nonce"
	other, err := p.Encode()
	require.NoError(t, err)
	_, known, err = w.gate.KnownPayload(w.ctx, other)
	require.NoError(t, err)
	require.False(t, known)
}
