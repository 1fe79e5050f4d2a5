package hub_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/test/must"
)

// theLog is a log that shows a head and proofs that a test says.
type theLog struct {
	head  api.Head
	proof []string
	err   error // of Consistency
	asked []int64
}

func (l *theLog) Head(context.Context) (api.Head, error) { return l.head, nil }

func (l *theLog) Consistency(_ context.Context, old, size int64) (api.Consistency, error) {
	l.asked = append(l.asked, old, size)
	return api.Consistency{Old: old, Size: size, Proof: l.proof}, l.err
}

// note is a head of so many entries. Nobody checks its signature here.
func note(gate op.GateID, size string) api.Head {
	return api.Head{Key: "key", Note: "gated/" + string(gate) + "\n" + size + "\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— sig\n"}
}

// heads has the place keep heads, and returns what it was sent.
func (p *place) heads(gate op.GateID, kept *string, status *int) func() []hub.Head {
	var sent []hub.Head
	p.on(hub.PathHead, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"gate":"`+r.URL.Query().Get("gate")+`","size":`+*kept+`}`)
			return
		}
		b, err := io.ReadAll(r.Body)
		if err == nil {
			var h hub.Head
			if h, err = hub.DecodeHead(b, testHost); err == nil {
				sent = append(sent, h)
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(*status)
	})
	return func() []hub.Head {
		p.mu.Lock()
		defer p.mu.Unlock()
		return sent
	}
}

// TestHeads: each new head goes to the hub with the proof from what the hub keeps.
func TestHeads(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	log := &theLog{head: note(w.gate.ID(), "5"), proof: []string{"p"}}
	w.link.Log = log
	kept, status := "0", 204
	sent := w.place.heads(w.gate.ID(), &kept, &status)
	w.round()
	require.Equal(t, []hub.Head{{Host: testHost, Gate: w.gate.ID(), Key: "key", Note: log.head.Note, Proof: []string{}}}, sent())
	require.Empty(t, log.asked, "a first head has nothing to go on from")
	asked := w.place.count(hub.PathHead)
	w.round()
	require.Equal(t, asked, w.place.count(hub.PathHead), "nothing changed")
	log.head = note(w.gate.ID(), "8")
	w.round()
	require.Equal(t, []int64{5, 8}, log.asked)
	require.Equal(t, hub.Head{Host: testHost, Gate: w.gate.ID(), Key: "key", Note: log.head.Note, From: 5, Proof: []string{"p"}}, sent()[1])
	require.Equal(t, asked+1, w.place.count(hub.PathHead), "what the hub keeps is known")
	require.NoError(t, w.link.Status().HeadErr)

	// The hub keeps another head by now: it is asked, and the proof is from there.
	status = 409
	log.head = note(w.gate.ID(), "9")
	w.round()
	require.ErrorIs(t, w.link.Status().HeadErr, refusal.Unavailable)
	w.pass(time.Hour)
	kept, status = "6", 204
	w.round()
	require.NoError(t, w.link.Status().HeadErr)
	require.Equal(t, int64(6), sent()[len(sent())-1].From)
}

// TestAHeadThatDoesNotGoOn is sent all the same, so that the hub has it as evidence, and the gate says what the hub said.
func TestAHeadThatDoesNotGoOn(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	log := &theLog{head: note(w.gate.ID(), "5"), err: refusal.New(refusal.BadParams, "no such size")}
	w.link.Log = log
	kept, status := "12", hub.StatusContradicts
	sent := w.place.heads(w.gate.ID(), &kept, &status)
	w.round()
	require.Equal(t, int64(12), sent()[0].From)
	require.Empty(t, sent()[0].Proof)
	require.ErrorIs(t, w.link.Status().HeadErr, refusal.BindingMismatch)
	require.False(t, w.link.Status().HeadSince.IsZero())
	tries := w.place.count(hub.PathHead)
	for range 20 {
		w.round()
	}
	require.Equal(t, tries, w.place.count(hub.PathHead), "it is not tried in each round")
	w.pass(time.Hour)
	kept = "3"
	w.round()
	require.Equal(t, int64(3), sent()[1].From)
	require.Empty(t, sent()[1].Proof, "the log has no such proof")
}

// TestAHubWithoutHeads is asked rarely, and that is no fault.
func TestAHubWithoutHeads(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[]")
	w.link.Log = &theLog{head: note(w.gate.ID(), "5")}
	w.round()
	w.round()
	require.Equal(t, 1, w.place.count(hub.PathHead))
	require.NoError(t, w.link.Status().HeadErr)
	w.pass(time.Hour)
	w.round()
	require.Equal(t, 2, w.place.count(hub.PathHead))
	for _, bad := range []string{`{"gate":"","size":1}`, `{"gate":"` + string(w.gate.ID()) + `","size":-1}`, `{}`, `nonsense`} {
		w.pass(time.Hour)
		w.place.on(hub.PathHead, says("application/json", "", bad))
		w.round()
		require.Error(t, w.link.Status().HeadErr, bad)
	}
	w.link.Log = nil
	w.pass(time.Hour)
	asked := w.place.count(hub.PathHead)
	w.round()
	require.Equal(t, asked, w.place.count(hub.PathHead))
}

// TestWhatWaitsIsReported: each request that waits, whoever asked for it.
func TestWhatWaitsIsReported(t *testing.T) {
	w := newWorld(t)
	w.place.wish("r1", "[{name: a, state: stopped}]")
	w.round()
	w.eventually(func() bool { return w.has("a") }, "a is there")
	require.Empty(t, w.place.last(t).Requests)
	w.place.wish("r2", "[{name: a, state: absent}]")
	w.eventually(func() bool { w.round(); return len(w.place.last(t).Requests) == 1 }, "it waits")
	is, q := w.pending()[0], w.place.last(t).Requests[0]
	require.Equal(t, api.FleetRequest{Request: is.ID.String(), Op: "guest.destroy", Target: "guest/a", Reason: is.Reason, RequestedBy: "desired:site",
		CreatedAt: is.CreatedAt.UTC(), ExpiresAt: is.ExpiresAt.UTC(), Missing: 1, PayloadSHA256: op.SHA256(is.Payload)}, q)
	must.Get(hub.DecodeReport(must.Get(api.Encode(w.place.last(t)))(t), testHost))(t)
}
