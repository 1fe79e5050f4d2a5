package matrix_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	gatedhub "gated/internal/host/hub"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// hubOf is a link to a hub that answers each document as it is told.
func hubOf(w *world, answers map[string]http.HandlerFunc) *gatedhub.Link {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if h := answers[path.Base(r.URL.Path)]; h != nil {
			h(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	w.t.Cleanup(s.Close)
	return gatedhub.New(gatedhub.Config{URL: s.URL, Host: testHost, Interval: time.Minute, Timeout: time.Minute, Report: time.Hour, Gate: w.gate,
		Standing: func(map[op.Target]bool, int) ([]reconcile.SetStanding, []reconcile.WishStanding, int) {
			return nil, nil, 0
		},
		ID: w.gate.ID(), StartedAt: w.now(), Now: w.now, Logger: slog.New(slog.DiscardHandler)})
}

// served answers with a document as a hub does.
func served(v any) http.HandlerFunc {
	b, err := api.Encode(v)
	if err != nil {
		panic(err)
	}
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(b)
	}
}

func wishes(guests string) http.HandlerFunc {
	return served(gatedhub.Desired{Revision: "r1", Host: testHost, Sets: map[string]string{"hub": document(guests)}})
}

// badHub is a row in which a hub that wished for something answers something
// else: nothing is planned, and what waits goes on waiting.
func badHub(id, what string, h http.HandlerFunc) attack {
	return attack{id: id, what: what, want: nothingPlanned, run: func(w *world) error {
		answers := map[string]http.HandlerFunc{gatedhub.PathDesired: wishes("  - name: victim\n    state: absent\n  - name: bystander\n    memory: 64MiB\n")}
		l := hubOf(w, answers)
		require.True(w.t, w.reconcile(l).Sources[0].OK)
		require.Len(w.t, must.Get(w.gate.Open(w.ctx, guest("victim")))(w.t), 1)
		w.armUnlogged("what cannot be read asks for nothing; status says so")
		answers[gatedhub.PathDesired] = h
		l.Round(w.ctx)
		for _, link := range []*gatedhub.Link{l, hubOf(w, answers)} { // and as after a restart
			s := w.reconcile(link)
			require.False(w.t, s.Sources[0].OK)
			require.NotEmpty(w.t, s.Sources[0].Error)
			require.Len(w.t, must.Get(w.gate.Open(w.ctx, guest("victim")))(w.t), 1, "the wish that waits goes on waiting")
			require.Empty(w.t, must.Get(w.gate.Open(w.ctx, guest("bystander")))(w.t))
		}
		return nothingPlanned
	}}
}

// relays has a hub relay envelopes, in as many rounds as they take.
func relays(w *world, rounds int, list ...api.Envelope) gatedhub.Status {
	w.t.Helper()
	l := hubOf(w, map[string]http.HandlerFunc{gatedhub.PathOperations: served(gatedhub.Operations{Host: testHost, Operations: list})})
	for range rounds {
		l.Round(w.ctx)
	}
	return l.Status()
}

// envelopeOf is a relayed envelope as a caller on the socket hands it in.
func envelopeOf(e api.Envelope) authz.Envelope {
	b, err := e.Open()
	if err != nil {
		panic(err)
	}
	return authz.Envelope{Payload: b, Signatures: e.Signatures}
}

// signedAlone is what opsign sign makes for a destroy of victim as it is now.
func signedAlone(w *world, by key) api.Envelope {
	w.t.Helper()
	o := w.observe("victim")
	now := w.now().UTC().Truncate(time.Second)
	b, err := op.Payload{Gate: w.gate.ID(), Host: testHost, Op: "guest.destroy", Target: guest("victim"), Incarnation: o.Incarnation,
		State: o.Fingerprint, Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: now, ExpiresAt: now.Add(time.Hour)}.Encode()
	require.NoError(w.t, err)
	return api.EnvelopeOf(b, by.sign(w.t, op.Operational, b))
}

var hubRows = []attack{
	badHub("P09h", "a hub that answers 500", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }),
	badHub("P09i", "a hub that answers 204", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }),
	badHub("P09j", "a hub that answers HTML", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "<!DOCTYPE html><html>sign in</html>")
	}),
	badHub("P09k", "a hub that answers 2 GiB", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		for chunk := []byte(strings.Repeat(" ", 1<<20)); r.Context().Err() == nil; {
			if _, err := rw.Write(chunk); err != nil {
				return
			}
		}
	}),
	badHub("P09l", "a hub that breaks off in the middle of a document", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "4000")
		wishes("  - name: bystander\n    state: absent\n")(rw, r)
	}),
	badHub("P09m", "a hub without a set, and a hub that says that nothing changed when it was not asked", served(
		map[string]any{"revision": "r2", "host": testHost, "sets": map[string]string{}})),
	{id: "P10b", what: "a hub that answers with another host's wishes", want: refusal.TargetMismatch, run: func(w *world) error {
		w.armUnlogged("the answer is refused whole; status says so")
		d := gatedhub.Desired{Revision: "r1", Host: "pve2", Sets: map[string]string{"hub": document("  - name: victim\n    state: absent\n")}}
		require.ErrorIs(w.t, inStatus(w, w.reconcile(hubOf(w, map[string]http.HandlerFunc{gatedhub.PathDesired: served(d)}))), refusal.TargetMismatch)
		d.Host, d.Sets["hub"] = testHost, strings.Replace(d.Sets["hub"], testHost, "pve2", 1)
		s := w.reconcile(hubOf(w, map[string]http.HandlerFunc{gatedhub.PathDesired: served(d)}))
		require.ErrorIs(w.t, w.planned("victim"), nothingPlanned)
		return inStatus(w, s)
	}},
	{id: "P11b", what: "a hub asks for thousands of destroys, poll after poll", want: refusal.OverLimit, run: func(w *world) error {
		w.rules.OpenPerSource = 2
		w.restart()
		text := "  - {name: victim, state: absent}\n  - {name: bystander, state: absent}\n"
		for i := range 3 {
			w.plant(fmt.Sprintf("g%d", i))
			text += fmt.Sprintf("  - {name: g%d, state: absent}\n", i)
		}
		for i := range 3000 {
			text += fmt.Sprintf("  - {name: n%d, state: absent}\n", i)
		}
		w.arm()
		w.allow.finale = []string{"victim", "bystander", "g0", "g1", "g2"}
		l := hubOf(w, map[string]http.HandlerFunc{gatedhub.PathDesired: wishes(text)})
		for range 3 {
			l.Round(w.ctx)
			require.Equal(w.t, []string{"hub"}, w.reconcile(l).Full)
			require.Len(w.t, must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t), 2)
		}
		for _, name := range w.allow.finale { // two of them have a request
			if len(must.Get(w.gate.Open(w.ctx, guest(name)))(w.t)) == 0 {
				return failure(w.gate.Want(w.ctx, "hub", ask("guest.destroy", name)))
			}
		}
		return nil
	}},
	{id: "P11c", what: "a hub relays 10,000 operations that nobody signed, and 100,000", want: refusal.Malformed, run: func(w *world) error {
		w.arm()
		list := make([]api.Envelope, 100_000)
		for i := range list {
			list[i] = api.Envelope{Payload: "e30=", Signatures: []string{fmt.Sprint(i)}}
		}
		require.ErrorIs(w.t, relays(w, 1, list...).RelayErr, refusal.Oversized)
		s := relays(w, 2, list[:gatedhub.MaxOperations]...)
		require.Equal(w.t, 64, s.Refused, "a few of them a poll")
		_, err := w.gate.ApproveOffline(w.ctx, gatedhub.Requester("http://another.example.com"), envelopeOf(list[0]))
		return err
	}},
	{id: "T03z", what: "a hub relays an operation that ran, again and after a restart, when the guest was made again", want: refusal.Replayed,
		run: func(w *world) error {
			e := signedAlone(w, w.alice)
			relays(w, 1, e)
			require.NoError(w.t, w.runAll())
			require.False(w.t, w.observe("victim").Present)
			w.makeFor(admin, "victim") // a name of the trash is free for operators
			w.arm()
			for range 3 {
				s := relays(w, 2, e)
				require.Zero(w.t, s.Refused+s.Untried, "it is known what became of it")
				w.restart()
			}
			return w.sendOffline(envelopeOf(e))
		}},
	{id: "T11z", what: "a hub relays the signed payload of a request that was cancelled", want: refusal.Cancelled, run: func(w *world) error {
		r := w.requestBy(other, ask("guest.destroy", "victim"))
		e := api.EnvelopeOf(r.Payload, w.alice.sign(w.t, op.Operational, r.Payload))
		must.Get(w.gate.Cancel(w.ctx, other, r.ID.Job))(w.t)
		w.arm()
		relays(w, 2, e)
		return w.sendOffline(envelopeOf(e))
	}},
	{id: "S02z", what: "a hub relays an operation that it signed itself", want: refusal.UnknownSigner, run: func(w *world) error {
		w.arm()
		s := relays(w, 3, signedAlone(w, w.mallory))
		require.Equal(w.t, 1, s.Refused)
		return w.sendOffline(envelopeOf(signedAlone(w, w.mallory)))
	}},
}
