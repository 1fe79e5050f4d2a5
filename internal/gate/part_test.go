package gate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// parts is one scope with reservations in memory: the holder of each, by id.
type parts struct {
	mu   sync.Mutex
	held map[string]string
	anew bool // the scope has another incarnation
}

var theScope = op.Target{Kind: op.KindScope, Name: "s3"}

func (p *parts) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := op.Params{}
	for id, who := range p.held {
		whole[id] = who
	}
	o := op.Observed{Target: l.Target, Present: true, Incarnation: "one", Fingerprint: op.FingerprintOf(whole.Canonical()),
		Facts: []op.Fact{{Name: "all", Text: "of them"}}}
	if id := l.Params.Str("reservation"); l.Op == op.ForceTransfer && p.held[id] == "" {
		o.Missing = "there is no " + id + " in scope/s3: it has ended, or is another scope's"
	} else if l.Op == op.ForceTransfer {
		o.Fingerprint, o.Facts = op.FingerprintOf([]byte(id+p.held[id])), []op.Fact{{Name: id, Text: p.held[id]}}
	}
	if p.anew {
		o.Incarnation = "two"
	}
	return o, nil
}

func (p *parts) set(id, who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[id] = who; who == "" {
		delete(p.held, id)
	}
}

func newPartsWorld(t *testing.T) (*world, *parts) {
	t.Parallel()
	p := &parts{held: map[string]string{"r1": "alma", "r2": "bert"}}
	return newWorldOn(t, p), p
}

func give(id string) op.Ask {
	return op.Ask{Op: op.ForceTransfer, Target: theScope, Params: op.Params{"reservation": id, "to": "cora"}}
}

var takeAll = op.Ask{Op: op.ReleaseAll, Target: theScope}

func (w *world) again(r op.Request) op.Request {
	w.t.Helper()
	r = must.Get(w.gate.Request(w.ctx, r.ID))(w.t)
	return r
}

// uses gets the permit of a step and uses it on the present target.
func (w *world) uses(r op.Request) error {
	w.t.Helper()
	p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
	now := must.Get(w.observer.Observe(w.ctx, p.Step().Look()))(w.t)
	return p.Use(w.ctx, now)
}

// TestASignatureCoversThePartThatItNames: a change of another part of the target
// does not make the request stale, and the gate does not issue it anew.
func TestASignatureCoversThePartThatItNames(t *testing.T) {
	w, p := newPartsWorld(t)
	all, one := w.request(takeAll), w.request(give("r1"))
	require.Equal(t, []op.Fact{{Name: "r1", Text: "alma"}}, one.Facts, "people see what they sign for")
	require.Equal(t, []op.Fact{{Name: "all", Text: "of them"}}, all.Facts)
	p.set("r3", "dora")
	p.set("r2", "")
	require.NoError(t, w.gate.Refresh(w.ctx, theScope))
	require.NotEqual(t, all.Nonce, w.again(all).Nonce)
	require.Equal(t, one.Payload, w.again(one).Payload)
	shown := must.Get(w.gate.Shown(w.ctx, one.ID))(t)
	require.Equal(t, one.Facts, shown.Facts)
	require.NotZero(t, shown.FactsAt)
	_, facts := must.Two(w.gate.Explain(w.ctx, hub, give("r1")))(t)
	require.Equal(t, one.Facts, facts)

	require.Equal(t, one.ID.Job, must.Get(w.submit(give("r1")))(t).ID, "it is the same wish")
	require.Equal(t, one.Payload, w.again(one).Payload)
	must.Get(w.approve(one))(t)
	p.set("r4", "eva")
	require.NoError(t, w.uses(one))
	require.Equal(t, op.StateDispatched, w.again(one).Step.State)
	w.verifyLog()
}

// TestAPartThatChanged: the gate issues the request anew, and the old signature does
// not count.
func TestAPartThatChanged(t *testing.T) {
	w, p := newPartsWorld(t)
	one := w.request(give("r1"))
	p.set("r1", "bert")
	must.Fail(w.approve(one))(t, refusal.StaleTarget)
	require.NoError(t, w.gate.Refresh(w.ctx, theScope))
	r := w.again(one)
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, []op.Fact{{Name: "r1", Text: "bert"}}, r.Facts)
	must.Fail(w.approve(one))(t, refusal.Superseded)
	must.Get(w.approve(r))(t)
	p.set("r1", "alma")
	require.ErrorIs(t, w.uses(r), refusal.StaleTarget)
	require.Equal(t, op.StateRefused, w.again(r).Step.State)
}

// TestAPartThatIsNotThere: the gate refuses the step, and a request for it does not
// wait for ever.
func TestAPartThatIsNotThere(t *testing.T) {
	w, p := newPartsWorld(t)
	_, err := w.submit(give("r9"))
	require.ErrorIs(t, err, refusal.UnknownTarget)
	require.ErrorContains(t, err, "there is no r9 in scope/s3: it has ended, or is another scope's")
	_, _, err = w.gate.Explain(w.ctx, hub, give("r9"))
	require.ErrorIs(t, err, refusal.UnknownTarget)

	waits, approved := w.request(give("r1")), w.request(give("r2"))
	must.Get(w.approve(approved))(t)
	p.set("r1", "")
	p.set("r2", "")
	must.Fail(w.approve(waits))(t, refusal.StaleTarget)
	require.True(t, w.wakesScope(), "so that it is looked at again")
	require.Equal(t, waits.Facts, must.Get(w.gate.Shown(w.ctx, waits.ID))(t).Facts, "what it was")
	require.NoError(t, w.gate.Refresh(w.ctx, theScope))
	require.Equal(t, op.StateSuperseded, w.again(waits).Step.State)
	n, _ := w.nonceOf(waits.Nonce)
	require.Equal(t, nonce.Superseded, n.Fate)
	require.ErrorIs(t, w.uses(approved), refusal.StaleTarget)
	require.Equal(t, op.StateRefused, w.again(approved).Step.State)
	w.verifyLog()
}

func (w *world) wakesScope() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.woken[theScope]
}

// TestAPartThatEndedAsItsPayloadExpired: the gate does not issue the request anew.
func TestAPartThatEndedAsItsPayloadExpired(t *testing.T) {
	w, p := newPartsWorld(t)
	one := w.request(give("r1"))
	p.set("r1", "")
	w.Pass(one.ExpiresAt.Sub(one.IssuedAt) + 2*gate.Skew)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, op.StateSuperseded, w.again(one).Step.State)
}

// TestAPartOfAnotherIncarnation: the part is gone with its target.
func TestAPartOfAnotherIncarnation(t *testing.T) {
	w, p := newPartsWorld(t)
	one := w.request(give("r1"))
	p.anew = true
	must.Fail(w.approve(one))(t, refusal.StaleTarget)
	require.NoError(t, w.gate.Refresh(w.ctx, theScope))
	require.Equal(t, op.StateSuperseded, w.again(one).Step.State)
}

// TestASignatureFromBeforeCoversAPart: the same, if an operator wrote the payload.
func TestASignatureFromBeforeCoversAPart(t *testing.T) {
	w, p := newPartsWorld(t)
	offline := func(change func(*op.Payload)) error {
		one := w.request(give("r1"))
		b := must.Get(op.DecodePayload(one.Payload))(t)
		b.Nonce = op.NewNonce(time.Now())
		change(&b)
		bytes := must.Get(b.Encode())(t)
		_, err := w.gate.ApproveOffline(w.ctx, hub, authz.Envelope{Payload: bytes, Signatures: []string{carol.sign(t, op.Coordination.Namespace(), bytes)}})
		return err
	}
	whole := must.Get(w.observer.Observe(w.ctx, op.At(theScope)))(t)
	require.ErrorIs(t, offline(func(b *op.Payload) { b.State = whole.Fingerprint }), refusal.StaleTarget)
	require.ErrorIs(t, offline(func(b *op.Payload) { b.Params["reservation"] = "r2" }), refusal.StaleTarget)
	require.ErrorIs(t, offline(func(b *op.Payload) { b.Params["reservation"] = "r9" }), refusal.UnknownTarget)
	require.NoError(t, offline(func(*op.Payload) { p.set("r3", "dora") }))
}

// TestWhatToDoAboutABusyScope: the scope changes while agents work there.
func TestWhatToDoAboutABusyScope(t *testing.T) {
	w, p := newPartsWorld(t)
	all := w.request(takeAll)
	p.set("r3", "dora")
	_, err := w.approve(all)
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.Contains(t, refusal.As(err).Hint, "end the agents")
	must.Get(w.approve(w.request(give("r1"))))(t, "one of them waits for no request")
}
