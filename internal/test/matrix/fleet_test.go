package matrix_test

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	gatedhub "gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
	"gated/internal/log/witness"
	"gated/internal/test/must"
	"gated/internal/wire/convert"
)

// anyHost takes the reports of every host.
func anyHost(context.Context, string) error { return nil }

// queueOf has the gate report to a hub, and returns what the hub's queue says.
func queueOf(w *world) []api.FleetRow {
	w.t.Helper()
	kept := hubstate.NewMemory(anyHost)
	l := hubOf(w, map[string]http.HandlerFunc{
		gatedhub.PathDesired: wishes("  - name: bystander\n    memory: 64MiB\n"),
		gatedhub.PathReport: func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				var report gatedhub.Report
				if report, err = gatedhub.DecodeReport(body, testHost); err == nil {
					_, err = kept.Put(r.Context(), hubstate.Arrived{Host: testHost, Report: report, Body: body, At: w.now()})
				}
			}
			if err != nil {
				rw.WriteHeader(http.StatusBadRequest)
				return
			}
			rw.WriteHeader(http.StatusNoContent)
		},
	})
	l.Round(w.ctx)
	require.NoError(w.t, l.Status().ReportErr)
	return must.Get(kept.Queue(w.ctx, hubstate.Query{Limit: hubstate.PageRows}))(w.t).Requests
}

// gateSays is what the gate itself answers about a request, as opsign reads it.
func (w *world) gateSays(id string) (api.Status, api.Request, error) {
	w.t.Helper()
	s := api.Status{Gate: w.gate.ID(), Host: testHost}
	parsed, err := op.ParseStepID(id)
	if err != nil {
		return s, api.Request{}, err
	}
	r, err := w.gate.Request(w.ctx, parsed)
	if err != nil {
		return s, api.Request{}, err
	}
	out, err := convert.RequestOf(r)
	return s, out, err
}

// lyingQueue is a row in which a hub's queue says something else than the gate. What the operator's opsign compares is
// fetched from the gate before anything is signed.
func lyingQueue(id, what string, want refusal.Code, lie func(w *world, row *api.FleetRow)) attack {
	return attack{id: id, what: "a hub's queue " + what, want: want, run: func(w *world) error {
		w.destroyRequest()
		w.request(ask("guest.destroy", "bystander"))
		rows := queueOf(w)
		require.Len(w.t, rows, 2)
		w.armUnlogged("it is the operator's opsign that refuses")
		for _, row := range rows {
			s, r, err := w.gateSays(row.Request)
			require.NoError(w.t, err)
			require.NoError(w.t, client.Compare(row, s, r), "the true word")
		}
		lie(w, &rows[0])
		s, r, err := w.gateSays(rows[0].Request)
		if err != nil {
			return err
		}
		return client.Compare(rows[0], s, r)
	}}
}

// fleetHub is a hub as a witness of one gate.
type fleetHub struct {
	w    *world
	kept *hubstate.Memory
}

// send sends the gate's newest head, as a gate does that was told which head the hub keeps.
func (h fleetHub) send() error {
	h.w.t.Helper()
	head := gatedhub.Head{Host: testHost, Gate: h.w.gate.ID(), Proof: []string{}}
	was := must.Get(h.kept.Head(h.w.ctx, h.w.gate.ID()))(h.w.t)
	now := must.Get(gateLog{h.w}.Head(h.w.ctx))(h.w.t)
	head.Note, head.Key = now.Note, now.Key
	if was != nil {
		head.From = was.Head().Size
		if proof, err := (gateLog{h.w}).Consistency(h.w.ctx, head.From, now.Seq); err == nil {
			head.Proof = proof
		}
	}
	_, err := hubstate.TakeHead(h.w.ctx, h.kept, head, h.w.now())
	return err
}

// putBack is a row in which a gate's state goes back, and the hub hears of it.
func putBack(id, what string, why witness.Why, since func(w *world)) attack {
	return attack{id: id, what: what, want: refusal.BindingMismatch, run: func(w *world) error {
		w.keyed()
		w.destroyRequest()
		h := fleetHub{w, hubstate.NewMemory(anyHost)}
		require.NoError(w.t, h.send())
		goBack := w.copyOfState()
		w.works()
		require.NoError(w.t, h.send(), "its log goes on")
		kept := must.Get(h.kept.Head(w.ctx, w.gate.ID()))(w.t)
		goBack()
		since(w)
		w.armUnlogged("it is the hub that refuses")
		err := h.send()
		var odd *hubstate.Contradiction
		if !errors.As(err, &odd) {
			return err
		}
		require.Equal(w.t, why, odd.Evidence.Why)
		require.Equal(w.t, kept, must.Get(h.kept.Head(w.ctx, w.gate.ID()))(w.t), "what it keeps is what it was")
		line := must.Get(odd.Evidence.Line())(w.t)
		must.Get(witness.ParseRecord(line[:len(line)-1]))(w.t)
		return refusal.New(refusal.BindingMismatch, "%v", err)
	}}
}

var fleetRows = []attack{
	lyingQueue("F01a", "calls a destroy a start", refusal.BindingMismatch, func(_ *world, row *api.FleetRow) { row.Op = "guest.start" }),
	lyingQueue("F01b", "names another guest", refusal.BindingMismatch, func(_ *world, row *api.FleetRow) { row.Target = "guest/scratch" }),
	lyingQueue("F01c", "has the digest of another payload", refusal.BindingMismatch,
		func(_ *world, row *api.FleetRow) { row.PayloadSHA256 = op.SHA256([]byte("another")) }),
	lyingQueue("F01d", "puts the row under another gate", refusal.BindingMismatch, func(_ *world, row *api.FleetRow) { row.Gate = strangeGate }),
	lyingQueue("F01e", "puts the row under another host", refusal.BindingMismatch, func(_ *world, row *api.FleetRow) { row.Host = "pve2" }),
	lyingQueue("F01f", "exchanges two requests", refusal.BindingMismatch, func(w *world, row *api.FleetRow) {
		for _, other := range queueOf(w) {
			if other.Request != row.Request {
				row.Request = other.Request
				return
			}
		}
	}),
	lyingQueue("F01g", "makes a request up", refusal.UnknownTarget, func(_ *world, row *api.FleetRow) { row.Request = "j99.1" }),
	lyingQueue("F01h", "has an id that is none", refusal.Malformed, func(_ *world, row *api.FleetRow) { row.Request = "j1.1; rm -rf /" }),
	putBack("F02a", "a gate's state is put back to before what its hub saw", witness.Shorter, func(*world) {}),
	putBack("F02b", "a gate's state is put back, and its log grows longer than what its hub saw", witness.NoProof, func(w *world) {
		w.request(ask("guest.destroy", "bystander")) // otherwise it would have the same entries again
		for range 3 {
			w.works()
		}
	}),
}
