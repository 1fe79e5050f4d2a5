package evidence_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/evidence"
	"gated/internal/nonce"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// lost is the fingerprint of a key that is revoked.
const lost = "SHA256:uJ0z6wXFq8mZl6yqv1kqf9pX0dVn0l3Qk8o0Qe3m1dU"

var by = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}

// world is a gate over guests that are there, which signs the heads of its log.
type world struct {
	t       testing.TB
	store   *store.Store
	gate    *gate.Gate
	key     checkpoint.Key
	alice   mint.Key
	wall    time.Time
	present bool
}

func (w *world) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	o := op.Observed{Target: l.Target, Present: w.present, Running: "stopped", Fingerprint: op.FingerprintOf(nil), Spec: op.Params{}}
	if o.Present {
		o.Incarnation = "i1"
	} else {
		o.Running = "absent"
	}
	return o, nil
}

// newWorld is a world whose list of signers has alice and more lines.
func newWorld(t testing.TB, lines ...string) *world {
	w := &world{t: t, alice: mint.Ed25519(t, "alice"), wall: gateworld.Noon, present: true, key: must.Get(checkpoint.NewKey(gateworld.ID))(t)}
	w.store = fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	trust := gateworld.Trust(t, strings.Join(append([]string{gateworld.Line(w.alice, op.Operational)}, lines...), "\n")).WithRevoked(must.Get(authz.LoadRevoked([]byte(lost + "\n")))(t))
	w.gate = gateworld.New(t, w.store, func() nonce.Reading { return nonce.Reading{Wall: w.wall, Elapsed: w.wall.Sub(gateworld.Noon)} },
		gate.Config{Observer: w, Host: "pve1", Trust: trust, Key: w.key.Signer, Epoch: 1})
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, gateworld.ID, w.key.Public); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO trust(epoch, text, how, at) VALUES(1, ?, 'init', ?)`, trust.Text(), w.wall.UnixNano()); err != nil {
			return err
		}
		return w.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: w.key.Public}},
			audit.Entry{Kind: audit.Rotated, By: "gate", Parts: audit.Parts{SignersFile: audit.SignersFile{Epoch: 1, SHA256: trust.Digest(), How: "init"}}},
			w.gate.InForceEntry(audit.Started))
	}))
	return w
}

// ask asks to destroy a guest, and returns the request.
func (w *world) ask(name string) op.RequestID {
	w.t.Helper()
	j := must.Get(w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Steps: []op.Ask{gateworld.Ask("guest.destroy", name)}, Reason: "it is old"}))(w.t)
	require.Equal(w.t, op.StatePending, j.State())
	return j.Steps[0].ID
}

func (w *world) request(id op.RequestID) op.Request {
	return must.Get(w.gate.Request(w.t.Context(), id))(w.t)
}

// destroyed asks to destroy a guest, has it approved, and runs it.
func (w *world) destroyed(name string) op.RequestID {
	w.t.Helper()
	return w.destroyedBy(name, func(payload []byte) authz.Envelope { return gateworld.Signed(w.t, payload, w.alice) })
}

func (w *world) destroyedBy(name string, sign func(payload []byte) authz.Envelope) op.RequestID {
	w.t.Helper()
	id := w.ask(name)
	w.wall = w.wall.Add(time.Second)
	must.Get(w.gate.Approve(w.t.Context(), by, id, sign(w.request(id).Payload)))(w.t)
	w.run(id)
	return id
}

func (w *world) run(id op.StepID) {
	w.t.Helper()
	w.wall = w.wall.Add(time.Second)
	p := must.Get(w.gate.Permit(w.t.Context(), id))(w.t)
	now := must.Get(w.Observe(w.t.Context(), p.Step().Look()))(w.t)
	require.NoError(w.t, p.Use(w.t.Context(), now))
	w.present = false
	after := must.Get(w.Observe(w.t.Context(), p.Step().Look()))(w.t)
	must.Get(w.gate.Record(w.t.Context(), id, gate.Outcome{After: &after}))(w.t)
	w.present = true
}

// head is a line of opsign witness export, as far as the reader of evidence needs it, and the head.
func (w *world) head() (line string, kept evidence.Kept) {
	w.t.Helper()
	var s audit.NotedHead
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx *store.Tx) (err error) { s, err = audit.SignedHead(tx); return err }))
	return `{"type":"gated/witness/v1","note":` + quoted(w.t, s.Note) + "}\n", evidence.Kept{Checkpoint: s.Checkpoint, Note: s.Note}
}

// evidence returns the documents about a step.
func (w *world) evidence(id op.StepID, kept ...evidence.Kept) evidence.Document {
	w.t.Helper()
	var docs []evidence.Document
	err := w.store.View(w.t.Context(), func(tx *store.Tx) (err error) {
		docs, err = evidence.Maker{Host: "pve1", Key: &w.key, Kept: kept}.Job(tx, id.Job, id.Index)
		return err
	})
	require.NoError(w.t, err)
	require.Len(w.t, docs, 1)
	return docs[0]
}

func line(t testing.TB, d evidence.Document) string {
	return string(must.Get(d.Line())(t))
}

func quoted(t testing.TB, text string) string {
	return string(must.Get(json.Marshal(text))(t))
}

func entryOf(text string) (audit.Entry, error) { return audit.Decode([]byte(text)) }
